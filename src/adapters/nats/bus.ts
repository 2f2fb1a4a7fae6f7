import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import type { Bus, BusOptions, Dispatched, Handler, Message, Stop } from "../../ports/bus.ts";
import type { Log } from "../../ports/log.ts";
import type { Packet } from "../../protocol/packet.ts";
import {
  DLQ,
  DURABLE_SUBJECTS,
  ENGINE_GROUP,
  RESULT,
  SCHEDULER_GROUP,
  STREAM,
  SUBMIT,
} from "../../protocol/subjects.ts";
import { type PacketCodec, UNSIGNED } from "../packet-codec.ts";
import { connectNats, type NatsLink, type NatsServer } from "./connection.ts";
import { NatsConsumer } from "./consumer.ts";
import { NatsDispatch } from "./dispatch.ts";
import { describeError, refused, unavailable } from "./errors.ts";
import { NatsPublisher } from "./publisher.ts";
import { consumerName, ensureGroup, ensureStream, type GroupPlan, type StreamPlan, streamsOn } from "./stream.ts";

/**
 * The bus on NATS: JetStream for durable messages (`publisher.ts`, `consumer.ts`), core NATS for broadcast and dispatch
 * (`dispatch.ts`).
 *
 * The stream and the consumers of `groups` exist when this resolves. The stream has interest retention, so the consumers
 * have to exist before the first publish: a job submitted before the scheduler starts then waits in the stream.
 */
export async function openNatsBus(url: string, options: NatsBusOptions): Promise<NatsBus> {
  const { log, name } = options;
  const link = await connectNats(url, { log, ...(name === undefined ? {} : { name }) });
  try {
    const manager = await jetstreamManager(link.connection, { checkAPI: false, timeout: API_MS_MAX });
    const bus = new NatsBus(link, manager, options);
    await bus.ensure();
    return bus;
  } catch (error) {
    await link.close();
    throw error;
  }
}

export interface NatsBusOptions extends BusOptions {
  readonly log: Log;
  readonly name?: string;
  /** Packet encoding; unsigned by default. */
  readonly codec?: PacketCodec;
  /** Prefix of all subjects, with the trailing dot: several buses can share a server. */
  readonly prefix?: string;
  readonly stream?: string;
  readonly groups?: readonly Group[];
  /** Limit of unacknowledged messages per group, those with a pending redelivery delay included. */
  readonly ackPendingMax?: number;
  readonly streamBytesMax?: number;
  readonly streamMessagesMax?: number;
  readonly streamReplicas?: number;
  /** Timeout of a publish or a dispatch. */
  readonly timeoutMs?: number;
}

export interface Group {
  readonly subject: string;
  readonly group: string;
}

export class NatsBus implements Bus {
  readonly hasThirdPartyWorkers = true;
  readonly nakTimerMs = NAK_TIMER_MS;
  readonly #link: NatsLink;
  readonly #manager: JetStreamManager;
  readonly #options: NatsBusOptions;
  readonly #codec: PacketCodec;
  readonly #prefix: string;
  readonly #stream: string;
  readonly #publisher: NatsPublisher;
  readonly #dispatch: NatsDispatch;
  readonly #stops = new Set<Stop>();
  readonly #warnings: string[];
  /** All groups known to this process: a stream that is created again opens once all of them exist. */
  readonly #groups = new Map<string, GroupPlan>();

