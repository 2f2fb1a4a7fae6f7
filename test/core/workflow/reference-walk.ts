import type { Job, JobState } from "../../../src/core/model/job.ts";
import { type Run, stepJobId } from "../../../src/core/model/run.ts";
import type { Plan } from "../../../src/core/workflow/definition/plan.ts";
import type { Advance, advance, RunEvent } from "../../../src/core/workflow/run/advance.ts";
import { openRun, type RunRequest } from "../../../src/core/workflow/run/open-run.ts";
import { Values } from "../../../src/core/workflow/run/values.ts";
import type { RefEnd, RefEvent, RefState } from "../../../src/sim/reference/model.ts";
import {
  applyEvents,
  openJobsOf,
  pauseRef,
  refJob,
  runStateOf,
  startRef,
  UNBOUNDED,
} from "../../../src/sim/reference/run-reference.ts";
import { isUndoJob, undoJob } from "../../../src/sim/reference/undo-reference.ts";
import type { Case } from "./enumerate.ts";
import { PARALLEL_MS } from "./enumerate-plan.ts";

/**
 * Walks the engine and the reference through a case in every order in which its jobs can end, with occasional pauses,
 * simultaneous ends, timeouts and cancellations. After each event both must agree on every step, child, open job and
 * the run.
 */
export function walk(case_: Case, plan: Plan, engine: Engine): Walked {
  const walker = new Walker(case_, plan, engine);
  walker.walk();
  return { moments: walker.moments, problem: walker.problem };
}

export type Engine = typeof advance;

export interface Walked {
  /** Number of comparisons. */
  readonly moments: number;
  readonly problem: string | null;
}

/** The run of the engine and its requested jobs. */
interface Life {
  readonly run: Run;
  readonly jobs: ReadonlyMap<string, "open" | "over" | "ok">;
}

const CANCEL: RunEvent = { kind: "cancel", by: "me", why: "no more" };

class Walker {
  readonly #case: Case;
  readonly #plan: Plan;
  readonly #engine: Engine;
  readonly #values = new Values();
  /** Visited states: equal states continue equally. */
  readonly #seen = new Set<string>();
  moments = 0;
  problem: string | null = null;

  constructor(case_: Case, plan: Plan, engine: Engine) {
    this.#case = case_;
    this.#plan = plan;
    this.#engine = engine;
    for (const { id } of case_.workflow.steps) this.#values.addChildren(id, { value: [], bytes: 0 });
  }

