import {
  type Approver,
  approveJob,
  expireApproval,
  mistakenFor,
  objectionTo,
  rejectJob,
  type Seen,
} from "../../core/jobs/approval.ts";
import { isFinal, JOBS, type Job, type JobState } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import type { Put, Versioned } from "../../ports/store.ts";
import { audited, decisionLine } from "../audit/audit-log.ts";
import { untilFresh } from "../commit.ts";
import { place } from "../dispatch/place-job.ts";
import { settle } from "../dispatch/settle-job.ts";
import { type Flow, given } from "../engine.ts";
import { decide, sha256Of } from "./apply-decision.ts";
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
export interface ApprovalWish extends Approver {
  readonly org: string;
  readonly jobId: string;
  /** What the approver had before them. */
  readonly seen?: Seen;
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

export function approve(flow: Flow, wish: ApprovalWish): Promise<ApproveOutcome> {
  return untilFresh(`job \`${wish.jobId}\``, () => tryApprove(flow, wish));
}

export type RejectOutcome =
  | { readonly kind: "rejected"; readonly state: JobState }
  | { readonly kind: "not_waiting"; readonly state: JobState }
  | { readonly kind: "not_found" };

export function reject(
  flow: Flow,
  wish: { readonly org: string; readonly jobId: string; readonly by: string; readonly why: string },
): Promise<RejectOutcome> {
  return untilFresh(`job \`${wish.jobId}\``, async () => {
    const found = await loadOwn(flow, wish);
    if (!found) return { kind: "not_found" };
    const next = rejectJob(found.value, wish.by, wish.why, given(flow));
    if (!next) return { kind: "not_waiting", state: found.value.state };
    const line = noteOf(flow, found.value, wish.by, "rejected", wish.why);
    return (await settle(flow, found, next, [line], AT_GATEWAY)) ? { kind: "rejected", state: next.state } : "stale";
  });
}

/** Somebody else's job is not there. */
export async function loadOwn(
  flow: Flow,
  { org, jobId }: { readonly org: string; readonly jobId: string },
): Promise<Versioned<Job> | null> {
  const found = await flow.world.store.load(JOBS, jobId);
  return found?.value.org === org ? found : null;
}

async function tryApprove(flow: Flow, wish: ApprovalWish): Promise<ApproveOutcome | "stale"> {
  const found = await loadOwn(flow, wish);
  if (!found) return { kind: "not_found" };
  const job = found.value;
  const objection = objectionTo(job, wish.by, given(flow).nowMs);
  if (objection !== null) return refuse(flow, found, objection);
  const mistake = job.approval && wish.seen ? mistakenFor(job.approval, wish.seen) : null;
  if (mistake !== null) return { kind: "mistaken", why: mistake };
  const present = await presentOf(flow, job);
  if (present.kind !== "present") return present;

  const answer = approveJob(job, wish, present, given(flow));
  switch (answer.kind) {
    case "approved": {
      const note = noteOf(flow, job, wish.by, "approved", wish.note);
      const { job: next } = answer;
      if (isFinal(next.state)) {
        return (await settle(flow, found, next, [note], AT_GATEWAY))
          ? { kind: "approved", state: next.state }
          : "stale";
      }
      const state = await place(flow, found, next, [note]);
      return state === "stale" ? "stale" : { kind: "approved", state };
    }
    case "void": {
      const next = await decide(flow, answer.job, present.decision);
      const lines = [noteOf(flow, job, wish.by, "void", answer.why), audited(flow, decisionLine(next))];
      const state = await place(flow, found, next, lines);
      return state === "stale" ? "stale" : { kind: "void", state, why: answer.why };
    }
    case "expired":
    case "own_job":
    case "not_waiting":
      return refuse(flow, found, answer.kind);
    default:
      return answer satisfies never;
  }
}

async function refuse(
  flow: Flow,
  found: Versioned<Job>,
  objection: "expired" | "own_job" | "not_waiting",
): Promise<ApproveOutcome | "stale"> {
  switch (objection) {
    case "expired":
      return (await settle(flow, found, expireApproval(found.value, given(flow)), [], AT_GATEWAY))
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
async function presentOf(flow: Flow, job: Job): Promise<Present> {
  const { blobs } = flow.world;
  let now = job;
  if (job.input.kind === "pointer") {
    const bytes = await blobs.get(job.input.ptr);
    if (bytes === null) return { kind: "input_gone", ptr: job.input.ptr };
    // Also where there was nothing to hash when the approval was asked for: what has come since was approved by nobody.
    now = { ...job, input: { ...job.input, bytes: bytes.length, sha256: sha256Of(bytes) } };
  }
  // A workflow asks for it, not the policy: that has nothing to say to it.
  if (job.step?.kind === "approval" && job.safety) return { kind: "present", job: now, decision: job.safety };
  const checked = await askKernel(flow, policyRequestOf(now));
  return checked.kind === "decided" ? { kind: "present", job: now, decision: checked.decision } : checked;
}

function noteOf(flow: Flow, job: Job, who: string, answer: string, why?: string): Put {
  const { approval } = job;
  return audited(flow, {
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
