import { decideSafety } from "../../core/jobs/lifecycle.ts";
import type { Job, JobState } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import { type Applied, applyLimits, type Charge } from "../../core/policy/limits/apply-limits.ts";
import { toStored, WINDOWS, windowsOf } from "../../core/policy/limits/window.ts";
import { type Guard, type Put, put } from "../../ports/store.ts";
import { decisionPut } from "../audit/index.ts";
import { ConflictError } from "../commit.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";
import { entriesById, type LoadedWindow, loadWindows } from "./load-windows.ts";

/**
 * Decides a job whose decision has limits. The windows in which it counts are part of the commit that stores the
 * decision (`store`), with the versions on which it was based: a race of two processes is decided again, and a crash
 * leaves both or neither. "stale": the job changed.
 */
export async function decideLimited(
  engine: Needs<"world" | "settings" | "audit" | "windows">,
  job: Job,
  given: Decision,
  store: (decided: Job, puts: readonly Put[], guards: readonly Guard[]) => Promise<JobState | "stale">,
): Promise<JobState | "stale"> {
  const { limits = [] } = given;
  let loaded = await loadWindows(engine, job.org, limits);
  const ids = loaded.map(({ id }) => id);
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const release = await engine.windows.acquire(ids);
    try {
      loaded = await loadWindows(engine, job.org, limits);
      const applied = apply(engine, job, given, loaded);
      // Nothing is written to the windows: the next decision need not wait for this commit.
      if (applied.charges.length === 0) release();
      const decided = decideSafety(withCounted(job, applied), applied.decision, decisionContext(engine, job));
      const line = decisionPut(engine, decided);
      const charges = chargesOf(engine, job.org, applied.charges, loaded);
      const state = await store(decided, [line, ...charges.puts], charges.guards);
      if (state !== "stale") countExceeded(engine, given, applied.decision);
      if (state !== "stale" || applied.charges.length === 0) return state;
      if (!(await hasChanged(engine, job.org, loaded))) return "stale";
    } finally {
      release();
    }
  }
  throw new ConflictError(`the policy windows of job \`${job.id}\` changed ${TRIES_MAX} times; retry the request`);
}

function apply(
  engine: Needs<"world" | "settings">,
  job: Job,
  given: Decision,
  loaded: readonly LoadedWindow[],
): Applied {
  const { nowMs, random } = decisionContext(engine, job);
  const ids = new Map(loaded.map(({ limit, id }) => [limit, id]));
  return applyLimits(given, {
    nowMs,
    deadlineMs: job.deadlineMs,
    counted: job.counted ?? [],
    windows: entriesById(loaded),
    idOf: (limit) => ids.get(limit) ?? "",
    random,
  });
}

function withCounted(job: Job, { counted }: Applied): Job {
  return counted.length === 0 ? job : { ...job, counted };
}

function chargesOf(
  { settings }: Needs<"settings">,
  org: string,
  charges: readonly Charge[],
  loaded: readonly LoadedWindow[],
): { readonly puts: readonly Put[]; readonly guards: readonly Guard[] } {
  const puts: Put[] = [];
  const guards: Guard[] = [];
  for (const { limit, id, entries } of charges) {
    const window = loaded.find((one) => one.id === id);
    if (window === undefined) continue;
    const { ruleId, withinMs } = limit;
    puts.push(put(WINDOWS, window.recordId, window.found, toStored(entries, { org, ruleId, withinMs })));
    const isNewKey = window.found === null && window.recordId === id;
    if (isNewKey) guards.push({ kind: "counter", counter: windowsOf(org), max: settings.current.limits.policyKeysMax });
  }
  return { puts, guards };
}

/** Whether the commit was refused because of a window, and not because of the job. */
async function hasChanged(
  engine: Needs<"world" | "settings">,
  org: string,
  loaded: readonly LoadedWindow[],
): Promise<boolean> {
  const now = await loadWindows(
    engine,
    org,
    loaded.map(({ limit }) => limit),
  );
  return now.some(({ recordId, found }, at) => {
    const before = loaded[at];
    return recordId !== before?.recordId || found?.version !== before.found?.version;
  });
}

function countExceeded({ world }: Needs<"world">, { limits = [] }: Decision, { ruleId }: Decision): void {
  const limit = limits.find((one) => one.ruleId === ruleId);
  if (limit !== undefined) world.metrics.add("cordum_policy_limit_exceeded_total", { kind: limit.kind });
}

/** Each try loses against a commit of another process, so even ten of them on one window are through by then. */
const TRIES_MAX = 64;
