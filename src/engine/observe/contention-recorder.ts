import { CONTENTION, type ContentionPath, type ContentionRecord, keyHash } from "../../core/contention/acquisition.ts";
import { ContentionBuffer } from "../../core/contention/buffer.ts";
import { encodeRecord } from "../../core/contention/codec.ts";
import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import { formatPolicy } from "../../core/retry/policies.ts";
import { put } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/**
 * Records lock contention of this process (`contention.record`), for `lab replay` and the prediction of a rollout.
 *
 * 1. An acquisition that meets no other one is counted and not recorded, unless its key was contended in the last minutes:
 *    it can be the one that blocks the next.
 * 2. A record is written a minute after its first acquisition, so a process without contention writes nothing. A record that
 *    cannot be written is dropped: it is not worth a retry while the store is away.
 */
export class ContentionRecorder {
  readonly #engine: RecorderContext;
  readonly #buffer = new ContentionBuffer();
  /** Keys with contention since the last record, and since the one before. Bounded. */
  #hot = new Set<string>();
  #cooling = new Set<string>();
  #uncontended = 0;
  readonly #lock = new Mean();
  readonly #contendedLock = new Mean();
  readonly #return = new Mean();
  #sinceMs: number;
  #isArmed = false;

  constructor(engine: RecorderContext) {
    this.#engine = engine;
    this.#sinceMs = engine.world.clock.now();
  }

  /** An attempt was refused because the lock was busy. */
  busy(key: string): void {
    if (this.#hot.size < HOT_MAX && this.#isOn) this.#hot.add(key);
  }

  /**
   * Round trip of a request that got a free lock. Under contention the process has the replies of other attempts to handle
   * first, which is an effect of the policy in force: such a round trip counts only if there are too few others.
   */
  granted(durationMs: number, isContended: boolean): void {
    (isContended ? this.#contendedLock : this.#lock).add(durationMs);
  }

  /** A first retry arrived this much later than its delay. */
  returned(lateMs: number): void {
    this.#return.add(Math.max(0, lateMs));
  }

  /** Events that one commit under the lock applied. `joined`: the lock or the process's queue for it was in use. */
  applied(key: string, path: ContentionPath, events: readonly AppliedEvent[], turn: LockTurn): void {
    const [first] = events;
    const isContended = turn.wasQueued || events.length > 1 || (first !== undefined && wasBlocked(first));
    if (!isContended && !(this.#hot.has(key) || this.#cooling.has(key))) {
      this.#uncontended += 1;
      return;
    }
    if (!this.#isOn) return;
    if (isContended) this.busy(key);
    const { grantedMs, doneMs } = turn;
    const hash = keyHash(key);
    for (const event of events) {
      this.#buffer.add({
        key: hash,
        arrivedMs: event.arrivedMs,
        waitMs: Math.max(0, grantedMs - event.arrivedMs),
        holdMs: Math.max(0, doneMs - grantedMs),
        attempts: event.attempts,
        path,
        wasBlocked: turn.wasQueued || wasBlocked(event),
        isRefused: false,
      });
    }
    this.#arm();
  }

  /** A caller gave up after several attempts. */
  refused(key: string, path: ContentionPath, event: AppliedEvent, nowMs: number): void {
    if (!this.#isOn) return;
    const { arrivedMs, attempts } = event;
    const waitMs = Math.max(0, nowMs - arrivedMs);
    const hash = keyHash(key);
    this.#buffer.add({ key: hash, arrivedMs, waitMs, holdMs: 0, attempts, path, wasBlocked: true, isRefused: true });
    this.#arm();
  }

  /** Writes what was recorded so far. */
  async flush(): Promise<void> {
    const { world } = this.#engine;
    const [fromMs, toMs] = [this.#sinceMs, world.clock.now()];
    const { acquisitions, level, dropped } = this.#buffer.take((toMs - fromMs) / MINUTE_MS);
    this.#sinceMs = toMs;
    this.#cooling = this.#hot;
    this.#hot = new Set();
    if (acquisitions.length === 0 || !this.#isOn) return;
    const [lockMs, contendedLockMs] = [this.#lock.take(), this.#contendedLock.take()];
    const record: ContentionRecord = {
      process: keyHash(world.name),
      ...{ fromMs, toMs, level, dropped },
      uncontended: this.#uncontended,
      lockMs: lockMs ?? contendedLockMs,
      returnMs: this.#return.take(),
      nakTimerMs: world.bus.nakTimerMs ?? 0,
      inForce: this.#inForce,
      acquisitions,
    };
    this.#uncontended = 0;
    const id = `${record.process.toString(36)}-${toMs}`;
    try {
      const puts = [put(CONTENTION, id, null, encodeRecord(record))];
      await world.store.commit({ org: DEFAULT_ORG, atMs: toMs, puts, guards: [], sends: [], watch: [] });
    } catch (error) {
      world.log.write("warn", "contention_record_failed", { error: String(error) });
    }
  }

  #arm(): void {
    if (this.#isArmed) return;
    this.#isArmed = true;
    const { tasks, world } = this.#engine;
    tasks.after(world.clock, MINUTE_MS, () => {
      this.#isArmed = false;
      tasks.track(this.flush());
    });
  }

  get #isOn(): boolean {
    return this.#engine.settings.current.contention.record;
  }

  get #inForce(): ContentionRecord["inForce"] {
    const { retry, runLock } = this.#engine.settings.current;
    const { engineWaitMs, coalesce } = runLock;
    return { lockBusyPolicy: formatPolicy(retry.lock_busy.policy), engineWaitMs, coalesce };
  }
}

type RecorderContext = Needs<"world" | "settings" | "tasks">;

export interface AppliedEvent {
  /** The first attempt. */
  readonly arrivedMs: number;
  readonly attempts: number;
  /** The process had a queue for the lock already. */
  readonly hasJoined: boolean;
}

export interface LockTurn {
  readonly grantedMs: number;
  readonly doneMs: number;
  /** The lock was handed over by another holder. */
  readonly wasQueued: boolean;
}

const wasBlocked = ({ attempts, hasJoined }: AppliedEvent): boolean => attempts > 1 || hasJoined;

class Mean {
  #sum = 0;
  #count = 0;

  add(value: number): void {
    this.#sum += value;
    this.#count += 1;
  }

  /** Null with too few values, which are kept. */
  take(): number | null {
    if (this.#count < SAMPLES_MIN) return null;
    const mean = Math.round((1_000 * this.#sum) / this.#count) / 1_000;
    this.#sum = 0;
    this.#count = 0;
    return mean;
  }
}

const MINUTE_MS = 60_000;
const HOT_MAX = 1_000;
/** The clock has whole milliseconds: a mean of few values says little. */
const SAMPLES_MIN = 10;
