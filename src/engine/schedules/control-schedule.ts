import type { Fact } from "../../core/model/audit.ts";
import type { Caller } from "../../core/model/caller.ts";
import { quotaOf } from "../../core/model/quota.ts";
import { afterTrigger } from "../../core/schedule/decide.ts";
import { applySpec, checkSchedule, type ScheduleSpec, setPaused, startBackfill } from "../../core/schedule/request.ts";
import { SCHEDULES, type Schedule, scheduleCountOf, scheduleKey, withDue } from "../../core/schedule/schedule.ts";
import { inputProblems } from "../../core/workflow/run/open-run.ts";
import { type Guard, put, type Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { retryOnConflict } from "../commit.ts";
import type { Needs } from "../engine.ts";
import {
  defaultRunRequest,
  fingerprintOfBody,
  replayOf,
  reservationKey,
  type StartOutcome,
  startRunOnce,
} from "../intake/index.ts";
import { planOf, versionToRun } from "../runs/index.ts";
import { openRunsOf, startUnlessStale } from "./due-schedule.ts";
import { countStart, type ScheduleEngine, scheduleLine, timeText } from "./start-slot.ts";

/** Actions of operators on schedules. Each is one commit with its audit entry. */
export interface ApplyScheduleRequest {
  readonly org: string;
  readonly document: unknown;
  readonly by: string;
  readonly caller?: Caller | undefined;
}

export type AppliedSchedule =
  | {
      readonly kind: "applied";
      readonly schedule: Schedule;
      readonly result: "created" | "updated" | "unchanged";
      readonly isNew: boolean;
    }
  | { readonly kind: "invalid"; readonly problems: readonly string[] }
  | { readonly kind: "too_many"; readonly limit: number };

type ControlEngine = Needs<"world" | "settings" | "commit" | "audit" | "planCache">;

export async function applySchedule(engine: ControlEngine, request: ApplyScheduleRequest): Promise<AppliedSchedule> {
  const { clock } = engine.world;
  const { scheduleIntervalMsMin: intervalMsMin } = engine.settings.current.limits;
  const checked = checkSchedule(request.document, { intervalMsMin, nowMs: clock.now() });
  if (checked.kind === "bad") return { kind: "invalid", problems: checked.problems };
  const { spec } = checked;
  const problems = await workflowProblems(engine, request.org, spec);
  if (problems.length > 0) return { kind: "invalid", problems };
  return retryOnConflict(`schedule \`${spec.id}\``, () => applyOnce(engine, request, spec));
}

async function workflowProblems(
  engine: ControlEngine,
  org: string,
  { workflowId, input }: ScheduleSpec,
): Promise<readonly string[]> {
  const version = await versionToRun(engine, org, workflowId, null);
  const plan = version === null ? null : await planOf(engine, org, workflowId, version);
  if (plan) return inputProblems(plan, input);
  return [`workflow \`${workflowId}\` does not exist; apply it first with \`cordum workflow apply\``];
}

async function applyOnce(
  engine: ControlEngine,
  { org, by, caller }: ApplyScheduleRequest,
  spec: ScheduleSpec,
): Promise<AppliedSchedule | "stale"> {
  const { clock, random } = engine.world;
  const before = await loadSchedule(engine, org, spec.id);
  const nowMs = clock.now();
  const uid = before?.value.uid ?? random.id();
  const after = applySpec(before?.value ?? null, spec, { org, uid, submittedBy: by, caller, nowMs });
  if (after === null && before) return { kind: "applied", schedule: before.value, result: "unchanged", isNew: false };
  if (after === null) return "stale";
  const limit = quotaOf(engine.settings.current, org, "schedulesMax");
  const guards: Guard[] = before ? [] : [{ kind: "counter", counter: scheduleCountOf(org), max: limit }];
  const { workflowId, timing, overlap, isPaused } = after;
  const facts = { workflow: workflowId, ...timing, overlap, paused: isPaused };
  const puts = [
    put(SCHEDULES, scheduleKey(org, spec.id), before, after),
    auditPut(engine, scheduleLine(after, "applied", facts, by)),
  ];
  const committed = await engine.commit({ org, puts, guards });
  if (committed.kind === "stale") return "stale";
  if (committed.kind === "refused") return { kind: "too_many", limit };
  return { kind: "applied", schedule: after, result: before ? "updated" : "created", isNew: true };
}

export interface ScheduleAct {
  readonly org: string;
  readonly id: string;
  readonly by: string;
  readonly reason?: string | undefined;
}

export type ScheduleOutcome =
  | { readonly kind: "moved" | "already"; readonly schedule: Schedule; readonly isNew: boolean }
  | { readonly kind: "not_found" };

/** No slot starts until it is resumed; open runs and a backfill continue. */
export const pauseSchedule = (engine: ControlEngine, act: ScheduleAct): Promise<ScheduleOutcome> =>
  change(engine, act, "paused", (schedule, nowMs) => setPaused(schedule, true, nowMs));

/** Continues with the next slot; those during the pause are not started. */
export const resumeSchedule = (engine: ControlEngine, act: ScheduleAct): Promise<ScheduleOutcome> =>
  change(engine, act, "resumed", (schedule, nowMs) => setPaused(schedule, false, nowMs));

export const cancelBackfill = (engine: ControlEngine, act: ScheduleAct): Promise<ScheduleOutcome> =>
  change(engine, act, "backfill cancelled", ({ backfill, ...rest }) => (backfill ? withDue(rest) : null));

function change(
  engine: ControlEngine,
  { org, id, by, reason }: ScheduleAct,
  what: string,
  next: (schedule: Schedule, nowMs: number) => Schedule | null,
): Promise<ScheduleOutcome> {
  return retryOnConflict(`schedule \`${id}\``, async (): Promise<ScheduleOutcome | "stale"> => {
    const found = await loadSchedule(engine, org, id);
    if (!found) return { kind: "not_found" };
    const after = next(found.value, engine.world.clock.now());
    if (after === null) return { kind: "already", schedule: found.value, isNew: false };
    const facts: Record<string, Fact> = reason ? { reason } : {};
    const puts = [put(SCHEDULES, found.id, found, after), auditPut(engine, scheduleLine(after, what, facts, by))];
    const committed = await engine.commit({ org, puts });
    return committed.kind === "committed" ? { kind: "moved", schedule: after, isNew: true } : "stale";
  });
}

/** Its runs continue. */
export function deleteSchedule(
  engine: ControlEngine,
  { org, id, by }: ScheduleAct,
): Promise<{ readonly kind: "deleted" | "not_found" }> {
  return retryOnConflict(`schedule \`${id}\``, async () => {
    const found = await loadSchedule(engine, org, id);
    if (!found) return { kind: "not_found" };
    const line = scheduleLine(found.value, "deleted", { workflow: found.value.workflowId }, by);
    const puts = [put(SCHEDULES, found.id, found, null), auditPut(engine, line)];
    return (await engine.commit({ org, puts })).kind === "committed" ? { kind: "deleted" } : "stale";
  });
}

export interface BackfillAct extends ScheduleAct {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly paceMs: number;
}

export type BackfillOutcome =
  | { readonly kind: "moved"; readonly schedule: Schedule; readonly slots: number }
  | { readonly kind: "invalid"; readonly why: string }
  | { readonly kind: "not_found" | "active" };

export function backfillSchedule(
  engine: ControlEngine,
  { org, id, by, fromMs, untilMs, paceMs }: BackfillAct,
): Promise<BackfillOutcome> {
  return retryOnConflict(`schedule \`${id}\``, async (): Promise<BackfillOutcome | "stale"> => {
    const found = await loadSchedule(engine, org, id);
    if (!found) return { kind: "not_found" };
    if (found.value.backfill) return { kind: "active" };
    const checked = startBackfill(found.value, { fromMs, untilMs, paceMs, by }, engine.world.clock.now());
    if (checked.kind === "bad") return { kind: "invalid", why: checked.why };
    const { next, slots } = checked;
    const facts = { from: timeText(fromMs), until: timeText(untilMs), slots, pace_ms: paceMs };
    const line = scheduleLine(next, "backfill started", facts, by);
    const puts = [put(SCHEDULES, found.id, found, next), auditPut(engine, line)];
    const committed = await engine.commit({ org, puts });
    return committed.kind === "committed" ? { kind: "moved", schedule: next, slots } : "stale";
  });
}

export interface TriggerAct extends ScheduleAct {
  readonly caller?: Caller | undefined;
  readonly idempotencyKey: string | null;
  /** Starts although a run of the schedule is open. */
  readonly mayOverlap: boolean;
}

export type TriggerOutcome =
  | { readonly kind: "triggered"; readonly schedule: Schedule; readonly outcome: StartOutcome }
  | { readonly kind: "overlap"; readonly runId: string }
  | { readonly kind: "not_found" };

/** Starts a run now, also of a paused schedule. The submitter is the caller. */
export function triggerSchedule(engine: ScheduleEngine, act: TriggerAct): Promise<TriggerOutcome> {
  const { org, id, by, caller, idempotencyKey: key, mayOverlap } = act;
  const { clock, random } = engine.world;
  return retryOnConflict(`schedule \`${id}\``, async (): Promise<TriggerOutcome | "stale"> => {
    const found = await loadSchedule(engine, org, id);
    if (!found) return { kind: "not_found" };
    const { uid, workflowId, input } = found.value;
    const use =
      key === null ? null : { id: reservationKey(org, key), fingerprint: fingerprintOfBody({ trigger: id, uid }) };
    // A replay comes before the overlap: the open run may be its own (L21).
    const open = mayOverlap || found.value.overlap === "allow" ? [] : await openRunsOf(engine, found.value);
    const [runId] = open;
    const replay = runId === undefined || use === null ? null : await replayOf(engine, use);
    if (replay) return { kind: "triggered", schedule: found.value, outcome: replay };
    if (runId !== undefined) return { kind: "overlap", runId };
    const newId = random.id();
    const after = afterTrigger(found.value, newId, clock.now());
    const line = scheduleLine(after, "triggered", { run: newId }, by);
    const request = { ...defaultRunRequest(org, workflowId, by), runId: newId, input, caller, schedule: { id } };
    const puts = [put(SCHEDULES, found.id, found, after), auditPut(engine, line)];
    const outcome = await startUnlessStale(() => startRunOnce(engine, request, ENDPOINT, { use, puts }));
    if (outcome === "stale") return "stale";
    if (outcome.kind === "started") countStart(engine, "triggered");
    return { kind: "triggered", schedule: after, outcome };
  });
}

/** Null also for a schedule of another tenant. */
export async function loadSchedule(
  { world: { store } }: Needs<"world">,
  org: string,
  id: string,
): Promise<Versioned<Schedule> | null> {
  const found = await store.load(SCHEDULES, scheduleKey(org, id));
  return found?.value.org === org ? found : null;
}

const ENDPOINT = "schedule trigger";
