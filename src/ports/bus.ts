import type { Settlement } from "../core/retry/bus-action.ts";
import type { Packet } from "../protocol/packet.ts";
import type { SignatureCode } from "../protocol/signature.ts";

/**
 * Messages between processes: two promises, and a way to hand out work.
 *
 * Durable, `publish` and `consume`:
 * 1. `publish` resolves once the message survives the death of any process of ours, or once a consumer has acknowledged
 *    it. It rejects when that is not known; the caller tries again and the message may then be delivered twice.
 * 2. Each group sees each message at least once; one member at a time has it. A member that neither answers nor lives
 *    loses it after `ackWaitMs`; while a handler works in a live process the message is its own (in-progress signals).
 * 3. The handler's answer is obeyed exactly: `ack` and `term` end the message, `nak` redelivers, `nakDelay` not before
 *    its delay. A handler that throws is a bug and counts as `nakDelay` of one second.
 * 4. Bytes that cannot be read are delivered as `undecodable` with the raw bytes, packets whose signature is missing or
 *    wrong, where one is asked for, as `refused`; the bus never drops either by itself.
 * 5. At most `inFlightMax` deliveries are with the handlers of one `consume`.
 *
 * Best effort, `tell` and `listen`: every listener that is connected now probably hears it, once. What is refused is
 * counted and dropped.
 *
 * Work, `dispatch` and `serve`: to one server of the subject, at most once. `no_responders` means that nobody serves
 * the subject; `sent` means only that somebody was there. The record and its deadline are the truth.
 *
 * Calls of one tick travel together: adapters gather them and make one round trip, so callers start many calls and
 * await them together.
 */
export interface Bus {
  readonly workers: WorkersBehind;

  publish(message: Message): Promise<void>;
  consume(subject: string, group: string, handler: Handler): Promise<Stop>;

  broadcast(subject: string, packet: Packet): void;
  /** False when it is certain that nobody listens: then nobody has to think of something to tell. */
  hasSubscribers(subject: string): boolean;
  subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop>;

  dispatch(subject: string, packet: Packet): Promise<Dispatched>;
  serve(subject: string, handler: (packet: Packet) => void): Promise<Stop>;
}

/** Who can serve work on this bus: a difference between worlds as data, with its reason. */
export interface WorkersBehind {
  /**
   * Workers that others wrote, who say nothing of themselves and read their input at the pointer of the wire protocol.
   * Where there may be some, the input stands there before the work is sent, unless all who are known take it otherwise.
   */
  readonly mayBeOthers: boolean;
  readonly why: string;
}

export interface Message {
  /** Two messages with one id are one message (best effort, two minutes). It must contain the attempt. */
  readonly id: string;
  readonly subject: string;
  readonly packet: Packet;
}

export interface Delivery {
  readonly id: string;
  readonly subject: string;
  /** 1 for the first delivery of this message to this group. */
  readonly attempt: number;
  readonly content: Content;
}

export type Content =
  | { readonly kind: "packet"; readonly packet: Packet }
  | { readonly kind: "undecodable"; readonly bytes: Uint8Array; readonly error: string }
  | { readonly kind: "refused"; readonly bytes: Uint8Array; readonly code: SignatureCode; readonly error: string };

export type Handler = (delivery: Delivery) => Promise<Settlement>;

export type Dispatched = "sent" | "no_responders";

/** Stops taking new deliveries, waits for those in progress. */
export type Stop = () => Promise<void>;

export interface BusOptions {
  readonly ackWaitMs: number;
  /** The broker's own last resort; our budgets end before it. */
  readonly deliverMax: number;
  readonly inFlightMax: number;
}
