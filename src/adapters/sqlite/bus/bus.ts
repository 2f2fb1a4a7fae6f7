import type { Bus, BusOptions, Dispatched, Handler, Message, Stop } from "../../../ports/bus.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { Log } from "../../../ports/log.ts";
import type { Packet } from "../../../protocol/packet.ts";
import { RecentIds } from "../../recent-ids.ts";
import type { GroupCommit } from "../group-commit.ts";
import { ConsumerGroup } from "./consumer-group.ts";
import type { BusContext } from "./disk-queue.ts";
import { type MessageRows, NO_GROUP, type StoredMessages } from "./message-rows.ts";
import { LocalPubSub } from "./pubsub.ts";

/**
 * The bus of the embedded world: one process, durable messages in the data directory.
 *
 * 1. A message whose handler ends it within a grace period is never written: the effects of the handler are on disk, and
 *    `publish` resolves after them.
 * 2. Other messages are written in the batches of the store, and redelivered after a restart.
 * 3. A consumer group that subscribed once gets every later message, also while it has no members. A subject without groups
 *    keeps its messages for its first group.
 */
export class SqliteBus implements Bus {
  readonly hasThirdPartyWorkers = false;
  readonly #context: BusContext;
  readonly #subjects = new Map<string, Map<string, ConsumerGroup>>();
  readonly #deduplicator: Deduplicator;
  readonly #pubsub: LocalPubSub;
  /** Checks of messages that are only in memory, by the batch in which they were added; the last is the current one. */
  #graceChecks: (() => boolean)[][] = [];
  #isGraceScheduled = false;

  static async open(
    writer: GroupCommit,
    rows: MessageRows,
    clock: Clock,
    log: Log,
    options: BusOptions,
  ): Promise<SqliteBus> {
    const stored = await writer.read("memory", () => rows.stored());
    return new SqliteBus({ writer, rows, clock, log, options }, stored);
  }

  private constructor(context: Omit<BusContext, "newSeq" | "afterGrace">, { groups, lastSeq }: StoredMessages) {
    let seq = lastSeq;
    this.#context = { ...context, newSeq: () => ++seq, afterGrace: (check) => this.#afterGrace(check) };
    this.#deduplicator = new Deduplicator(context.clock);
    this.#pubsub = new LocalPubSub(context.log);
    for (const group of groups) {
      this.#groupsOf(group.subject).set(group.name, new ConsumerGroup(this.#context, group.subject, group.name, group));
    }
  }

  publish(message: Message): Promise<void> {
    return this.#deduplicator.once(message.id, () => {
      const groups = this.#groupsOf(message.subject);
      if (groups.size === 0) groups.set(NO_GROUP, this.#newGroup(message.subject, NO_GROUP));
      const published = [...groups.values()].map((group) => group.publish(message));
      return published.length === 1 ? published[0]! : Promise.all(published).then(() => {});
    });
  }

  async consume(subject: string, name: string, handler: Handler): Promise<Stop> {
    const groups = this.#groupsOf(subject);
    const orphans = groups.get(NO_GROUP);
    if (orphans) {
      groups.delete(NO_GROUP);
      orphans.rename(name);
    }
    const group = groups.get(name) ?? orphans ?? this.#newGroup(subject, name);
    groups.set(name, group);
    const isFirst = groups.size === 1;
    const { writer, rows } = this.#context;
    await writer.write("tables", () => rows.subscribe(subject, name, isFirst));
    return group.join(handler);
  }

  broadcast(subject: string, packet: Packet): void {
    this.#pubsub.broadcast(subject, packet);
  }

  hasSubscribers(subject: string): boolean {
    return this.#pubsub.hasSubscribers(subject);
  }

  subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#pubsub.subscribe(subject, handler);
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    return this.#pubsub.dispatch(subject, packet);
  }

  serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#pubsub.serve(subject, handler);
  }

  /** Queues the writes of messages that are only in memory. The writer must be closed afterwards. */
  close(): void {
    for (const groups of this.#subjects.values()) for (const group of groups.values()) group.close();
  }

  #groupsOf(subject: string): Map<string, ConsumerGroup> {
    let groups = this.#subjects.get(subject);
    if (!groups) {
      groups = new Map();
      this.#subjects.set(subject, groups);
    }
    return groups;
  }

  #newGroup(subject: string, name: string): ConsumerGroup {
    return new ConsumerGroup(this.#context, subject, name, { size: 0, oldestMs: null });
  }

  #afterGrace(check: () => boolean): void {
    if (this.#graceChecks.length === 0) this.#graceChecks.push([]);
    this.#graceChecks.at(-1)!.push(check);
    this.#scheduleGraceChecks();
  }

  #scheduleGraceChecks(): void {
    if (this.#isGraceScheduled) return;
    this.#isGraceScheduled = true;
    this.#context.writer.afterBatch(() => {
      this.#isGraceScheduled = false;
      const due = this.#graceChecks.length >= GRACE_BATCHES ? this.#graceChecks.shift()! : [];
      this.#graceChecks.push(due.filter((check) => !check()));
      if (this.#graceChecks.some((checks) => checks.length > 0)) this.#scheduleGraceChecks();
      else this.#graceChecks = [];
    });
  }
}

/** Two messages with one id are one message: during the publish, and for some minutes after it. */
class Deduplicator {
  readonly #clock: Clock;
  readonly #running = new Map<string, Promise<void>>();
  readonly #published = new RecentIds(RECENT_MS, RECENT_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  once(id: string, publish: () => Promise<void>): Promise<void> {
    const running = this.#running.get(id);
    if (running) return running;
    if (this.#published.has(id, this.#clock.now())) return Promise.resolve();
    const published = publish().then(
      () => {
        this.#running.delete(id);
        this.#published.add(id, this.#clock.now());
      },
      (error: unknown) => {
        // A failed publish may be repeated at once.
        this.#running.delete(id);
        throw error;
      },
    );
    this.#running.set(id, published);
    return published;
  }
}

/** Enough for a handler that loads, takes a lock and commits. */
const GRACE_BATCHES = 6;
/** Ids are kept for at least half of this. */
const RECENT_MS = 240_000;
const RECENT_MAX = 200_000;
