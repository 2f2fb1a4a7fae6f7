import {
  type ApprovalExpectation,
  type Approver,
  approvalBlock,
  approvalMismatch,
  approveJob,
  expireApproval,
  rejectJob,
} from "../../core/jobs/approval.ts";
import { isFinal, type Job, type JobState } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import type { Put, Versioned } from "../../ports/store.ts";
import { auditPut, decisionLine } from "../audit/index.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import { loadTenantJob, placeJob, settleJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { applyDecision, sha256Of } from "./apply-decision.ts";
import { policyRequestOf } from "./check-job.ts";
import { askKernel } from "./circuit-breaker.ts";

/**
 * A human decides about a job that waits for one.
 *
 * 1. The kernel is asked again and the input is hashed again: an approval of something that has changed since is void.
 *    Then the job is decided on anew, in the same commit, and the answer says what changed.
 * 2. Of any number of answers at once exactly one counts: it moves the job on, and the others find it moved.
 * 3. A kernel that does not answer changes nothing.
 * 4. Each answer that counts stands in the audit log in the commit that it made.
 */
export interface ApprovalRequest extends Approver {
  readonly org: string;
  readonly jobId: string;
  /** What the approver had before them. */
  readonly seen?: ApprovalExpectation;
}

export type ApproveOutcome =
  | { readonly kind: "approved"; readonly state: JobState }
  /** What was approved is not what there is now; `state` is what became of the job by the present decision. */
  | { readonly kind: "void"; readonly state: JobState; readonly why: string }
  /** The approver looked at something else: nothing has changed. */
  | { readonly kind: "mistaken"; readonly why: string }
  | { readonly kind: "unavailable"; readonly reason: string }
  | { readonly kind: "input_gone"; readonly ptr: string }
  | { readonly kind: "not_waiting"; readonly state: JobState }
  | { readonly kind: "expired" | "own_job" | "not_found" };

export function approve(engine: DispatchContext & Needs<"audit">, request: ApprovalRequest): Promise<ApproveOutcome> {
  return retryOnConflict(`job \`${request.jobId}\``, () => tryApprove(engine, request));
}

export type RejectOutcome =
  | { readonly kind: "rejected"; readonly state: JobState }
  | { readonly kind: "not_waiting"; readonly state: JobState }
  | { readonly kind: "not_found" };

export function reject(
  engine: DispatchContext & Needs<"audit">,
  request: { readonly org: string; readonly jobId: string; readonly by: string; readonly why: string },
): Promise<RejectOutcome> {
  return retryOnConflict(`job \`${request.jobId}\``, async () => {
    const found = await loadTenantJob(engine, request);
    if (!found) return { kind: "not_found" };
    const next = rejectJob(found.value, request.by, request.why, decisionContext(engine));
    if (!next) return { kind: "not_waiting", state: found.value.state };
    const line = noteOf(engine, found.value, request.by, "rejected", request.why);
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
  const objection = approvalBlock(job, request.by, decisionContext(engine).nowMs);
  if (objection !== null) return refuse(engine, found, objection);
  const mistake = job.approval && request.seen ? approvalMismatch(job.approval, request.seen) : null;
  if (mistake !== null) return { kind: "mistaken", why: mistake };
  const present = await presentOf(engine, job);
  if (present.kind !== "present") return present;

  const answer = approveJob(job, request, present, decisionContext(engine));
  switch (answer.kind) {
    case "approved": {
      const note = noteOf(engine, job, request.by, "approved", request.note);
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
      const next = await applyDecision(engine, answer.job, present.decision);
      const lines = [noteOf(engine, job, request.by, "void", answer.why), auditPut(engine, decisionLine(next))];
      const state = await placeJob(engine, found, next, lines);
      return state === "stale" ? "stale" : { kind: "void", state, why: answer.why };
    }
    case "expired":
    case "own_job":
    case "not_waiting":
      return refuse(engine, found, answer.kind);
    default:
      return answer satisfies never;
  }
}

async function refuse(
  engine: DispatchContext,
  found: Versioned<Job>,
  objection: "expired" | "own_job" | "not_waiting",
): Promise<ApproveOutcome | "stale"> {
  switch (objection) {
    case "expired":
      return (await settleJob(engine, found, expireApproval(found.value, decisionContext(engine)), [], AT_GATEWAY))
        ? { kind: "expired" }
        : "stale";
    case "own_job":
      return { kind: "own_job" };
    case "not_waiting":
      return { kind: "not_waiting", state: found.value.state };
    default:
      return objection satisfies never;
  }
}

type Present =
  | { readonly kind: "present"; readonly job: Job; readonly decision: Decision }
  | Extract<ApproveOutcome, { kind: "unavailable" | "input_gone" }>;

/** The job with its input as it is now, and what the kernel says to it now. */
async function presentOf(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety">,
  job: Job,
): Promise<Present> {
  const { blobs } = engine.world;
  let now = job;
  if (job.input.kind === "pointer") {
    const bytes = await blobs.get(job.input.ptr);
    if (bytes === null) return { kind: "input_gone", ptr: job.input.ptr };
    // Also where there was nothing to hash when the approval was asked for: what has come since was approved by nobody.
    now = { ...job, input: { ...job.input, bytes: bytes.length, sha256: sha256Of(bytes) } };
  }
  // A workflow asks for it, not the policy: that has nothing to say to it.
  if (job.step?.kind === "approval" && job.safety) return { kind: "present", job: now, decision: job.safety };
  const checked = await askKernel(engine, policyRequestOf(now));
  return checked.kind === "decided" ? { kind: "present", job: now, decision: checked.decision } : checked;
}

function noteOf(engine: Needs<"audit">, job: Job, who: string, answer: string, why?: string): Put {
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
    },
  });
}

/** Somebody waits for the answer. */
const AT_GATEWAY = { path: "gateway" } as const;
