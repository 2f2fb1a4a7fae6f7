import { fingerprintOf, isSameInput, RESERVATIONS, reservationId } from "../../core/jobs/idempotency.ts";
import { decideSafety, newJob } from "../../core/jobs/lifecycle.ts";
import { outOfRange, type Submission } from "../../core/jobs/submission.ts";
import { bareTopic, nonFiniteIn } from "../../core/model/canonical.ts";
import { JOBS, type Job, type JobState, type Payload } from "../../core/model/job.ts";
import { DEFAULT_ORG, wireJobId } from "../../core/model/job-id.ts";
import { payloadValue } from "../../core/model/payload.ts";
import { intentOf } from "../../core/retry/intent.ts";
import { BLOB_BYTES_MAX } from "../../ports/blobs.ts";
import { type Put, put } from "../../ports/store.ts";
import { recordAudit, recordDecision, repeatedLine } from "../audit/index.ts";
import { decisionContext } from "../context.ts";
import { placeJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { BudgetExhausted, decideLimited } from "../limits/index.ts";
import { refused, submitMessage } from "../packets.ts";
import { ownedByJob, type Place, readSent, storeBytes, storeSent, tooLargeText } from "../payloads.ts";
import { admissionGuards, QuotaExceeded, requireRoom, throwIfExceeded } from "../quotas.ts";
import { policyRequestOf } from "../safety/index.ts";

/**
 * Admits a submission.
 *
 * 1. Idempotency key, job and position are one commit.
 * 2. A key that was used before returns its job, also while that job is being created; with another body it is a
 *    conflict.
 * 3. Ids are scoped by tenant (`core/model/job-id.ts`): an id that another tenant uses is free.
 * 4. A job that would exceed a quota of its tenant is refused (`quotas.ts`).
 * 5. With a local safety kernel, admission, check and placement are one commit without a message; otherwise the job is
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
  /** An earlier version stored a job of another tenant under the id. */
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
    const isPermanent = intentOf(error).kind === "permanent";
    if (error instanceof BudgetExhausted) rejected("budget");
    else rejected(error instanceof QuotaExceeded ? "quota" : isPermanent ? "invalid" : "unavailable");
    throw error;
  } finally {
    const seconds = Math.max(0, clock.now() - startMs) / 1_000;
    metrics.observe("cordum_admission_wait_seconds", seconds, { tenant: submission.org, endpoint });
  }
}

async function takeIn(engine: DispatchContext & Needs<"audit">, submission: Submission): Promise<Admitted> {
  const { random, safety } = engine.world;
  const nowMs = engine.world.clock.now();
  const { org } = submission;
  const clientId = submission.jobId ?? random.id();
  const isChosen = submission.jobId !== null && org !== DEFAULT_ORG;
  const jobId = isChosen ? await recordIdOf(engine, org, clientId) : wireJobId(org, clientId);
  const traceId = submission.traceId ?? clientId;
  const arms = engine.rollouts.enrolJob(org, jobId, nowMs);
  const context = decisionContext(engine, { arms }, nowMs);
  const input = await storeInput(engine, submission, jobId);
  const job = newJob(submission, { jobId, traceId }, input, context);
  if (arms !== undefined) job.arms = arms;
  const reservation = reserve(engine, submission, jobId, traceId);

  if (safety.local) {
    const decision = safety.local(policyRequestOf(job, context.nowMs));
    if (decision.limits !== undefined) {
      const placed = await decideLimited(engine, job, decision, (decided, puts, guards) =>
        placeJob(engine, null, decided, [...reservation, ...puts], guards),
      );
      return placed === "stale" ? replay(engine, submission, job) : { kind: "accepted", jobId, traceId, state: placed };
    }
    const checked = decideSafety(job, decision, context);
    recordDecision(engine, checked);
    const placed = await placeJob(engine, null, checked, reservation);
    if (placed !== "stale") return { kind: "accepted", jobId, traceId, state: placed };
    const replayed = await replay(engine, submission, job);
    recordAudit(engine, repeatedLine(checked, replayed.jobId));
    return replayed;
  }
  const quotas = admissionGuards(engine.settings.current, job);
  const committed = await engine.commit({
    org: job.org,
    puts: [...reservation, put(JOBS, jobId, null, job)],
    guards: quotas,
    sends: [submitMessage(engine.world.name, job)],
  });
  throwIfExceeded(engine, org, quotas, committed);
  if (committed.kind === "committed") return { kind: "accepted", jobId, traceId, state: job.state };
  return replay(engine, submission, job);
}

