import { canonical } from "../../core/jobs/idempotency.ts";
import { checkSubmission, type Submission } from "../../core/jobs/submission.ts";
import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { applyPoolSettings } from "../../engine/dispatch/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { type Admitted, admitJob } from "../../engine/intake/index.ts";
import { breakerRefusal } from "../../engine/safety/index.ts";
import { DETAIL_FIELDS, detailsFromJson, snakeCase } from "../../protocol/request-json.ts";

import { camelCase } from "../../protocol/schema.ts";
import { namedTenant } from "../auth/access.ts";
import { type Approvers, approvalWays, describeWays } from "../auth/approvers.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Principal } from "../route.ts";
import { remediationView } from "../views/job-views.ts";

export type Fields = Readonly<Record<string, unknown>>;

export async function submit(
  { engine, approvers, decisions: verdicts }: Gateway,
  submission: Submission,
): Promise<GatewayResponse> {
  requirePool(engine, submission.topic);
  const admitted = await admitJob(engine, submission);
  if (admitted.kind === "unusable") {
    throw new Problem("invalid_submission", "`job_id` is not available; choose another one or omit it");
  }
  if (admitted.kind === "conflict") {
    throw new Problem(
      "idempotency_conflict",
      "the key or `job_id` was used with another body; use a new one for a new job",
      { job_id: clientJobId(submission.org, admitted.jobId) },
    );
  }
  const { jobId, traceId } = admitted;
  const state = admitted.state === "PENDING" ? await verdicts.stateAfterDecision(jobId) : admitted.state;
  const id = clientJobId(submission.org, jobId);
  const response = { job_id: id, id, trace_id: traceId, state, replayed: admitted.kind === "replayed" };
  switch (state) {
    case "DENIED":
      throw await denial(engine, admitted);
    case "APPROVAL_REQUIRED":
      return ok({ ...response, ...(await approvalFacts(engine, approvers, jobId)) });
    default:
      return ok(response);
  }
}

export function readSubmission({ engine }: Gateway, request: GatewayRequest): Submission {
  const fields = (request.body ?? {}) as Fields;
  const org = namedTenant(request, { tenant_id: fields.tenant_id, org_id: fields.org_id });
  const isPrompt = fields.input === undefined && (fields.prompt !== undefined || fields.context !== undefined);
  return toSubmission({
    ...submitterFields({ ...request, org }),
    topic: fields.topic,
    input: isPrompt ? promptOf(fields, org, engine.world.clock.now()) : fields.input,
    isStamped: isPrompt,
    jobId: fields.job_id,
    priority: fields.priority,
    labels: labelsOf(fields),
    riskTags: fields.risk_tags,
    requires: fields.requires,
    capability: fields.capability,
    ...actorFields(request.principal, fields),
    packId: fields.pack_id,
    idempotencyKey: idempotencyKey(request, fields.idempotency_key),
    traceId: fields.trace_id,
    details: detailsIn(fields),
  });
}

/** Optional fields for the worker. Clients may also send the limits and hints without their object. */
function detailsIn(fields: Fields): object {
  const budget = merged(fields, "budget", ["max_input_tokens", "max_output_tokens", "max_total_tokens", "deadline_ms"]);
  const hints = merged(fields, "context_hints", ["allow_summarization", "allow_retrieval", "tags"]);
  return detailsFromJson({ ...fields, ...budget, ...hints });
}

/** The object field `name` with the top-level fields of the same meaning; empty if none is given. */
function merged(fields: Fields, name: string, members: readonly string[]): Fields {
  const inner = fields[name] as Fields | undefined;
  const outer = members.filter((member) => fields[member] !== undefined);
  if (outer.length === 0) return {};
  for (const member of outer) {
    if (inner?.[member] === undefined || canonical(inner[member]) === canonical(fields[member])) continue;
    throw new Problem("invalid_submission", `\`${name}.${member}\` and \`${member}\` differ; send one of them`);
  }
  return { [name]: { ...inner, ...Object.fromEntries(outer.map((member) => [member, fields[member]])) } };
}

