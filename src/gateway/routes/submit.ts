/** A request for a job as a submission, and what became of it as an answer. */

import { checkSubmission, type Submission } from "../../core/jobs/submission.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { followSettings } from "../../engine/dispatch/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { type Admitted, admitJob } from "../../engine/intake/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok } from "../route.ts";
import { remediationView } from "../views/job-views.ts";

export type Fields = Readonly<Record<string, unknown>>;

export async function submit({ engine, verdicts }: Gateway, submission: Submission): Promise<Answer> {
  refuseUnserved(engine, submission.topic);
  const admitted = await admitJob(engine, submission);
  if (admitted.kind === "unusable") {
    throw new Problem("invalid_submission", "this `job_id` cannot be used; choose another one, or leave it out");
  }
  if (admitted.kind === "conflict") {
    throw new Problem(
      "idempotency_conflict",
      "the same key or id came with another body before; use a new one for a new job",
      { job_id: admitted.jobId },
    );
  }
  const { jobId, traceId } = admitted;
  const state = admitted.state === "PENDING" ? await verdicts.stateOf(jobId) : admitted.state;
  const answer = { job_id: jobId, trace_id: traceId, state, replayed: admitted.kind === "replayed" };
  switch (state) {
    case "DENIED":
      throw await denial(engine, admitted);
    case "APPROVAL_REQUIRED":
      return ok({ ...answer, ...(await approvalFacts(engine, jobId)) });
    default:
      return ok(answer);
  }
}

/** The body of a submission, in the dialect's names; the key also as a header. */
export function submissionOf({ engine }: Gateway, request: GatewayRequest): Submission {
  const fields = (request.body ?? {}) as Fields;
  const isPrompt = fields.input === undefined && (fields.prompt !== undefined || fields.context !== undefined);
  return checked({
    ...whoAsks(request),
    topic: fields.topic,
    input: isPrompt ? promptOf(fields, request.org, engine.world.clock.now()) : fields.input,
    isStamped: isPrompt,
    jobId: fields.job_id,
    priority: fields.priority,
    labels: labelsOf(fields),
    riskTags: fields.risk_tags,
    requires: fields.requires,
    capability: fields.capability,
    actorId: fields.actor_id ?? fields.principal_id,
    actorType: fields.actor_type,
    packId: fields.pack_id,
    idempotencyKey: keyOf(request, fields.idempotency_key),
    traceId: fields.trace_id,
  });
}

/** What the request says beside its body. */
export function whoAsks({ org, principal, headers }: GatewayRequest): Fields {
  return { org, submittedBy: principal.id, traceparent: headers.traceparent };
}

export function checked(raw: Fields): Submission {
  const outcome = checkSubmission(raw);
  if (outcome.kind === "ok") return outcome.submission;
  const problems = outcome.problems.map(inDialect);
  throw new Problem("invalid_submission", problems.join("; "), { problems });
}

export function keyOf({ headers }: GatewayRequest, field: unknown): unknown {
  const header = headers["idempotency-key"];
  if (header === undefined) return field;
  if (field === undefined || field === header) return header;
  throw new Problem("invalid_request", "`Idempotency-Key` and `idempotency_key` differ; send one of them");
}

/** What workers of the wire protocol expect. When it was asked is not part of what was asked: see `isStamped`. */
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

/** With those of an MCP call: the policy knows it by its labels. */
function labelsOf({ labels, mcp }: Fields): unknown {
  if (mcp === undefined) return labels;
  const merged: Record<string, unknown> = { ...(labels as Fields | undefined) };
  for (const [part, value] of Object.entries(mcp as Fields)) {
    const name = `mcp.${part}`;
    if (merged[name] !== undefined && merged[name] !== value) {
      throw new Problem("invalid_submission", `the label \`${name}\` and \`${name}\` itself differ; send one of them`);
    }
    merged[name] = value;
  }
  return merged;
}

/** Where pools are set, a topic that none of them serves is a mistake that is better found now than by waiting. */
function refuseUnserved(engine: Engine, topic: string): void {
  const { pools } = engine.settings.current;
  if (Object.keys(pools).length === 0) return;
  followSettings(engine);
  if (engine.pools.namedFor(topic).length > 0) return;
  const known = Object.entries(pools).map(([name, { topics }]) => `\`${name}\` (${topics.join(", ")})`);
  throw new Problem("invalid_submission", `no pool serves \`${topic}\`; there are ${known.join("; ")}`, {
    pools: Object.fromEntries(Object.entries(pools).map(([name, { topics }]) => [name, topics])),
  });
}

async function approvalFacts(engine: Engine, jobId: string): Promise<Fields> {
  const job = (await engine.world.store.load<Job>(JOBS, jobId))?.value;
  return {
    status: "approval_required",
    reason: job?.safety?.reason ?? null,
    rule_id: job?.safety?.ruleId ?? null,
    expires_at: job?.approval ? new Date(job.approval.expiresMs).toISOString() : null,
  };
}

async function denial(engine: Engine, { jobId, traceId }: Extract<Admitted, { traceId: string }>): Promise<Problem> {
  const job = (await engine.world.store.load<Job>(JOBS, jobId))?.value;
  const why = job?.error?.message ?? job?.safety?.reason ?? "the safety policy denies it";
  return new Problem("denied", why, {
    job_id: jobId,
    trace_id: traceId,
    state: "DENIED",
    rule_id: job?.safety?.ruleId ?? null,
    snapshot: job?.safety?.snapshot ?? null,
    remediations: (job?.safety?.remediations ?? []).map(remediationView),
  });
}

/** Sentences about a submission name its fields as the code does; clients know them in snake case. */
function inDialect(problem: string): string {
  return problem.replace(/`(\w+)`/g, (whole, field: string) => (DIALECT[field] ? `\`${DIALECT[field]}\`` : whole));
}

const DIALECT: Readonly<Record<string, string>> = {
  riskTags: "risk_tags",
  jobId: "job_id",
  actorId: "actor_id",
  actorType: "actor_type",
  packId: "pack_id",
  traceId: "trace_id",
  org: "x-tenant-id",
};
