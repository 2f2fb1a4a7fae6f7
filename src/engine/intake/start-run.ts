import { createHash } from "node:crypto";
import { canonical } from "../../core/jobs/idempotency.ts";
import type { Caller } from "../../core/model/caller.ts";
import { RUN_RESERVATIONS, RUNS, RUNS_GROUP, type Run, type RunSchedule, type RunState } from "../../core/model/run.ts";
import { observeUnit } from "../../core/rollout/unit-measures.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import { inputProblems, openRun } from "../../core/workflow/run/open-run.ts";
import { type Put, put } from "../../ports/store.ts";
import type { JobPriority } from "../../protocol/packet.ts";
import { ConflictError } from "../commit.ts";
import type { DispatchContext, Needs, RunContext } from "../engine.ts";
import { storeForRun, tooLargeText } from "../payloads.ts";
import { QuotaExceeded } from "../quotas.ts";
import { createRun, planOf, type RunLimitReached, runLimitOf, versionToRun } from "../runs/index.ts";
import { type Admission, withAdmissionLock } from "./admission-lock.ts";

/**
 * Admission of runs.
 *
 * 1. An idempotency key that was used before returns its run, before any lock or limit (L21), also while the run is
 *    being created; with another body it is a conflict. Keys are scoped by tenant (L22).
 * 2. `atomic`: key, slot, run and first steps are one commit (L23, L24). `polled`: the same behind the baseline lock.
 * 3. Concurrent starts of one org are limited (`admission-limiter.ts`).
 * 4. A full org is refused at once with the current count and the limit; so is one whose steps wait for a slot.
 */
export interface RunRequest {
  readonly org: string;
  readonly workflowId: string;
  /** Null for the newest version. */
  readonly version: number | null;
  readonly input: unknown;
  readonly labels: Readonly<Record<string, string>>;
  readonly priority: JobPriority | null;
  readonly idempotencyKey: string | null;
  readonly traceId: string | null;
  readonly traceparent: string | null;
  readonly submittedBy: string | null;
  readonly caller?: Caller | undefined;
  readonly actorId: string | null;
  readonly schedule?: RunSchedule | undefined;
  /** By default a new one. */
  readonly runId?: string;
}

/** A request with defaults. */
export const defaultRunRequest = (org: string, workflowId: string, submittedBy: string | null): RunRequest => ({
  org,
  workflowId,
  version: null,
  input: null,
  labels: {},
  priority: null,
  idempotencyKey: null,
  traceId: null,
  traceparent: null,
  submittedBy,
  actorId: null,
});

export type StartOutcome =
  | { readonly kind: "started" | "replayed"; readonly runId: string; readonly state: RunState }
  | { readonly kind: "conflict"; readonly runId: string }
  | { readonly kind: "no_workflow" }
  | { readonly kind: "invalid"; readonly problems: readonly string[] }
  | RunLimitReached
  | { readonly kind: "gate_unavailable"; readonly waitedMs: number };

export function startRun(
  engine: RunContext & Needs<"admissionLimiter">,
  request: RunRequest,
  endpoint: string,
): Promise<StartOutcome> {
  const { org, idempotencyKey: key } = request;
  const use = key === null ? null : { id: reservationKey(org, key), fingerprint: fingerprintOf(request) };
  return startRunOnce(engine, request, endpoint, { use });
}

/** With another identity than the client's key, and puts in the commit that starts the run. */
export async function startRunOnce(
  engine: RunContext & Needs<"admissionLimiter">,
  request: RunRequest,
  endpoint: string,
  { use: key, puts = [] }: { readonly use: RunKeyUse | null; readonly puts?: readonly Put[] },
): Promise<StartOutcome> {
  return measureAdmission(engine, request.org, endpoint, async () => {
    const known = key && (await replayOf(engine, key));
    if (known) return known;
    const version = await versionToRun(engine, request.org, request.workflowId, request.version);
    const plan = version === null ? null : await planOf(engine, request.org, request.workflowId, version);
    if (version === null || !plan) return { kind: "no_workflow" };
    const problems = inputProblems(plan, request.input ?? null);
    if (problems.length > 0) return { kind: "invalid", problems };
    return admitRun(engine, request.org, key, () => freshRun(engine, plan, request, version), puts);
  });
}

type Fresh =
  | { readonly kind: "fresh"; readonly plan: Plan; readonly run: ReturnType<typeof openRun> }
  | Extract<StartOutcome, { kind: "invalid" }>;

async function freshRun(
  engine: Needs<"world" | "settings" | "runCache">,
  plan: Plan,
  request: RunRequest,
  version: number,
): Promise<Fresh> {
  const { clock, random } = engine.world;
  const { run: limits, retention } = engine.settings.current;
  const runId = request.runId ?? random.id();
  const nowMs = clock.now();
  const untilMs = nowMs + (plan.timeoutMs ?? limits.deadlineMs) + 2 * retention.runsMs;
  const input = await storeForRun(engine, request.input ?? null, {
    owner: { org: request.org, kind: "run", id: runId },
    untilMs,
  });
  if (input.kind === "too_large") {
    return { kind: "invalid", problems: [tooLargeText("input", input)] };
  }
  const { org, labels, priority, submittedBy, caller, actorId, traceparent } = request;
  const traceId = request.traceId ?? runId;
  const submitter = { submittedBy, caller, actorId };
  const { schedule } = request;
  const order = { runId, org, version, traceId, labels, priority, ...submitter, traceparent, parent: null, schedule };
  return { kind: "fresh", plan, run: openRun(plan, order, input, { nowMs, deadlineMs: limits.deadlineMs }) };
}

