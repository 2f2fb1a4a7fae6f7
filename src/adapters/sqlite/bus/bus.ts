import type { Bus, BusOptions, Dispatched, Handler, Message, Stop } from "../../../ports/bus.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { Log } from "../../../ports/log.ts";
import type { Packet } from "../../../protocol/packet.ts";
import { LocalCalls } from "../../local-calls.ts";
import { RecentIds } from "../../recent-ids.ts";
import type { Writer } from "../writer.ts";
import type { GroupHost } from "./disk-queue.ts";
import { Group } from "./group.ts";
import { type FoundMessages, NO_GROUP } from "./rows.ts";

/**
 * The bus of an embedded world: one process, messages on disk where they have to be.
 *
 * 1. A message that a handler ends within a few turns of the writer is never written: what the handler did is on disk
 *    already, and its publisher is told only then.
 * 2. All else is written in the store's own transactions, and delivered again after a restart.
 * 3. A group that subscribed once gets every message, running or not. A subject that nobody ever consumed keeps its
 *    messages for the first group that does.
 */
export class SqliteBus implements Bus {
  readonly workers = { mayBeOthers: false, why: "all workers on this bus are in this process, and ours" };
  readonly #host: GroupHost;
  readonly #subjects = new Map<string, Map<string, Group>>();
  readonly #recent: OncePerId;
  readonly #calls: LocalCalls;
  /** Looks at messages that are not safe yet, by the turn in which they came; the last are the youngest. */
  #young: (() => boolean)[][] = [];
  #isTurning = false;

  static async open(writer: Writer, clock: Clock, log: Log, options: BusOptions): Promise<SqliteBus> {
    return new SqliteBus(writer, clock, log, options, await writer.read("findMessages"));
  }

  private constructor(writer: Writer, clock: Clock, log: Log, options: BusOptions, { groups, lastSeq }: FoundMessages) {
    let seq = lastSeq;
    const newSeq = () => ++seq;
    this.#host = { clock, log, writer, options, newSeq, watch: (look) => this.#watch(look) };
    this.#recent = new OncePerId(clock);
    this.#calls = new LocalCalls(log);
    for (const found of groups) {
      this.#groupsOf(found.subject).set(found.name, new Group(this.#host, found.subject, found.name, found));
    }
  }

  publish(message: Message): Promise<void> {
    return this.#recent.once(message.id, () => {
      const groups = this.#groupsOf(message.subject);
      if (groups.size === 0) groups.set(NO_GROUP, this.#newGroup(message.subject, NO_GROUP));
      const offers = [...groups.values()].map((group) => group.offer(message));
      return offers.length === 1 ? offers[0]! : Promise.all(offers).then(() => {});
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
    await this.#host.writer.change("subscribe", subject, name, isFirst);
    return group.join(handler);
  }

  broadcast(subject: string, packet: Packet): void {
    this.#calls.tell(subject, packet);
  }

  hasSubscribers(subject: string): boolean {
    return this.#calls.hasListeners(subject);
  }

  subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#calls.listen(subject, handler);
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    return this.#calls.dispatch(subject, packet);
  }

  serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#calls.serve(subject, handler);
  }

  /** Hands the writer what only memory knows; the writer is closed after. */
  close(): void {
    for (const groups of this.#subjects.values()) for (const group of groups.values()) group.close();
  }

  #groupsOf(subject: string): Map<string, Group> {
    let groups = this.#subjects.get(subject);
    if (!groups) {
      groups = new Map();
      this.#subjects.set(subject, groups);
    }
    return groups;
  }

  #newGroup(subject: string, name: string): Group {
    return new Group(this.#host, subject, name, { size: 0, oldestMs: null });
  }

  #watch(look: () => boolean): void {
    if (this.#young.length === 0) this.#young.push([]);
    this.#young.at(-1)!.push(look);
    this.#turnSoon();
  }

  #turnSoon(): void {
    if (this.#isTurning) return;
    this.#isTurning = true;
    this.#host.writer.afterTurn(() => {
      this.#isTurning = false;
      const old = this.#young.length >= GRACE_TURNS ? this.#young.shift()! : [];
      this.#young.push(old.filter((look) => !look()));
      if (this.#young.some((turn) => turn.length > 0)) this.#turnSoon();
      else this.#young = [];
    });
  }
}

/** Two messages with one id are one message: while it is being published, and for a while after. */
class OncePerId {
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
        // A publish that failed may be tried again at once.
        this.#running.delete(id);
        throw error;
      },
    );
    this.#running.set(id, published);
    return published;
  }
}

/** Enough for a handler that loads, takes a lock, and commits. */
const GRACE_TURNS = 6;
/** An id is remembered for half of this at least. */
const RECENT_MS = 240_000;
const RECENT_MAX = 200_000;