  constructor(link: NatsLink, manager: JetStreamManager, options: NatsBusOptions) {
    this.#link = link;
    this.#manager = manager;
    this.#options = options;
    this.#prefix = options.prefix ?? "";
    this.#stream = options.stream ?? STREAM;
    this.#warnings = [...link.server.warnings];
    const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    // Third parties read the dead letters, so these are not framed.
    const subjects = DURABLE_SUBJECTS.map((one) => ({ name: one, subject: this.#prefix + one, isFramed: one !== DLQ }));
    this.#codec = options.codec ?? UNSIGNED;
    this.#publisher = new NatsPublisher(link, { codec: this.#codec, timeoutMs, subjects });
    this.#dispatch = new NatsDispatch(link, { codec: this.#codec, log: options.log, timeoutMs });
  }

  /** The server, with warnings for operators. */
  get server(): NatsServer {
    return { ...this.#link.server, warnings: this.#warnings };
  }

  get isConnected(): boolean {
    return this.#link.isConnected;
  }

  /** Core NATS packets that could not be decoded. */
  get unreadable(): number {
    return this.#dispatch.unreadable;
  }

  async ensure(): Promise<void> {
    for (const { subject, group } of this.#options.groups ?? GROUPS) this.#plan(subject, group);
    await this.#ensureStream();
    await this.#warnAboutDispatchStreams();
    this.#watchDeliveryCap();
  }

  publish(message: Message): Promise<void> {
    return this.#publisher.publish(message);
  }

  async consume(subject: string, group: string, handler: Handler): Promise<Stop> {
    if (!this.#link.isConnected) throw unavailable("not connected to nats");
    const plan = this.#plan(subject, group);
    await ensureGroup(this.#manager, plan);
    const consumer = new NatsConsumer(this.#link, this.#publisher, handler, {
      codec: this.#codec,
      stream: plan.stream,
      consumer: plan.consumer,
      group,
      subject,
      log: this.#options.log,
      ackWaitMs: this.#options.ackWaitMs,
      inFlightMax: this.#options.inFlightMax,
      ensure: () => this.#ensureStream(),
    });
    return this.#stoppable(consumer.stop);
  }

  /** Subscribers of other processes are unknown. */
  hasSubscribers(): boolean {
    return true;
  }

  broadcast(subject: string, packet: Packet): void {
    this.#dispatch.broadcast(this.#prefix + subject, packet);
  }

  async subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#stoppable(await this.#dispatch.subscribe(this.#prefix + subject, handler));
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    return this.#dispatch.dispatch(this.#prefix + subject, packet);
  }

  async serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#stoppable(await this.#dispatch.serve(this.#prefix + subject, handler));
  }

  /** Stops all subscriptions, waits for handlers and pending publishes, then disconnects. */
  async close(): Promise<void> {
    await Promise.all([...this.#stops].map((stop) => stop()));
    await this.#publisher.idle();
    await this.#link.close();
  }

  /** Disconnects at once, like a crash: unsettled messages are redelivered after the ack wait. */
  async abandon(): Promise<void> {
    await this.#link.connection.close();
  }

  #stoppable(stop: Stop): Stop {
    const once = async () => {
      await stop();
      this.#stops.delete(once);
    };
    this.#stops.add(once);
    return once;
  }

  #streamPlan(): StreamPlan {
    const { streamBytesMax, streamMessagesMax, streamReplicas } = this.#options;
    return {
      name: this.#stream,
      subjects: DURABLE_SUBJECTS.map((subject) => this.#prefix + subject),
      bytesMax: streamBytesMax ?? STREAM_BYTES_MAX,
      messagesMax: streamMessagesMax ?? STREAM_MESSAGES_MAX,
      replicas: streamReplicas ?? 1,
    };
  }

  #ensureStream(): Promise<void> {
    return ensureStream(this.#manager, this.#streamPlan(), [...this.#groups.values()]);
  }

  #plan(subject: string, group: string): GroupPlan {
    const plan = this.#groupPlan(subject, group);
    this.#groups.set(plan.consumer, plan);
    return plan;
  }

  #groupPlan(subject: string, group: string): GroupPlan {
    if (!(DURABLE_SUBJECTS as readonly string[]).includes(subject)) {
      throw refused(`\`${subject}\` is not a durable subject: use \`subscribe\` or \`serve\``);
    }
    if (!/^[A-Za-z0-9_-]+$/.test(group)) throw refused(`invalid group name \`${group}\`: use letters, digits, - and _`);
    const { ackWaitMs, deliverMax, inFlightMax } = this.#options;
    return {
      stream: this.#stream,
      consumer: consumerName(group, subject),
      subject: this.#prefix + subject,
      ackPendingMax: this.#options.ackPendingMax ?? Math.max(ACK_PENDING_MIN, inFlightMax * 4),
      options: { ackWaitMs, deliverMax, inFlightMax },
    };
  }

  async #warnAboutDispatchStreams(): Promise<void> {
    for (const subject of [`${this.#prefix}job.>`, `${this.#prefix}worker.>`]) {
      for (const stream of await streamsOn(this.#manager, subject)) {
        const warning = `stream \`${stream}\` captures \`${subject}\` and hides missing workers: remove the subject from it`;
        this.#warnings.push(warning);
        this.#options.log.write("warn", "bus_dispatch_stream_found", { warning });
      }
    }
  }

  /** Retry budgets end before the broker's limit, so reaching it is a bug or a wrong setting. */
  #watchDeliveryCap(): void {
    const subject = `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${this.#stream}.*`;
    this.#link.connection.subscribe(subject, {
      queue: "cordum-delivery-cap",
      callback: (_, message) => {
        try {
          const { consumer, stream_seq: sequence, deliveries } = message.json<Record<string, string | number>>();
          this.#options.log.write("error", "bus_delivery_cap_reached", { consumer, sequence, deliveries });
        } catch (error) {
          this.#options.log.write("error", "bus_delivery_cap_reached", { error: describeError(error) });
        }
      },
    });
  }
}

const GROUPS: readonly Group[] = [
  { subject: SUBMIT, group: SCHEDULER_GROUP },
  { subject: RESULT, group: ENGINE_GROUP },
];

/** JetStream restarts the redelivery timer of a consumer with this delay at every nak. */
const NAK_TIMER_MS = 10;
const API_MS_MAX = 5_000;
const TIMEOUT_MS = 5_000;
const STREAM_BYTES_MAX = 1024 * 1024 * 1024;
const STREAM_MESSAGES_MAX = 1_000_000;
const ACK_PENDING_MIN = 4_096;
