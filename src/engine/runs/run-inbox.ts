import type { Arms } from "../../core/model/arms.ts";
import type { Job } from "../../core/model/job.ts";
import type { Run } from "../../core/model/run.ts";
import type { RetryUsage } from "../../core/retry/budget.ts";
import type { RunEvent } from "../../core/workflow/run/advance.ts";
import type { EventAnswer } from "../../core/workflow/run/wait.ts";
import type { Guard, Put, Versioned } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";
import type { AppliedEvent } from "../observe/index.ts";
import { recordFirstRetry } from "../with-lock.ts";

/**
 * Events that wait for the lock of their run. Events of one run that meet in one process form one queue, processed as
 * batches by one lock holder (`run_lock.coalesce`; off: one queue per event, as in the baseline).
 */
export class RunInbox {
  readonly #engine: InboxContext;
  readonly #process: (key: RunKey, queue: string) => Promise<void>;
  readonly #queues = new Map<string, PendingRunEvent[]>();
  #count = 0;

  /** `process` handles one queue until `close` of that queue succeeds. */
  constructor(engine: InboxContext, process: (key: RunKey, queue: string) => Promise<void>) {
    this.#engine = engine;
    this.#process = process;
  }

  enqueue(key: RunKey, queued: QueuedRunEvent): Promise<RunEventOutcome> {
    const { settings, tasks, throttle, world, contention, runCache } = this.#engine;
    const shared = `${key.path} ${key.runId}`;
    const arms = armsIn(queued) ?? runCache.recallRun(key.runId)?.value.arms;
    const queue = settings.for(arms).runLock.coalesce ? shared : this.#uniqueKey(shared);
    const arrivedMs = world.clock.now();
    throttle.begin(key.runId, arrivedMs);
    const busy = queued.kind === "job" ? queued.busy : null;
    if (busy?.count === 1) contention.returned(arrivedMs - busy.sinceMs - busy.lastDelayMs);
    const outcome = new Promise<RunEventOutcome>((resolve, reject) => {
      if (this.#add(queue, { queued, arrivedMs, hasJoined: this.#queues.has(queue), resolve, reject }))
        tasks.track(this.#process(key, queue));
    });
    const end = (): void => throttle.end(key.runId, world.clock.now());
    void outcome.then(({ kind }) => {
      end();
      if (kind === "done" && busy?.count === 1) recordFirstRetry(this.#engine, key.path, arms);
    }, end);
    return outcome;
  }

  /** Advances a run that has more to do, without an event. If this process dies first, the run's due time repeats it. */
  continueRun({ org, id: runId }: Run): void {
    const { tasks, world } = this.#engine;
    const time = { kind: "event", event: { kind: "time" }, puts: [] } as const;
    const done = this.enqueue({ org, runId, path: "engine" }, time);
    tasks.track(
      done.catch((error: unknown) => world.log.write("warn", "run_advance_deferred", { error: String(error) })),
    );
  }

  pending(queue: string): readonly PendingRunEvent[] {
    return this.#queues.get(queue) ?? [];
  }

  take(queue: string, limit: number): readonly PendingRunEvent[] {
    return this.#queues.get(queue)?.splice(0, limit) ?? [];
  }

  /** Puts events back in front of those that arrived since. */
  putBack(queue: string, events: readonly PendingRunEvent[]): void {
    this.#queues.get(queue)?.unshift(...events);
  }

  isEmpty(queue: string): boolean {
    return (this.#queues.get(queue)?.length ?? 0) === 0;
  }

  /** Ends the processing of a queue; false if events arrived in between. */
  close(queue: string): boolean {
    if (!this.isEmpty(queue)) return false;
    this.#queues.delete(queue);
    return true;
  }

  /** True if the queue is new and needs a processor. */
  #add(queue: string, event: PendingRunEvent): boolean {
    const events = this.#queues.get(queue);
    if (events) {
      events.push(event);
      return false;
    }
    this.#queues.set(queue, [event]);
    return true;
  }

  #uniqueKey(key: string): string {
    this.#count += 1;
    return `${key} ${this.#count}`;
  }
}

type InboxContext = Needs<"world" | "settings" | "tasks" | "throttle" | "contention" | "runCache">;

export type QueuedRunEvent =
  /** A step's job ended; `found` is the record that the decision was based on. */
  | {
      readonly kind: "job";
      readonly found: Versioned<Job>;
      readonly next: Job;
      readonly puts: readonly Put[];
      readonly guards: readonly Guard[];
      /** Earlier `lock_busy` failures of this result; null if none were counted. */
      readonly busy: RetryUsage | null;
    }
  | { readonly kind: "event"; readonly event: RunEvent; readonly puts: readonly Put[] };

export interface RunKey {
  readonly org: string;
  readonly runId: string;
  readonly path: RunPath;
}

/** Results use the engine path, HTTP requests the gateway path. */
export type RunPath = "engine" | "gateway";

/**
 * The arms of the run that an event is about. They are needed before the run is loaded: a step's job has those of its run.
 * Undefined for other events.
 */
export const armsIn = (queued: QueuedRunEvent): Arms | undefined =>
  queued.kind === "job" ? queued.found.value.arms : undefined;

export interface PendingRunEvent extends Pick<AppliedEvent, "hasJoined"> {
  readonly queued: QueuedRunEvent;
  /** Of this delivery; earlier ones are in `queued.busy`. */
  readonly arrivedMs: number;
  readonly resolve: (outcome: RunEventOutcome) => void;
  readonly reject: (error: unknown) => void;
}

export type RunEventOutcome =
  /** Committed. `run` is null if the run no longer exists and the job ended on its own. */
  | { readonly kind: "done"; readonly run: Run | null; readonly answer?: EventAnswer }
  /** The run had ended, or no longer exists: the event was not applied. */
  | { readonly kind: "over"; readonly run: Run | null }
  /** The job changed since it was read: decide again. */
  | { readonly kind: "stale" };
