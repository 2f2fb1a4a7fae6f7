import type { Settlement } from "../core/retry/bus-action.ts";
import type { Packet } from "../protocol/packet.ts";
import type { RefusalCode } from "../protocol/signature.ts";

/**
 * Messaging between processes, in three delivery modes.
 *
 * Durable (`publish`, `consume`): at least once per consumer group.
 * 1. `publish` resolves once the message survives a crash of any control plane process, or once a consumer has
 *    acknowledged it. It rejects if neither is known. A retried `publish` may deliver the message twice.
 * 2. Each group receives each message at least once. One member of the group holds it at a time. The bus extends the
 *    ack deadline while the handler runs; it redelivers `ackWaitMs` after the holder's process has died.
 * 3. The bus applies the handler's settlement exactly: `ack` and `term` end the message, `nak` redelivers it, `nakDelay`
 *    redelivers it after the delay. A handler that throws settles as `nakDelay` of one second.
 * 4. A message that cannot be decoded is delivered as `undecodable`, a packet that fails signature verification or has
 *    another protocol version as `refused`, both with the raw bytes. The bus drops neither.
 * 5. At most `inFlightMax` deliveries of one `consume` call are unsettled at a time.
 *
 * Broadcast (`broadcast`, `subscribe`): at most once to every subscriber that is connected. Packets that fail
 * verification are counted and dropped.
 *
 * Dispatch (`dispatch`, `serve`): at most once to one server of the subject. `no_responders` means that the subject has no
 * server. `sent` does not mean that the packet was processed: the job record and its deadline decide.
 *
 * Adapters send the calls of one tick in one round trip: callers start many calls and await them together.
 */
export interface Bus {
  /**
   * True if workers built on other implementations of the wire protocol can serve this bus. Such workers may send no
   * heartbeats, and read their input from the blob that the packet points to.
   */
  readonly hasThirdPartyWorkers: boolean;

  /**
   * One timer releases all delayed naks of a consumer, and every nak restarts it with this delay: while naks arrive more
   * often, none is redelivered. Absent: each delayed nak has its own timer.
   */
  readonly nakTimerMs?: number;

  publish(message: Message): Promise<void>;
  consume(subject: string, group: string, handler: Handler): Promise<Stop>;

  broadcast(subject: string, packet: Packet): void;
  /** False only if the subject certainly has no subscribers: the caller can skip building the packet. */
  hasSubscribers(subject: string): boolean;
  subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop>;

  dispatch(subject: string, packet: Packet): Promise<Dispatched>;
  serve(subject: string, handler: (packet: Packet) => void): Promise<Stop>;
}

export interface Message {
  /** Deduplication key: best effort, for two minutes. It must contain the attempt number. */
  readonly id: string;
  readonly subject: string;
  readonly packet: Packet;
}

export interface Delivery {
  readonly id: string;
  readonly subject: string;
  /** Delivery count of this message in this group, from 1. */
  readonly attempt: number;
  readonly content: Content;
}

export type Content =
  | { readonly kind: "packet"; readonly packet: Packet }
  | { readonly kind: "undecodable"; readonly bytes: Uint8Array; readonly error: string }
  | { readonly kind: "refused"; readonly bytes: Uint8Array; readonly code: RefusalCode; readonly error: string };

export type Handler = (delivery: Delivery) => Promise<Settlement>;

export type Dispatched = "sent" | "no_responders";

/** Stops new deliveries and waits for those in progress. */
export type Stop = () => Promise<void>;

export interface BusOptions {
  readonly ackWaitMs: number;
  /** The broker's delivery limit. Retry budgets end before it. */
  readonly deliverMax: number;
  readonly inFlightMax: number;
}
