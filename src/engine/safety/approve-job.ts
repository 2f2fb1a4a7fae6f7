import {
  type ApprovalBlock,
  type ApprovalExpectation,
  type Approver,
  approvalBlock,
  approvalMismatch,
  approveJob,
  expireApproval,
  rejectJob,
} from "../../core/jobs/approval.ts";
import { decideSafety } from "../../core/jobs/lifecycle.ts";
import { isFinal, type Job, type JobState } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import { decisionOnRecord } from "../../core/policy/limits/apply-limits.ts";
import type { Put, Versioned } from "../../ports/store.ts";
import { auditPut, decisionPut } from "../audit/index.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import { loadTenantJob, placeJob, settleJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { decideLimited } from "../limits/index.ts";
import { readInput } from "../payloads.ts";
import { policyRequestOf } from "./check-job.ts";
import { askKernel } from "./circuit-breaker.ts";

/**
 * Approves or rejects a job that awaits approval.
 *
 * 1. The kernel is asked again: an approval is void if its decision changed. The job is then decided again in the same
 *    commit, and the response says what changed. A missing or damaged input cannot be approved.
 * 2. Of concurrent answers exactly one is committed.
 * 3. An unavailable kernel changes nothing.
 * 4. The audit entry is part of the commit.
 */
export interface ApprovalRequest extends Approver {
  readonly org: string;
  readonly jobId: string;
  /** What the approver was shown. */
  readonly seen?: ApprovalExpectation;
}

export type ApproveOutcome =
  | { readonly kind: "approved"; readonly state: JobState }
  /** The approved job or policy changed; `state` follows from the new decision. */
  | { readonly kind: "void"; readonly state: JobState; readonly why: string }
  /** The approver was shown something else; nothing changed. */
  | { readonly kind: "mistaken"; readonly why: string }
  | { readonly kind: "unavailable"; readonly reason: string }
  | { readonly kind: "input_gone"; readonly why: string }
  | { readonly kind: "not_waiting"; readonly state: JobState }
  | { readonly kind: "expired" | "own_job" | "no_person" | "not_found" };

export function approve(engine: DispatchContext & Needs<"audit">, request: ApprovalRequest): Promise<ApproveOutcome> {
  return retryOnConflict(`job \`${request.jobId}\``, () => tryApprove(engine, request));
}

export type RejectOutcome =
  | { readonly kind: "rejected"; readonly state: JobState }
  | { readonly kind: "not_waiting"; readonly state: JobState }
  | { readonly kind: "not_found" };

export function reject(
  engine: DispatchContext & Needs<"audit">,
  request: Approver & { readonly org: string; readonly jobId: string; readonly why: string },
): Promise<RejectOutcome> {
  return retryOnConflict(`job \`${request.jobId}\``, async () => {
    const found = await loadTenantJob(engine, request);
    if (!found) return { kind: "not_found" };
    const next = rejectJob(found.value, request, request.why, decisionContext(engine, found.value));
    if (!next) return { kind: "not_waiting", state: found.value.state };
    const line = noteOf(engine, found.value, request, "rejected", request.why);
    return (await settleJob(engine, found, next, [line], AT_GATEWAY))
      ? { kind: "rejected", state: next.state }
      : "stale";
  });
}