export function submitterFields({ org, principal, headers }: GatewayRequest): Fields {
  return { org, submittedBy: principal.id, caller: principal.caller, traceparent: headers.traceparent };
}

/** The actor that the key is bound to, or the claimed one. A claim that contradicts the key is refused. */
export function actorFields({ caller }: Principal, { actor_id, principal_id, actor_type }: Fields): Fields {
  refuseOtherActor("actor_id", actor_id, caller.actorId);
  refuseOtherActor("principal_id", principal_id, caller.actorId);
  refuseOtherActor("actor_type", actor_type, caller.actorType);
  return { actorId: caller.actorId ?? actor_id ?? principal_id, actorType: caller.actorType ?? actor_type };
}

function refuseOtherActor(field: string, claimed: unknown, bound: string | undefined): void {
  if (bound === undefined || claimed === undefined || claimed === null || claimed === bound) return;
  const detail = `this key submits with \`${field}\` \`${bound}\` only; omit \`${field}\`, or use a key that is not bound`;
  throw new Problem("actor_forbidden", detail);
}

export function toSubmission(raw: Fields): Submission {
  const outcome = checkSubmission(raw);
  if (outcome.kind === "ok") return outcome.submission;
  const problems = outcome.problems.map(withApiNames);
  throw new Problem("invalid_submission", problems.join("; "), { problems });
}

export function idempotencyKey({ headers }: GatewayRequest, field: unknown): unknown {
  const header = headers["idempotency-key"];
  if (header === undefined) return field;
  if (field === undefined || field === header) return header;
  throw new Problem("invalid_request", "`Idempotency-Key` and `idempotency_key` differ; send one of them");
}

/** The input format of prompt jobs. `created_at` is excluded from the idempotency fingerprint by `isStamped`. */
function promptOf(fields: Fields, org: string, nowMs: number): Fields {
  const { prompt, adapter_id, priority, topic, context } = fields;
  return {
    prompt: prompt ?? null,
    adapter_id: adapter_id ?? null,
    priority: priority ?? "batch",
    topic,
    created_at: new Date(nowMs).toISOString(),
    tenant_id: org,
    ...(context === undefined ? {} : { context }),
  };
}

/** An MCP call is passed to the policy as `mcp.*` labels. */
function labelsOf({ labels, mcp }: Fields): unknown {
  if (mcp === undefined) return labels;
  const merged: Record<string, unknown> = { ...(labels as Fields | undefined) };
  for (const [part, value] of Object.entries(mcp as Fields)) {
    const name = `mcp.${part}`;
    if (merged[name] !== undefined && merged[name] !== value) {
      throw new Problem("invalid_submission", `label \`${name}\` and field \`${name}\` differ; send one of them`);
    }
    merged[name] = value;
  }
  return merged;
}

/** With configured pools, a topic that no pool serves is rejected on submission. */
function requirePool(engine: Engine, topic: string): void {
  const { pools } = engine.settings.current;
  if (Object.keys(pools).length === 0) return;
  applyPoolSettings(engine);
  if (engine.pools.namedFor(topic).length > 0) return;
  const known = Object.entries(pools).map(([name, { topics }]) => `\`${name}\` (${topics.join(", ")})`);
  throw new Problem(
    "invalid_submission",
    `no pool serves topic \`${topic}\`; pools are ${known.join("; ")}; see \`pools.<name>.topics\``,
    {
      pools: Object.fromEntries(Object.entries(pools).map(([name, { topics }]) => [name, topics])),
    },
  );
}

async function approvalFacts(engine: Engine, approvers: Approvers, jobId: string): Promise<Fields> {
  const job = (await engine.world.store.load<Job>(JOBS, jobId))?.value;
  const isStuck = job?.approval?.bySubmitter === false && (await approvers.isMissing(job));
  return {
    status: "approval_required",
    reason: job?.safety?.reason ?? null,
    rule_id: job?.safety?.ruleId ?? null,
    expires_at: job?.approval ? new Date(job.approval.expiresMs).toISOString() : null,
    submitter_can_approve: job?.approval?.bySubmitter ?? false,
    ...(job !== undefined && isStuck ? { no_approver: noApproverView(job) } : {}),
  };
}

