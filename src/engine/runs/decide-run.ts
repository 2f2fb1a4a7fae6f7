import { StepBudget } from "../../core/expression/budget.ts";
import { cancelJob } from "../../core/jobs/lifecycle.ts";
import { isFinal, JOBS, type Job, openChildrenOf } from "../../core/model/job.ts";
import { isRunFinal, type Run, type TimelineLine } from "../../core/model/run.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import { type Advance, advance, type RunEvent } from "../../core/workflow/run/advance.ts";
import type { Notification, Start, Stop } from "../../core/workflow/run/run-draft.ts";
import { Values } from "../../core/workflow/run/values.ts";
import type { EventAnswer } from "../../core/workflow/run/wait.ts";
import { BLOB_BYTES_MAX } from "../../ports/blobs.ts";
import type { Versioned } from "../../ports/store.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";
import { withValues } from "../payloads.ts";
import { createStepJob } from "./create-step-job.ts";

/**
 * The content of one run commit: the run, the jobs it creates and those it stops. Created jobs may end at once (denied
 * by the policy) and stopped jobs are counted; both are events of the run, so `advance` is repeated until no event is
 * left.
 */
export interface RunDecision {
  readonly run: Run;
  readonly created: readonly Job[];
  readonly stopped: readonly { readonly found: Versioned<Job>; readonly next: Job }[];
  readonly pages: readonly (readonly TimelineLine[])[];
  readonly notifications: readonly Notification[];
  readonly hasMore: boolean;
  readonly answers: Advance["answers"];
}

export async function decideRun(
  engine: Needs<"world" | "settings" | "runCache">,
  plan: Plan,
  before: Run,
  nextEvents: readonly RunEvent[],
  /** Jobs that end with this commit; they are not stopped. */
  ended: ReadonlySet<string>,
  /** Earlier attempts that lost a race. Fewer jobs are stopped then, so that fewer can change meanwhile. */
  tries = 0,
  /** The tenant has no room for large inputs: steps that have one fail. */
  isOverQuota = false,
): Promise<RunDecision> {
  const round = new DecisionRound(engine, plan, before, ended, Math.max(1, STOPPED_MAX >> tries), isOverQuota);
  let events = nextEvents;
  // Terminates: each turn settles steps, or uses up what one commit may create and stop.
  do events = await round.turn(events);
  while (events.length > 0);
  return round.decided();
}

class DecisionRound {
  readonly #engine: Needs<"world" | "settings" | "runCache">;
  readonly #plan: Plan;
  readonly #ended: ReadonlySet<string>;
  readonly #stoppedMax: number;
  readonly #isOverQuota: boolean;
  readonly #created = new Map<string, Job>();
  /** Ended jobs that are not written yet; the store does not have their output. */
  readonly #fresh = new Map<string, Job>();
  readonly #stopped = new Map<string, { readonly found: Versioned<Job>; readonly next: Job }>();
  readonly #pages: (readonly TimelineLine[])[] = [];
  readonly #notifications: Notification[] = [];
  /** Evaluation blocks the event loop. A step beyond the budget fails. */
  readonly #budget = new StepBudget("the expressions of one commit", COMMIT_STEPS_MAX);
  /** A budget of its own: outputs are validated before the decision is repeated, which must not be cut off by that. */
  readonly #readBudget = new StepBudget("the validation of outputs that one commit reads", COMMIT_STEPS_MAX);
  readonly #answers = new Map<object, EventAnswer>();
  #run: Run;
  #hasMore = false;

  constructor(
    engine: Needs<"world" | "settings" | "runCache">,
    plan: Plan,
    run: Run,
    ended: ReadonlySet<string>,
    stoppedMax: number,
    isOverQuota: boolean,
  ) {
    this.#stoppedMax = stoppedMax;
    this.#isOverQuota = isOverQuota;
    this.#engine = engine;
    this.#plan = plan;
    this.#run = run;
    this.#ended = ended;
  }