async function tryApprove(
  engine: DispatchContext & Needs<"audit">,
  request: ApprovalRequest,
): Promise<ApproveOutcome | "stale"> {
  const found = await loadTenantJob(engine, request);
  if (!found) return { kind: "not_found" };
  const job = found.value;
  const objection = approvalBlock(job, request, decisionContext(engine, job).nowMs);
  if (objection !== null) return refuse(engine, found, objection);
  const mistake = job.approval && request.seen ? approvalMismatch(job.approval, request.seen) : null;
  if (mistake !== null) return { kind: "mistaken", why: mistake };
  const present = await presentOf(engine, job);
  if (present.kind !== "present") return present;

  const answer = approveJob(job, request, present, decisionContext(engine, job));
  switch (answer.kind) {
    case "approved": {
      const note = noteOf(engine, job, request, "approved", request.note);
      const { job: next } = answer;
      if (isFinal(next.state)) {
        return (await settleJob(engine, found, next, [note], AT_GATEWAY))
          ? { kind: "approved", state: next.state }
          : "stale";
      }
      const state = await placeJob(engine, found, next, [note]);
      return state === "stale" ? "stale" : { kind: "approved", state };
    }
    case "void": {
      const note = noteOf(engine, job, request, "void", answer.why);
      const state = await decideAgain(engine, found, answer.job, present.given, note);
      return state === "stale" ? "stale" : { kind: "void", state, why: answer.why };
    }
    case "expired":
    case "own_job":
    case "no_person":
    case "not_waiting":
      return refuse(engine, found, answer.kind);
    default:
      return answer satisfies never;
  }
}

function decideAgain(
  engine: DispatchContext & Needs<"audit">,
  found: Versioned<Job>,
  job: Job,
  given: Decision,
  note: Put,
): Promise<JobState | "stale"> {
  if (given.limits !== undefined) {
    return decideLimited(engine, job, given, (decided, puts, guards) =>
      placeJob(engine, found, decided, [note, ...puts], guards),
    );
  }
  const next = decideSafety(job, given, decisionContext(engine, job));
  return placeJob(engine, found, next, [note, decisionPut(engine, next)]);
}

async function refuse(
  engine: DispatchContext,
  found: Versioned<Job>,
  objection: ApprovalBlock,
): Promise<ApproveOutcome | "stale"> {
  switch (objection) {
    case "expired":
      return (await settleJob(
        engine,
        found,
        expireApproval(found.value, decisionContext(engine, found.value)),
        [],
        AT_GATEWAY,
      ))
        ? { kind: "expired" }
        : "stale";
    case "own_job":
    case "no_person":
      return { kind: objection };
    case "not_waiting":
      return { kind: "not_waiting", state: found.value.state };
    default:
      return objection satisfies never;
  }
}

type Present =
  /** `decision` is the one on record, as long as the policy is the same; `given` has the limits of the kernel. */
  | { readonly kind: "present"; readonly job: Job; readonly decision: Decision; readonly given: Decision }
  | Extract<ApproveOutcome, { kind: "unavailable" | "input_gone" }>;

/** The job, whose input is intact, and the kernel's current decision. */
async function presentOf(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety">,
  job: Job,
): Promise<Present> {
  const input = await readInput(engine, job);
  if ("problem" in input) return { kind: "input_gone", why: input.problem };
  // The workflow requires this approval, not the policy.
  if (job.step?.kind === "approval" && job.safety)
    return { kind: "present", job, decision: job.safety, given: job.safety };
  const checked = await askKernel(engine, policyRequestOf(job, engine.world.clock.now()));
  if (checked.kind === "unavailable") return checked;
  const given = checked.decision;
  return { kind: "present", job, decision: decisionOnRecord(given, job.safety), given };
}

function noteOf(engine: Needs<"audit">, job: Job, { by: who, person }: Approver, answer: string, why?: string): Put {
  const { approval } = job;
  return auditPut(engine, {
    org: job.org,
    kind: "approval",
    who,
    what: answer,
    facts: {
      job: job.id,
      topic: job.topic,
      rule: approval?.ruleId ?? null,
      job_hash: approval?.jobHash ?? null,
      snapshot: approval?.snapshot ?? null,
      why: why ?? null,
      ...(person === undefined ? {} : { person }),
      ...(isOwn(job, who, person) ? { by_submitter: true } : {}),
    },
  });
}

/** An approval of the own job, which the rule allows. */
const isOwn = ({ submittedBy, caller }: Job, by: string, person: string | undefined): boolean =>
  by === submittedBy || (person !== undefined && person === caller?.person);

const AT_GATEWAY = { path: "gateway" } as const;