export interface RunKeyUse {
  /** Of the reservation. Scoped by org, so that no tenant gets another tenant's run. */
  readonly id: string;
  readonly fingerprint: string;
  /** As long as the run is kept; by default `retention.idempotency_ms`. */
  readonly isKeptWithRun?: boolean;
}

/** Admission by the configured strategy. Every start goes through here. */
export async function admitRun(
  engine: DispatchContext &
    Needs<"audit" | "lockStats" | "contention" | "runCache" | "runEffects" | "admissionLimiter">,
  org: string,
  key: RunKeyUse | null,
  fresh: () => Promise<Fresh>,
  extraPuts: readonly Put[] = [],
): Promise<StartOutcome> {
  const make = async (admission?: Admission): Promise<StartOutcome> => {
    const made = await fresh();
    if (made.kind !== "fresh") return made;
    const admitted = admission?.arms === undefined ? made.run : withAdmission(made.run, admission);
    const run = key ? { ...admitted, reservation: key.id } : admitted;
    const created = await createRun(engine, made.plan, run, [
      ...(key ? [reservation(engine, key, run)] : []),
      ...extraPuts,
    ]);
    switch (created.kind) {
      case "created":
        return { kind: "started", runId: created.run.id, state: created.run.state };
      case "full":
        return created;
      case "stale": {
        // A concurrent start with the same key was first.
        const known = key && (await replayOf(engine, key));
        if (known) return known;
        throw new ConflictError(`\`${created.table}\` changed during the start of a run; retry the request`);
      }
      default:
        return created satisfies never;
    }
  };
  const limit = runLimitOf(engine.settings.current, org);
  // A start with the same key may have been admitted while this one waited.
  const refused = async (full: RunLimitReached): Promise<StartOutcome> =>
    (key && (await replayOf(engine, key))) ?? full;
  if (engine.settings.current.admission.strategy === "atomic") {
    const passed = await engine.admissionLimiter.run(org, limit, () => make());
    return passed.kind === "refused_with_another" ? refused(passed.full) : passed;
  }
  const gated = await withAdmissionLock(engine, org, async (_lease, admission): Promise<StartOutcome> => {
    const current = (await engine.world.store.counts(RUNS_GROUP, ORGS_MAX)).get(org) ?? 0;
    return current < limit ? make(admission) : refused({ kind: "full", current, limit });
  });
  return gated.kind === "passed" ? gated.value : { kind: "gate_unavailable", waitedMs: gated.waitedMs };
}

/** The arms of the tenant and what its start measured. */
function withAdmission(run: Run, { arms, waitedMs }: Admission): Run {
  const measures = observeUnit(arms, undefined, { kind: "admitted", waitedMs }, run.createdMs);
  return { ...run, ...(arms && { arms }), ...(measures && { measures }) };
}

/** Records the admission metrics. */
export async function measureAdmission(
  engine: Needs<"world">,
  org: string,
  endpoint: string,
  start: () => Promise<StartOutcome>,
): Promise<StartOutcome> {
  const { clock, metrics } = engine.world;
  const fromMs = clock.now();
  const rejected = (reason: string) => metrics.add("cordum_admission_rejected_total", { reason });
  try {
    const outcome = await start();
    if (outcome.kind !== "started" && outcome.kind !== "replayed") rejected(outcome.kind);
    return outcome;
  } catch (error) {
    rejected(error instanceof QuotaExceeded ? "quota" : "unavailable");
    throw error;
  } finally {
    const seconds = Math.max(0, clock.now() - fromMs) / 1_000;
    metrics.observe("cordum_admission_wait_seconds", seconds, { tenant: org, endpoint });
  }
}

/** The run of a used key. Checked before any lock, so that a replay never waits (L21). */
export async function replayOf(engine: Needs<"world">, { id, fingerprint }: RunKeyUse): Promise<StartOutcome | null> {
  const reserved = await engine.world.store.load(RUN_RESERVATIONS, id);
  if (!reserved) return null;
  const { runId } = reserved.value;
  if (reserved.value.fingerprint !== fingerprint) return { kind: "conflict", runId };
  const found = await engine.world.store.load(RUNS, runId);
  // The key is removed with its run, which is happening right now.
  return { kind: "replayed", runId, state: found?.value.state ?? "SUCCEEDED" };
}

function reservation(
  engine: Needs<"world" | "settings">,
  { id, fingerprint, isKeptWithRun = false }: RunKeyUse,
  run: Run,
): Put {
  const { idempotencyMs, runsMs } = engine.settings.current.retention;
  const dueMs = isKeptWithRun ? run.deadlineMs + 2 * runsMs : engine.world.clock.now() + idempotencyMs;
  return put(RUN_RESERVATIONS, id, null, { runId: run.id, fingerprint, dueMs });
}

export const reservationKey = (org: string, key: string): string => `${org}/${key}`;

/** The fields that identify a request; key, trace and submitter are not part of it. */
function fingerprintOf({ org, workflowId, version, input, labels, priority, actorId }: RunRequest): string {
  const body = { org, workflowId, version, input: input ?? null, labels, priority, actorId };
  return fingerprintOfBody(body);
}

export const fingerprintOfBody = (body: object): string =>
  createHash("sha256").update(canonical(body)).digest("base64url");

const ORGS_MAX = 10_000;
