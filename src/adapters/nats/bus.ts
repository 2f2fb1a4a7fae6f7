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
import { type PacketForm, PLAIN } from "../packet-form.ts";
import { connectNats, type NatsLink, type NatsServer } from "./connection.ts";
import { NatsMember } from "./consumer.ts";
import { NatsWork } from "./dispatch.ts";
import { describeError, refused, unavailable } from "./errors.ts";
import { NatsPublisher } from "./publisher.ts";
import { consumerName, ensureGroup, ensureStream, type GroupPlan, type StreamPlan, streamsOn } from "./stream.ts";

/**
 * The bus on NATS: JetStream for what must not be lost, core NATS for the rest. What it promises is in `ports/bus.ts`;
 * how it keeps that, in `nats-publisher.ts`, `nats-consumer.ts` and `nats-work.ts`.
 *
 * The stream and the consumers of `groups` are there when this resolves. They are made here and not by whoever consumes
 * first, because the stream keeps only what somebody has to read: a submit that comes before the scheduler waits for it.
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
  /** How packets are written and read; without signatures unless said otherwise. */
  readonly form?: PacketForm;
  /** In front of every subject, with its dot; so that several buses can live on one server. */
  readonly prefix?: string;
  readonly stream?: string;
  readonly groups?: readonly Group[];
  /** Messages that the broker lets be unacknowledged for one group: those with handlers, and those that wait for a delay. */
  readonly ackPendingMax?: number;
  readonly streamBytesMax?: number;
  readonly streamMessagesMax?: number;
  readonly streamReplicas?: number;
  /** How long the server may be without an answer to a publish or a dispatch. */
  readonly timeoutMs?: number;
}

export interface Group {
  readonly subject: string;
  readonly group: string;
}

export class NatsBus implements Bus {
  readonly hasThirdPartyWorkers = true;
  readonly #link: NatsLink;
  readonly #manager: JetStreamManager;
  readonly #options: NatsBusOptions;
  readonly #form: PacketForm;
  readonly #prefix: string;
  readonly #stream: string;
  readonly #publisher: NatsPublisher;
  readonly #work: NatsWork;
  readonly #stops = new Set<Stop>();
  readonly #warnings: string[];
  /** Every group that this process knows of: a stream that has to be made anew is opened when all are there. */
  readonly #groups = new Map<string, GroupPlan>();

  constructor(link: NatsLink, manager: JetStreamManager, options: NatsBusOptions) {
    this.#link = link;
    this.#manager = manager;
    this.#options = options;
    this.#prefix = options.prefix ?? "";
    this.#stream = options.stream ?? STREAM;
    this.#warnings = [...link.server.warnings];
    const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    // Others watch the dead letters: there each packet is a message of its own.
    const subjects = DURABLE_SUBJECTS.map((one) => ({ name: one, subject: this.#prefix + one, isFramed: one !== DLQ }));
    this.#form = options.form ?? PLAIN;
    this.#publisher = new NatsPublisher(link, { form: this.#form, timeoutMs, subjects });
    this.#work = new NatsWork(link, { form: this.#form, log: options.log, timeoutMs });
  }

  /** What is at the other end, and what operators should know about it. */
  get server(): NatsServer {
    return { ...this.#link.server, warnings: this.#warnings };
  }

  get isConnected(): boolean {
    return this.#link.isConnected;
  }

  /** Packets that came outside the stream and could not be read. */
  get unreadable(): number {
    return this.#work.unreadable;
  }

  async ensure(): Promise<void> {
    for (const { subject, group } of this.#options.groups ?? GROUPS) this.#plan(subject, group);
    await this.#ensureStream();
    await this.#warnOfWorkStreams();
    this.#watchDeliveryCap();
  }

  publish(message: Message): Promise<void> {
    return this.#publisher.publish(message);
  }

  async consume(subject: string, group: string, handler: Handler): Promise<Stop> {
    if (!this.#link.isConnected) throw unavailable("not connected to nats");
    const plan = this.#plan(subject, group);
    await ensureGroup(this.#manager, plan);
    const member = new NatsMember(this.#link, this.#publisher, handler, {
      form: this.#form,
      stream: plan.stream,
      consumer: plan.consumer,
      group,
      subject,
      log: this.#options.log,
      ackWaitMs: this.#options.ackWaitMs,
      inFlightMax: this.#options.inFlightMax,
      ensure: () => this.#ensureStream(),
    });
    return this.#stoppable(member.stop);
  }

  /** Who else is connected is not known here. */
  hasSubscribers(): boolean {
    return true;
  }

  broadcast(subject: string, packet: Packet): void {
    this.#work.tell(this.#prefix + subject, packet);
  }

  async subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#stoppable(await this.#work.listen(this.#prefix + subject, handler));
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    return this.#work.dispatch(this.#prefix + subject, packet);
  }

  async serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#stoppable(await this.#work.serve(this.#prefix + subject, handler));
  }

  /** Takes nothing new, waits for handlers and for what is on its way, then lets go. */
  async close(): Promise<void> {
    await Promise.all([...this.#stops].map((stop) => stop()));
    await this.#publisher.idle();
    await this.#link.close();
  }

  /** Lets go at once, as if the process had died: what is with handlers goes to others when the ack wait is over. */
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
      throw refused(`\`${subject}\` is not a durable subject: use \`listen\` or \`serve\``);
    }
    if (!/^[A-Za-z0-9_-]+$/.test(group))
      throw refused(`\`${group}\` is no name for a group: use letters, digits, - and _`);
    const { ackWaitMs, deliverMax, inFlightMax } = this.#options;
    return {
      stream: this.#stream,
      consumer: consumerName(group, subject),
      subject: this.#prefix + subject,
      ackPendingMax: this.#options.ackPendingMax ?? Math.max(ACK_PENDING_MIN, inFlightMax * 4),
      options: { ackWaitMs, deliverMax, inFlightMax },
    };
  }

  async #warnOfWorkStreams(): Promise<void> {
    for (const subject of [`${this.#prefix}job.>`, `${this.#prefix}worker.>`]) {
      for (const stream of await streamsOn(this.#manager, subject)) {
        const warning = `stream \`${stream}\` holds \`${subject}\`: it hides that nobody serves a topic; remove it`;
        this.#warnings.push(warning);
        this.#options.log.write("warn", "bus_stream_on_work", { warning });
      }
    }
  }

  /** Our budgets end before the broker's, so this is a bug or a wrong setting; but it must never be silent. */
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

const API_MS_MAX = 5_000;
const TIMEOUT_MS = 5_000;
const STREAM_BYTES_MAX = 1024 * 1024 * 1024;
const STREAM_MESSAGES_MAX = 1_000_000;
const ACK_PENDING_MIN = 4_096;
