import type { Job, JobState } from "../../../src/core/model/job.ts";
import { isRunFinal, type Run, stepJobId } from "../../../src/core/model/run.ts";
import type { Plan } from "../../../src/core/workflow/definition/plan.ts";
import type { Advance, advance, RunEvent } from "../../../src/core/workflow/run/advance.ts";
import { openRun, type RunRequest } from "../../../src/core/workflow/run/open-run.ts";
import { Values } from "../../../src/core/workflow/run/values.ts";
import {
  applyEvents,
  openJobsOf,
  pauseRef,
  type RefEnd,
  type RefState,
  refJob,
  startRef,
} from "../../../src/sim/reference/run-reference.ts";
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
  readonly jobs: ReadonlyMap<string, "open" | "over">;
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
    this.#compare(cancelled, applyEvents(workflow, state, [{ stop: "CANCELLED" }]), "begin; cancel");
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
    const after = applyEvents(
      workflow,
      state,
      ids.map((id) => ({ expire: id })),
    );
    if (this.#compare(late, after, "begin; late")) this.#first(late, after, "begin; late");
  }

  /** Job results count even if the run is cancelled or times out in the same batch. */
  #atLast(life: Life, state: RefState, jobs: readonly string[]): void {
    const { workflow } = this.#case;
    const ends = jobs.map((job) => ({ job, end: this.#case.ends.get(job) ?? ("ok" as const) }));
    const events = ends.map(({ job, end }) => endOf(job, end));
    const after = applyEvents(workflow, state, ends);
    const way = `begin; ${jobs.join("+")}`;
    this.#compare(
      this.#advance(life, [...events, CANCEL]),
      applyEvents(workflow, after, [{ stop: "CANCELLED" }]),
      `${way}+cancel`,
    );
    const late = this.#advance(life, [...events, { kind: "time" }], { ...MOMENT, nowMs: life.run.deadlineMs });
    this.#compare(late, applyEvents(workflow, after, [{ stop: "TIMEOUT" }]), `${way}+deadline`);
  }

  #inEveryOrder(life: Life, state: RefState, path: string): void {
    const { workflow, ends } = this.#case;
    for (const job of openJobsOf(state, workflow)) {
      if (this.problem !== null || this.moments > MOMENTS_MAX) return;
      const end = ends.get(job) ?? "ok";
      const next = this.#advance(life, [endOf(job, end)]);
      const after = applyEvents(workflow, state, [{ job, end }]);
      const way = `${path}; ${job} ${end}`;
      if (this.#compare(next, after, way)) this.#inEveryOrder(next, after, way);
    }
  }

  #together(life: Life, state: RefState, jobs: readonly string[]): void {
    const { workflow } = this.#case;
    const ends = jobs.map((job) => ({ job, end: this.#case.ends.get(job) ?? ("ok" as const) }));
    const next = this.#advance(
      life,
      ends.map(({ job, end }) => endOf(job, end)),
    );
    const after = applyEvents(workflow, state, ends);
    const way = `begin; ${jobs.join("+")}`;
    if (this.#compare(next, after, way)) this.#first(next, after, way);
  }

  #whilePaused(life: Life, state: RefState, jobs: readonly string[]): void {
    const { workflow, ends } = this.#case;
    let paused = this.#advance(life, [{ kind: "pause", by: "me", why: "lunch" }]);
    let after = pauseRef(workflow, state, true);
    let way = "begin; pause";
    for (const job of jobs) {
      const end = ends.get(job) ?? "ok";
      paused = this.#advance(paused, [endOf(job, end)]);
      after = applyEvents(workflow, after, [{ job, end }]);
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
    const after = applyEvents(workflow, state, [{ job, end }]);
    if (this.#compare(next, after, way)) this.#first(next, after, way);
  }

  /** Repeats until the engine has no more work, as the engine's callers do. */
  #advance({ run, jobs }: Life, events: readonly RunEvent[], moment = MOMENT): Life {
    const ended = events.flatMap((event) => (event.kind === "job_ended" ? [jobOf(event.job)] : []));
    let life: Life = { run, jobs: new Map([...jobs].map(([job, is]) => [job, ended.includes(job) ? "over" : is])) };
    let batch = events;
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const advanced = this.#engine(this.#plan, life.run, batch, this.#values, moment);
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
    for (const { stepId, index } of starts) {
      const job = refJob(stepId, index);
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
      isRunFinal(run.state) ? run.state : run.state === "PAUSED" ? "paused" : "open",
    );
    const reference = sayingOf(
      workflow.steps.map(({ id }) => `${id} ${state.steps.get(id) ?? "PENDING"}${childrenOf(state, id)}`),
      openJobsOf(state, workflow),
      state.end ?? (state.isPaused ? "paused" : "open"),
    );
    if (engine === reference) return isNew(this.#seen, engine);
    this.problem = `${name}\n  after: ${path}\n  engine:    ${engine}\n  reference: ${reference}`;
    return false;
  }
}

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

const jobOf = ({ step }: Job): string => refJob(step?.stepId ?? "", step?.index);

function endOf(job: string, end: RefEnd): RunEvent {
  const [stepId = "", index] = job.split(".");
  const step = { runId: "run", stepId, kind: "worker", ...(index === undefined ? {} : { index: Number(index) }) };
  const id = stepJobId("run", stepId, index === undefined ? null : Number(index));
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
/** Per case: children of two steps can end in thousands of orders. */
const MOMENTS_MAX = process.env.CORDUM_SIM_SEEDS === undefined ? 300 : 15;

const ORDER: RunRequest = {
  ...{ runId: "run", org: "acme", version: 1, traceId: "trace", labels: {}, priority: null },
  ...{ submittedBy: null, actorId: null, traceparent: null, parent: null },
};
const NO_INPUT = { kind: "inline", value: {} } as const;