  walk(): void {
    const { workflow } = this.#case;
    const run = openRun(this.#plan, ORDER, NO_INPUT, { nowMs: MOMENT.nowMs, deadlineMs: 1_000_000 });
    const life = this.#advance({ run, jobs: new Map() }, [{ kind: "time" }]);
    const state = startRef(workflow);
    if (!this.#compare(life, state, "begin")) return;
    this.#inEveryOrder(life, state, "begin");
    this.#late(life, state);
    const open = openJobsOf(state, workflow);
    if (open.length === 0) return;
    this.#together(life, state, open);
    this.#together(life, state, open.toReversed());
    this.#whilePaused(life, state, open);
    const cancelled = this.#advance(life, [CANCEL]);
    this.#compare(cancelled, this.#apply(state, [{ stop: "CANCELLED" }], cancelled), "begin; cancel");
    this.#atLast(life, state, open);
  }

  /** The deadline of the running `parallel` steps passes. */
  #late(life: Life, state: RefState): void {
    const { workflow } = this.#case;
    const ids = workflow.steps.filter(({ act }) => act === "parallel").map(({ id }) => id);
    if (!ids.some((id) => state.steps.get(id) === "RUNNING")) return;
    const soon = this.#advance(life, [{ kind: "time" }], { ...MOMENT, nowMs: LATE_MS - 1 });
    this.#compare(soon, state, "begin; soon");
    if (soon.run.dueMs !== LATE_MS) this.problem ??= `${this.#case.name}: looked at again at ${soon.run.dueMs}`;
    const late = this.#advance(soon, [{ kind: "time" }], { ...MOMENT, nowMs: LATE_MS });
    const after = this.#apply(
      state,
      ids.map((id) => ({ expire: id })),
      late,
    );
    if (this.#compare(late, after, "begin; late")) this.#first(late, after, "begin; late");
  }

  /** Job results count even if the run is cancelled or times out in the same batch. */
  #atLast(life: Life, state: RefState, jobs: readonly string[]): void {
    const ends = jobs.map((job) => ({ job, end: this.#case.ends.get(job) ?? ("ok" as const) }));
    const events = ends.map(({ job, end }) => endOf(job, end));
    const way = `begin; ${jobs.join("+")}`;
    const stopped = (end: "CANCELLED" | "TIMEOUT", by: Life) =>
      this.#apply(this.#apply(state, ends, by), [{ stop: end }], by);
    const cancelled = this.#advance(life, [...events, CANCEL]);
    this.#compare(cancelled, stopped("CANCELLED", cancelled), `${way}+cancel`);
    const late = this.#advance(life, [...events, { kind: "time" }], { ...MOMENT, nowMs: life.run.deadlineMs });
    this.#compare(late, stopped("TIMEOUT", late), `${way}+deadline`);
  }

  #inEveryOrder(life: Life, state: RefState, path: string): void {
    const { workflow, ends } = this.#case;
    for (const job of openJobsOf(state, workflow)) {
      if (this.problem !== null || this.moments > MOMENTS_MAX) return;
      const end = ends.get(job) ?? "ok";
      const next = this.#advance(life, [endOf(job, end)]);
      const after = this.#apply(state, [{ job, end }], next);
      const way = `${path}; ${job} ${end}`;
      if (this.#compare(next, after, way)) this.#inEveryOrder(next, after, way);
    }
  }

  #together(life: Life, state: RefState, jobs: readonly string[]): void {
    const ends = jobs.map((job) => ({ job, end: this.#case.ends.get(job) ?? ("ok" as const) }));
    const next = this.#advance(
      life,
      ends.map(({ job, end }) => endOf(job, end)),
    );
    const after = this.#apply(state, ends, next);
    const way = `begin; ${jobs.join("+")}`;
    if (this.#compare(next, after, way)) this.#first(next, after, way);
  }

  #whilePaused(life: Life, state: RefState, jobs: readonly string[]): void {
    const { workflow, ends } = this.#case;
    let paused = this.#advance(life, [{ kind: "pause", by: "me", why: "lunch" }]);
    let after = pauseRef(workflow, state, true);
    let way = "begin; pause";
    for (const job of jobs) {
      // A job that its run has stopped does not succeed any more.
      if (paused.jobs.get(job) !== "open") continue;
      const end = ends.get(job) ?? "ok";
      paused = this.#advance(paused, [endOf(job, end)]);
      after = this.#apply(after, [{ job, end }], paused);
      way = `${way}; ${job} ${end}`;
      this.#compare(paused, after, way);
      if (this.problem !== null) return;
    }
    paused = this.#advance(paused, [{ kind: "resume", by: "me", why: "back" }]);
    after = pauseRef(workflow, after, false);
    if (this.#compare(paused, after, `${way}; resume`)) this.#first(paused, after, `${way}; resume`);
  }

  /** Continues to the end, oldest open job first. */
  #first(life: Life, state: RefState, path: string): void {
    const { workflow, ends } = this.#case;
    const [job] = openJobsOf(state, workflow);
    if (job === undefined || this.problem !== null) return;
    const end = ends.get(job) ?? "ok";
    const way = `${path}; ${job} ${end}`;
    const next = this.#advance(life, [endOf(job, end)]);
    const after = this.#apply(state, [{ job, end }], next);
    if (this.#compare(next, after, way)) this.#first(next, after, way);
  }

  /** Steps that complete in one commit are undone in the order of the engine, `by`. */
  #apply(state: RefState, events: readonly RefEvent[], by: Life): RefState {
    const undoOrder = by.run.compensation?.order ?? [];
    return applyEvents(this.#case.workflow, state, events, { ...UNBOUNDED, undoOrder });
  }

  /** The children of lists that succeeded, for their compensations. */
  #valuesOf(jobs: Life["jobs"], events: readonly RunEvent[]): Values {
    if (!this.#case.workflow.steps.some(({ isCompensated }) => isCompensated)) return this.#values;
    const done = new Set([...jobs].flatMap(([job, is]) => (is === "ok" ? [job] : [])));
    for (const event of events) {
      if (event.kind === "job_ended" && event.job.state === "SUCCEEDED") done.add(jobOf(event.job));
    }
    const values = new Values();
    for (const { id } of this.#case.workflow.steps) {
      values.addChildren(id, { value: [], bytes: 0 });
      for (let index = 0; index < CHILDREN_MAX; index += 1)
        values.addChild(id, index, done.has(refJob(id, index)) ? { output: null } : null);
    }
    return values;
  }

  /** Repeats until the engine has no more work, as the engine's callers do. */
  #advance({ run, jobs }: Life, events: readonly RunEvent[], moment = MOMENT): Life {
    const ended = events.flatMap((event) => (event.kind === "job_ended" ? [jobOf(event.job)] : []));
    const values = this.#valuesOf(jobs, events);
    const endOfJob = (job: string) => (jobs.get(job) === "open" && isDone(events, job) ? "ok" : "over");
    let life: Life = {
      run,
      jobs: new Map([...jobs].map(([job, is]) => [job, ended.includes(job) ? endOfJob(job) : is])),
    };
    let batch = events;
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const advanced = this.#engine(this.#plan, life.run, batch, values, moment);
      const { jobs: next, stopped } = this.#carryOut(life, advanced, ended);
      life = { run: advanced.run, jobs: next };
      batch = [...stopped, ...advanced.left];
      if (batch.length === 0 && !advanced.hasMore) return life;
      if (batch.length === 0) batch = [{ kind: "time" }];
    }
    this.problem ??= `${this.#case.name}: something is always left to be done`;
    return life;
  }

  #carryOut(
    { jobs: before }: Life,
    { starts, stops }: Advance,
    ended: readonly string[],
  ): { jobs: Life["jobs"]; stopped: readonly RunEvent[] } {
    const jobs = new Map(before);
    for (const { stepId, index, isCompensation } of starts) {
      const job = isCompensation ? undoJob(stepId, index) : refJob(stepId, index);
      if (jobs.has(job)) this.problem ??= `${this.#case.name}: ${job} was made twice`;
      jobs.set(job, "open");
    }
    const stopped: RunEvent[] = [];
    for (const stop of stops) {
      const isIn = (job: string): boolean =>
        stop.kind === "job" ? job === stop.stepId : job.startsWith(`${stop.stepId}.`);
      const open = [...jobs].filter(([job, state]) => state === "open" && isIn(job));
      for (const [job] of open) jobs.set(job, "over");
      if (stop.kind === "children") {
        stopped.push({ kind: "children_stopped", stepId: stop.stepId, count: open.length });
      } else if (open.length === 0 && !ended.includes(stop.stepId)) {
        this.problem ??= `${this.#case.name}: ${stop.stepId} was stopped, it is not open`;
      }
    }
    return { jobs, stopped };
  }

  #compare({ run, jobs }: Life, state: RefState, path: string): boolean {
    this.moments += 1;
    if (this.problem !== null) return false;
    const { workflow, name } = this.#case;
    const open = [...jobs].filter(([, is]) => is === "open").map(([job]) => job);
    const engine = sayingOf(
      workflow.steps.map(({ id }) => `${id} ${run.steps[id]?.state ?? "PENDING"}${fanOf(run, id)}`),
      open,
      run.state,
    );
    const reference = sayingOf(
      workflow.steps.map(({ id }) => `${id} ${state.steps.get(id) ?? "PENDING"}${childrenOf(state, id)}`),
      openJobsOf(state, workflow),
      runStateOf(workflow, state),
    );
    if (engine === reference) return isNew(this.#seen, engine);
    this.problem = `${name}\n  after: ${path}\n  engine:    ${engine}\n  reference: ${reference}`;
    return false;
  }
}

const isDone = (events: readonly RunEvent[], job: string): boolean =>
  events.some((event) => event.kind === "job_ended" && jobOf(event.job) === job && event.job.state === "SUCCEEDED");

function isNew(seen: Set<string>, saying: string): boolean {
  if (seen.has(saying)) return false;
  seen.add(saying);
  return true;
}

const sayingOf = (steps: readonly string[], open: readonly string[], end: string): string =>
  `${steps.join(", ")}; out: ${[...open].sort().join(" ")}; run ${end}`;

function fanOf({ steps }: Run, id: string): string {
  const fan = steps[id]?.fan;
  return fan ? ` ${fan.open}/${fan.succeeded}/${fan.failed}/${fan.cancelled} of ${fan.spawned}` : "";
}

function childrenOf({ children }: RefState, id: string): string {
  const own = children.get(id);
  if (own === undefined) return "";
  const [open, ok, stopped] = (["open", "ok", "stopped"] as const).map((is) => own.filter((c) => c === is).length);
  const failed = own.length - (open ?? 0) - (ok ?? 0) - (stopped ?? 0);
  return ` ${open}/${ok}/${failed}/${stopped} of ${own.length}`;
}

const jobOf = ({ step }: Job): string =>
  step?.isCompensation ? undoJob(step.stepId, step.index) : refJob(step?.stepId ?? "", step?.index);

function endOf(job: string, end: RefEnd): RunEvent {
  const isUndo = isUndoJob(job);
  const [stepId = "", index] = job.replace(/^undo:/, "").split(".");
  const child = index === undefined ? {} : { index: Number(index) };
  const step = { runId: "run", stepId, kind: "worker", ...child, ...(isUndo && { isCompensation: true }) };
  const id = stepJobId("run", stepId, index === undefined ? null : Number(index), { isCompensation: isUndo });
  const facts = { id, step, state: JOB_END[end], output: { kind: "inline", value: null }, error: null, workerId: null };
  return { kind: "job_ended", job: facts as unknown as Job };
}

const JOB_END: Readonly<Record<RefEnd, JobState>> = {
  ok: "SUCCEEDED",
  fail: "FAILED",
  timeout: "TIMEOUT",
  denied: "DENIED",
  cancelled: "CANCELLED",
};

const MOMENT = {
  nowMs: 1_000,
  limits: {
    inlineBytesMax: 1_000_000,
    blobBytesMax: 1_000_000,
    listInputBytesMax: 1_000_000,
    outputBytesMax: 1_000_000,
    startsMax: 256,
    keptMs: 1_000,
  },
};
const LATE_MS = MOMENT.nowMs + PARALLEL_MS;
const TURNS_MAX = 20;
/** More than any list of a case has. */
const CHILDREN_MAX = 4;
/** Per case: children of two steps can end in thousands of orders. */
const MOMENTS_MAX = process.env.CORDUM_SIM_SEEDS === undefined ? 300 : 15;

const ORDER: RunRequest = {
  ...{ runId: "run", org: "acme", version: 1, traceId: "trace", labels: {}, priority: null },
  ...{ submittedBy: null, actorId: null, traceparent: null, parent: null },
};
const NO_INPUT = { kind: "inline", value: {} } as const;