/** A job that an earlier version stored under the client's id keeps it, so that a replay finds the job. */
async function recordIdOf(engine: Needs<"world">, org: string, clientId: string): Promise<string> {
  const earlier = await engine.world.store.load(JOBS, clientId);
  return earlier?.value.org === org ? clientId : wireJobId(org, clientId);
}

function reserve(engine: Needs<"world" | "settings">, submission: Submission, jobId: string, traceId: string): Put[] {
  if (submission.idempotencyKey === null) return [];
  const id = reservationId(submission.org, submission.idempotencyKey);
  const dueMs = engine.world.clock.now() + engine.settings.current.retention.idempotencyMs;
  return [put(RESERVATIONS, id, null, { jobId, traceId, fingerprint: fingerprintOf(submission), dueMs })];
}

/** The key or id exists: a replay if the request is the same. */
async function replay(engine: Needs<"world">, submission: Submission, { id: jobId, input }: Job): Promise<Admitted> {
  const { store } = engine.world;
  const key = submission.idempotencyKey;
  const reserved = key === null ? null : await store.load(RESERVATIONS, reservationId(submission.org, key));
  if (reserved && reserved.value.fingerprint !== fingerprintOf(submission)) {
    return { kind: "conflict", jobId: reserved.value.jobId };
  }
  const found = await store.load(JOBS, reserved?.value.jobId ?? jobId);
  if (found && found.value.org === submission.org && (reserved || isSameWish(found.value, submission, input))) {
    return { kind: "replayed", jobId: found.id, traceId: found.value.traceId, state: found.value.state };
  }
  if (found) return { kind: found.value.org === submission.org ? "conflict" : "unusable", jobId };
  throw new Error(`job \`${jobId}\` was refused as a duplicate but is not in the store`);
}

/** Without a key the id identifies the replay, so the body must match as far as it is known. */
function isSameWish(job: Job, submission: Submission, input: Payload): boolean {
  if (bareTopic(job.topic) !== submission.topic) return false;
  if (job.input.kind === "inline") return isSameInput(job.input.value, submission);
  // A stamped input contains the time of its submission, so its digest says nothing.
  return submission.isStamped || (input.kind === "pointer" && input.sha256 === (job.input.sha256 ?? input.sha256));
}

function storeInput(
  engine: Needs<"world" | "settings">,
  submission: Submission,
  jobId: string,
): Promise<Payload> | Payload {
  const place = async (bytes: number): Promise<Place> => {
    await requireRoom(engine, submission.org, bytes);
    const { job, retention } = engine.settings.current;
    const untilMs = engine.world.clock.now() + job.deadlineMs + retention.jobsMs;
    return { owner: ownedByJob({ org: submission.org, id: jobId }), untilMs };
  };
  if (submission.inputPtr !== null) return copyInput(engine, submission.inputPtr, place);
  return storeSent(engine, "input", submission.input, place);
}

/** Copies an input that the client stored; its key is not read again. */
async function copyInput(
  engine: Needs<"world">,
  key: string,
  place: (bytes: number) => Promise<Place>,
): Promise<Payload> {
  const bytes = await readSent(engine, key);
  if (bytes === null)
    throw refused("NOT_FOUND", `there is no input at \`${key}\`; store it before the job is submitted`);
  if (bytes === "other_type") throw refused("INVALID_INPUT", `the value at \`${key}\` is not a string`);
  // An approver would be shown another number than the worker receives.
  const badNumber = bytes.length > BLOB_BYTES_MAX ? null : nonFiniteIn(payloadValue(bytes), "input");
  if (badNumber !== null) throw refused("INVALID_INPUT", outOfRange(badNumber));
  const kept = await storeBytes(engine, bytes, place);
  if (kept.kind === "too_large") throw refused("INVALID_INPUT", tooLargeText("input", kept));
  return kept;
}