  decided(): RunDecision {
    return {
      run: this.#run,
      created: [...this.#created.values()],
      stopped: [...this.#stopped.values()],
      pages: this.#pages,
      notifications: this.#notifications,
      hasMore: this.#hasMore && !isRunFinal(this.#run.state),
      answers: this.#answers,
    };
  }

  /** Advances the run; returns the events that follow from it. */
  async turn(events: readonly RunEvent[]): Promise<readonly RunEvent[]> {
    const { limits, retention } = this.#engine.settings.current;
    const { inlineBytesMax, listInputBytesMax, outputBytesMax } = limits;
    const startsMax = Math.max(0, CREATED_MAX - this.#created.size);
    const context = {
      nowMs: this.#engine.world.clock.now(),
      limits: {
        inlineBytesMax,
        listInputBytesMax,
        blobBytesMax: BLOB_BYTES_MAX,
        outputBytesMax,
        keptMs: retention.runsMs,
        startsMax,
      },
    };
    const run = this.#run;
    for (const event of events) if (event.kind === "job_ended") this.#fresh.set(event.job.id, event.job);
    const source = { runId: run.id, plan: this.#plan, fresh: this.#fresh, budget: this.#readBudget };
    const known = new Values((ptr) => this.#engine.runCache.recallValue(ptr));
    const step = await withValues(this.#engine, source, known, (values) =>
      this.#plan.within(this.#budget, () => advance(this.#plan, run, events, values, context)),
    );
    this.#run = step.run;
    this.#hasMore = step.hasMore;
    const page = step.page ?? [];
    for (let at = 0; at < page.length; at += PAGE_LINES) this.#pages.push(page.slice(at, at + PAGE_LINES));
    this.#notifications.push(...step.notifications);
    for (const [event, answer] of step.answers) this.#answers.set(event, answer);
    if (step.blobs.length > 0) await this.#keep(step.blobs);
    const nextEvents: RunEvent[] = [];
    for (const stop of step.stops) await this.#stop(stop, startsStoppedBy(stop, step.starts), nextEvents);
    const making = startsToCreate(step).map((start) => createStepJob(this.#engine, step.run, start, this.#isOverQuota));
    for (const job of making.some(isPending) ? await Promise.all(making) : (making as readonly Job[])) {
      this.#created.set(job.id, job);
      if (isFinal(job.state)) nextEvents.push({ kind: "job_ended", job });
    }
    return step.left.length > 0 ? [...nextEvents, ...step.left] : nextEvents;
  }

  async #keep(blobs: readonly { readonly ptr: string; readonly text: string }[]): Promise<void> {
    const { blobs: store } = this.#engine.world;
    const untilMs = this.#run.deadlineMs + 2 * this.#engine.settings.current.retention.runsMs;
    await Promise.all(blobs.map(({ ptr, text }) => store.put(ptr, new TextEncoder().encode(text), untilMs)));
  }

  async #stop(stop: Stop, unmade: number, nextEvents: RunEvent[]): Promise<void> {
    switch (stop.kind) {
      case "job": {
        if (this.#created.delete(stop.jobId) || this.#ended.has(stop.jobId)) return;
        const found = await this.#engine.world.store.load(JOBS, stop.jobId);
        if (found) this.#cancel(found, stop.why);
        return;
      }
      case "children": {
        const count = unmade + (await this.#stopChildren(stop));
        if (count > 0) nextEvents.push({ kind: "children_stopped", stepId: stop.stepId, count });
        return;
      }
      default:
        stop satisfies never;
    }
  }

  async #stopChildren({ stepId, iteration, why }: Extract<Stop, { kind: "children" }>): Promise<number> {
    let count = 0;
    for (const [id, { step, state }] of this.#created) {
      if (step?.stepId === stepId && !isFinal(state) && this.#created.delete(id)) count += 1;
    }
    const limit = this.#stoppedMax - this.#stopped.size;
    if (limit <= 0) return count;
    const index = openChildrenOf(this.#run.id, stepId, iteration);
    const { items } = await this.#engine.world.store.list(JOBS, { index, limit, order: "oldest" });
    for (const found of items) {
      if (this.#ended.has(found.id) || this.#stopped.has(found.id)) continue;
      if (this.#cancel(found, why)) count += 1;
    }
    return count;
  }

  #cancel(found: Versioned<Job>, why: string): boolean {
    const next = cancelJob(found.value, `run ${this.#run.id}`, why, decisionContext(this.#engine, found.value));
    if (next) this.#stopped.set(found.id, { found, next });
    return next !== null;
  }
}

/** A child stopped by the decision that started it is never created. */
function startsToCreate({ starts, stops }: Advance): readonly Start[] {
  return stops.length === 0
    ? starts
    : starts.filter((start) => stops.every((stop) => startsStoppedBy(stop, [start]) === 0));
}

function startsStoppedBy(stop: Stop, starts: readonly Start[]): number {
  return stop.kind === "children" ? starts.filter(({ stepId }) => stepId === stop.stepId).length : 0;
}

const isPending = (job: Job | Promise<Job>): boolean => job instanceof Promise;

/** About a second: more than one list step may use (see `for-each.ts`). */
const COMMIT_STEPS_MAX = 5_000_000;
/** Timeline lines per record. */
const PAGE_LINES = 256;
/** Jobs that one commit creates and stops. Bounded, because a large commit delays all others. */
export const CREATED_MAX = 32;
export const STOPPED_MAX = 128;