/** Nothing else would say that the job ends as TIMEOUT. */
function noApproverView(job: Job): object {
  const ways = approvalWays(job);
  const detail = `no API key can approve this job: submitters cannot approve their own jobs; ${describeWays(ways)}`;
  return { detail, ways };
}

async function denial(engine: Engine, { jobId, traceId }: Extract<Admitted, { traceId: string }>): Promise<Problem> {
  const job = (await engine.world.store.load<Job>(JOBS, jobId))?.value;
  const reason = job?.error?.message ?? job?.safety?.reason ?? "no reason was given";
  return new Problem("denied", reason, {
    job_id: job === undefined ? jobId : clientJobId(job.org, jobId),
    trace_id: traceId,
    state: "DENIED",
    rule_id: job?.safety?.ruleId ?? null,
    snapshot: job?.safety?.snapshot ?? null,
    remediations: (job?.safety?.remediations ?? []).map(remediationView),
  });
}

/** Maps the field names in validation messages to the names of the API. */
function withApiNames(problem: string): string {
  return problem.replace(/`([\w.]+)`/g, (whole, field: string) => {
    if (API_NAMES[field]) return `\`${API_NAMES[field]}\``;
    return DETAIL_NAMES.has(field.split(".")[0] ?? "") ? `\`${snakeCase(field)}\`` : whole;
  });
}

const API_NAMES: Readonly<Record<string, string>> = {
  riskTags: "risk_tags",
  jobId: "job_id",
  actorId: "actor_id",
  actorType: "actor_type",
  packId: "pack_id",
  traceId: "trace_id",
  org: "x-tenant-id",
};

const DETAIL_NAMES: ReadonlySet<string> = new Set(DETAIL_FIELDS.map(camelCase));

/**
 * Waits for the decision of a remote safety kernel, which arrives after the job was stored. The wait is bounded by the
 * timeout of one check, and skipped while the circuit breaker is open. The job is durable before the wait begins.
 */
export class DecisionWaiter {
  readonly #engine: Engine;
  /** Callbacks by job id. All waiters share one subscription. */
  readonly #waiters = new Map<string, Set<() => void>>();
  #isSubscribed = false;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** The state of a new job after its decision; PENDING on timeout. */
  async stateAfterDecision(jobId: string): Promise<JobState> {
    const { clock, safety, store } = this.#engine.world;
    if (safety.local || breakerRefusal(this.#engine) !== null) return "PENDING";
    this.#subscribe();
    const untilMs = clock.now() + this.#engine.settings.current.safety.timeoutMs;
    for (;;) {
      const update = this.#nextUpdate(jobId, Math.max(0, untilMs - clock.now()));
      const found = await store.load(JOBS, jobId);
      const isDecided = found === null || found.value.state !== "PENDING" || found.value.wait !== null;
      if (isDecided) update.cancel();
      if (isDecided || !(await update.arrived)) return found?.value.state ?? "PENDING";
    }
  }

  #subscribe(): void {
    if (this.#isSubscribed) return;
    this.#isSubscribed = true;
    this.#engine.events.subscribe(({ jobId }) => {
      for (const onUpdate of this.#waiters.get(jobId) ?? []) onUpdate();
    });
  }

  /** `arrived` resolves to true on the next update of the job, and to false on timeout or `cancel`. */
  #nextUpdate(jobId: string, timeoutMs: number): { readonly arrived: Promise<boolean>; cancel(): void } {
    let cancel = (): void => {};
    const arrived = new Promise<boolean>((resolve) => {
      const end = (isUpdate: boolean) => {
        stopTimer();
        const waiters = this.#waiters.get(jobId);
        waiters?.delete(onUpdate);
        if (waiters?.size === 0) this.#waiters.delete(jobId);
        resolve(isUpdate);
      };
      const onUpdate = () => end(true);
      const stopTimer = this.#engine.world.clock.after(timeoutMs, () => end(false));
      this.#waiters.set(jobId, (this.#waiters.get(jobId) ?? new Set()).add(onUpdate));
      cancel = () => end(false);
    });
    return { arrived, cancel };
  }
}
