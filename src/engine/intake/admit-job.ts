import { fingerprintOf, isSameInput, RESERVATIONS, reservationId } from "../../core/jobs/idempotency.ts";
import { newJob } from "../../core/jobs/lifecycle.ts";
import type { Submission } from "../../core/jobs/submission.ts";
import { bareTopic } from "../../core/model/canonical.ts";
import { JOBS, type Job, type JobState, type Payload } from "../../core/model/job.ts";
import { intentOf } from "../../core/retry/intent.ts";
import { type Put, put } from "../../ports/store.ts";
import { inputKey } from "../../protocol/pointer.ts";
import { decisionLine, recordAudit, repeatedLine } from "../audit/index.ts";
import { decisionContext } from "../context.ts";
import { placeJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { submitMessage } from "../packets.ts";
import { storeSent } from "../payloads.ts";
import { applyDecision, policyRequestOf } from "../safety/index.ts";

/**
 * Admits a submission.
 *
 * 1. Idempotency key, job and position are one commit.
 * 2. A key that was used before returns its job, also while that job is being created; with another body it is a
 *    conflict.
 * 3. Job ids are unique across tenants, because wire keys contain them. An id of another tenant is refused without
 *    disclosing the job.
 * 4. With a local safety kernel, admission, check and placement are one commit without a message; otherwise the job is
 *    PENDING and announced by the outbox.
 */
export type Admitted =
  | {
      readonly kind: "accepted" | "replayed";
      readonly jobId: string;
      readonly traceId: string;
      readonly state: JobState;
    }
  | { readonly kind: "conflict"; readonly jobId: string }
  /** The id is taken; the response does not say by which tenant. */
  | { readonly kind: "unusable"; readonly jobId: string };

export async function admitJob(
  engine: DispatchContext & Needs<"audit">,
  submission: Submission,
  endpoint = "/api/v1/jobs",
): Promise<Admitted> {
  const { clock, metrics } = engine.world;
  const startMs = clock.now();
  const rejected = (reason: string) => metrics.add("cordum_admission_rejected_total", { reason });
  try {
    const admitted = await takeIn(engine, submission);
    if (admitted.kind === "conflict" || admitted.kind === "unusable") rejected("conflict");
    return admitted;
  } catch (error) {
    rejected(intentOf(error).kind === "permanent" ? "invalid" : "unavailable");
    throw error;
  } finally {
    const seconds = Math.max(0, clock.now() - startMs) / 1_000;
    metrics.observe("cordum_admission_wait_seconds", seconds, { tenant: submission.org, endpoint });
  }
}

async function takeIn(engine: DispatchContext & Needs<"audit">, submission: Submission): Promise<Admitted> {
  const { random, safety } = engine.world;
  const context = decisionContext(engine);
  const jobId = submission.jobId ?? random.id();
  const traceId = submission.traceId ?? jobId;
  const input = await storeInput(engine, submission, jobId);
  const job = newJob(submission, { jobId, traceId }, input, context);
  const reservation = reserve(engine, submission, jobId, traceId);

  if (safety.local) {
    const checked = await applyDecision(engine, job, safety.local(policyRequestOf(job)));
    recordAudit(engine, decisionLine(checked));
    const placed = await placeJob(engine, null, checked, reservation);
    if (placed !== "stale") return { kind: "accepted", jobId, traceId, state: placed };
    const replayed = await replay(engine, submission, jobId);
    recordAudit(engine, repeatedLine(checked, replayed.jobId));
    return replayed;
  }
  const committed = await engine.commit({
    org: job.org,
    puts: [...reservation, put(JOBS, jobId, null, job)],
    sends: [submitMessage(engine.world.name, job)],
  });
  if (committed.kind === "committed") return { kind: "accepted", jobId, traceId, state: job.state };
  return replay(engine, submission, jobId);
}

function reserve(engine: Needs<"world" | "settings">, submission: Submission, jobId: string, traceId: string): Put[] {
  if (submission.idempotencyKey === null) return [];
  const id = reservationId(submission.org, submission.idempotencyKey);
  const dueMs = engine.world.clock.now() + engine.settings.current.retention.idempotencyMs;
  return [put(RESERVATIONS, id, null, { jobId, traceId, fingerprint: fingerprintOf(submission), dueMs })];
}

/** The key or id exists: a replay if the request is the same. */
async function replay(engine: Needs<"world">, submission: Submission, jobId: string): Promise<Admitted> {
  const { store } = engine.world;
  const key = submission.idempotencyKey;
  const reserved = key === null ? null : await store.load(RESERVATIONS, reservationId(submission.org, key));
  if (reserved && reserved.value.fingerprint !== fingerprintOf(submission)) {
    return { kind: "conflict", jobId: reserved.value.jobId };
  }
  const found = await store.load(JOBS, reserved?.value.jobId ?? jobId);
  if (found && found.value.org === submission.org && (reserved || isSameWish(found.value, submission))) {
    return { kind: "replayed", jobId: found.id, traceId: found.value.traceId, state: found.value.state };
  }
  if (found) return { kind: found.value.org === submission.org ? "conflict" : "unusable", jobId };
  throw new Error(`job \`${jobId}\` was refused as a duplicate but is not in the store`);
}

/** Without a key the id identifies the replay, so the body must match as far as it is known. */
function isSameWish(job: Job, submission: Submission): boolean {
  if (bareTopic(job.topic) !== submission.topic) return false;
  return job.input.kind !== "inline" || isSameInput(job.input.value, submission);
}

function storeInput(
  engine: Needs<"world" | "settings">,
  submission: Submission,
  jobId: string,
): Promise<Payload> | Payload {
  if (submission.inputPtr !== null) return { kind: "pointer", ptr: submission.inputPtr, bytes: 0 };
  return storeSent(engine, "input", submission.input, () => {
    // Whether a client-chosen id is free is known only after the commit; until then no input under that id may be
    // overwritten.
    const ptr = submission.jobId === null ? inputKey(jobId) : `${inputKey(jobId)}.${engine.world.random.id()}`;
    const { job, retention } = engine.settings.current;
    return { ptr, untilMs: engine.world.clock.now() + job.deadlineMs + retention.jobsMs };
  });
}
