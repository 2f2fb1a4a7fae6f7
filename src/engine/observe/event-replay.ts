import { hashOf } from "../../core/model/api-key.ts";
import type { Needs } from "../engine.ts";
import type { JobUpdate, RolloutUpdate, RunUpdate } from "./event-feed.ts";

/**
 * The latest events of this process, for streams that resume after an interruption.
 *
 * 1. An id is found again in this process only, and only among the latest `EVENTS_MAX` events. Otherwise events may be
 *    missing, and the reader must reload what it shows.
 * 2. An id is a hash: it does not disclose how many events of other tenants precede it.
 * 3. Readers are told when events were lost on their way to this process.
 * 4. Without readers nothing is recorded, except for `LINGER_MS` after the last one has left.
 */
export type StreamUpdate =
  | { readonly kind: "job"; readonly update: JobUpdate }
  | { readonly kind: "run"; readonly update: RunUpdate }
  | { readonly kind: "rollout"; readonly update: RolloutUpdate };

export interface RecordedEvent {
  /** Hashed when it is first asked for. */
  readonly id: string;
  readonly event: StreamUpdate;
}

export interface StreamReader {
  onEvent(recorded: RecordedEvent): void;
  /** Events were lost. The reader continues with the next one. */
  onLoss(): void;
}

export interface Reading {
  /** The events after `lastId`, oldest first; null if some may be missing, or without `lastId`. */
  readonly missed: readonly RecordedEvent[] | null;
  stop(): void;
}

export class EventReplay {
  readonly #engine: Needs<"world" | "events">;
  readonly #secret: string;
  readonly #readers = new Set<StreamReader>();
  #ring: Recorded[] = [];
  #count = 0;
  #unsubscribe: (() => void) | null = null;
  #stopLinger = (): void => {};

  constructor(engine: Needs<"world" | "events">) {
    this.#engine = engine;
    this.#secret = engine.world.random.id();
  }

  /** The position after the latest event. */
  get position(): string {
    return this.#ring.at(-1)?.id ?? this.#idOf(this.#count);
  }

  read(reader: StreamReader, lastId: string | undefined): Reading {
    this.#stopLinger();
    this.#start();
    const missed = lastId === undefined ? null : this.#after(lastId);
    this.#readers.add(reader);
    return { missed, stop: () => this.#leave(reader) };
  }

  close(): void {
    this.#stopLinger();
    this.#readers.clear();
    this.#unsubscribe?.();
  }

  #after(lastId: string): readonly RecordedEvent[] | null {
    // The position before the oldest event that is kept.
    if (lastId === this.#idOf(this.#count - this.#ring.length)) return [...this.#ring];
    const at = this.#ring.findIndex((recorded) => recorded.isHashed && recorded.id === lastId);
    return at === -1 ? null : this.#ring.slice(at + 1);
  }

  #start(): void {
    if (this.#unsubscribe !== null) return;
    const { events } = this.#engine;
    const stops = [
      events.subscribe((update) => this.#record({ kind: "job", update })),
      events.subscribeRuns((update) => this.#record({ kind: "run", update })),
      events.subscribeRollouts((update) => this.#record({ kind: "rollout", update })),
      events.subscribeLosses(() => this.#lose()),
    ];
    this.#unsubscribe = () => {
      for (const stop of stops) stop();
    };
  }

  #leave(reader: StreamReader): void {
    this.#readers.delete(reader);
    if (this.#readers.size > 0) return;
    this.#stopLinger();
    this.#stopLinger = this.#engine.world.clock.after(LINGER_MS, () => {
      this.#unsubscribe?.();
      this.#unsubscribe = null;
      this.#forget();
    });
  }

  #record(event: StreamUpdate): void {
    this.#count++;
    const recorded = new Recorded(event, this.#secret, this.#count);
    this.#ring.push(recorded);
    // In blocks: removing the first of a long array each time is slow.
    if (this.#ring.length > EVENTS_MAX + BLOCK) this.#ring = this.#ring.slice(BLOCK);
    for (const reader of [...this.#readers]) reader.onEvent(recorded);
  }

  #lose(): void {
    this.#forget();
    for (const reader of [...this.#readers]) reader.onLoss();
  }

  /** No earlier id is found again. */
  #forget(): void {
    this.#ring = [];
    this.#count++;
  }

  #idOf(count: number): string {
    return idOf(this.#secret, count);
  }
}

class Recorded implements RecordedEvent {
  readonly event: StreamUpdate;
  readonly #secret: string;
  readonly #count: number;
  #id: string | null = null;

  constructor(event: StreamUpdate, secret: string, count: number) {
    this.event = event;
    this.#secret = secret;
    this.#count = count;
  }

  get isHashed(): boolean {
    return this.#id !== null;
  }

  get id(): string {
    this.#id ??= idOf(this.#secret, this.#count);
    return this.#id;
  }
}

const idOf = (secret: string, count: number): string => hashOf(`${secret} ${count}`).slice(0, 20);

const EVENTS_MAX = 10_000;
const BLOCK = 1_000;
/** Clients reconnect within seconds; a laptop that was closed reloads. */
const LINGER_MS = 120_000;
