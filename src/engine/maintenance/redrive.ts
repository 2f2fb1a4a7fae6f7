import { decideSafety, redriveJob } from "../../core/jobs/lifecycle.ts";
import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import { RETRY_STATES } from "../../core/model/parked-message.ts";
import type { Decision } from "../../core/policy/decision.ts";
import type { Message } from "../../ports/bus.ts";
import { type Put, put, type Versioned } from "../../ports/store.ts";
import { fromBase64 } from "../../protocol/base64.ts";
import { decodePacket, restorePacket } from "../../protocol/codec.ts";
import type { Packet } from "../../protocol/packet.ts";
import { auditPut, decisionPut } from "../audit/index.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import { originalId, redeliveryId, retryKeyOf } from "../delivery/index.ts";
import { placeJob } from "../dispatch/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { decideLimited } from "../limits/index.ts";
import { submitMessage } from "../packets.ts";
import { keepPayload } from "../payloads.ts";
import { type RunLimitReached, rejoinRun, stopSubRun } from "../runs/index.ts";
import { policyRequestOf } from "../safety/index.ts";

/**
 * Redrives or discards dead letters.
 *
 * 1. The dead letter is removed in the commit that reopens its job or puts its message into the outbox. Of two
 *    concurrent redrives one succeeds.
 * 2. The job keeps its id, so whatever waits for it receives its result (L42). It is checked again.
 * 3. Its retry state is cleared, and that of the messages about it; otherwise the next failure would exhaust the
 *    budget.
 */
export interface DeadLetterRequest {
  readonly org: string;
  readonly id: string;
  readonly by: string;
}

export type RetryOutcome =
  | { readonly kind: "revived"; readonly jobId: string; readonly state: JobState }
  | { readonly kind: "sent_again"; readonly messageId: string; readonly subject: string }
  /** The bytes are not a packet and cannot be redriven. */
  | { readonly kind: "unreadable"; readonly error: string }
  /** Removed after its retention, or its input is gone. */
  | { readonly kind: "job_gone" | "input_gone"; readonly jobId: string }
  | { readonly kind: "not_revivable"; readonly jobId: string; readonly state: JobState }
  /** Its run has ended or cannot take it back. */
  | { readonly kind: "run_went_on"; readonly jobId: string; readonly why: string }
  | RunLimitReached
  | { readonly kind: "not_found" };

export function redriveDeadLetter(engine: RunContext, request: DeadLetterRequest): Promise<RetryOutcome> {
  return retryOnConflict(`dead letter \`${request.id}\``, async () => {
    const deadLetter = await loadLetter(engine, request);
    if (!deadLetter) return { kind: "not_found" };
    const { source } = deadLetter.value;
    switch (source.kind) {
      case "job":
        return retryJob(engine, deadLetter, source.jobId, request.by);
      case "message":
        return sendAgain(engine, deadLetter, source, request.by);
      default:
        return source satisfies never;
    }
  });
}

export type DropOutcome = { readonly kind: "dropped" | "not_found" };

export function discardDeadLetter(
  engine: Needs<"world" | "commit" | "audit">,
  request: DeadLetterRequest,
): Promise<DropOutcome> {
  return retryOnConflict(`dead letter \`${request.id}\``, async () => {
    const deadLetter = await loadLetter(engine, request);
    if (!deadLetter) return { kind: "not_found" };
    const puts = removal(engine, deadLetter, request.by, "dropped");
    const committed = await engine.commit({ org: request.org, puts });
    return committed.kind === "committed" ? { kind: "dropped" } : "stale";
  });
}

async function loadLetter(
  engine: Needs<"world">,
  { org, id }: DeadLetterRequest,
): Promise<Versioned<DeadLetter> | null> {
  const found = await engine.world.store.load(DEAD_LETTERS, id);
  return found?.value.org === org ? found : null;
}

async function retryJob(
  engine: RunContext,
  deadLetter: Versioned<DeadLetter>,
  jobId: string,
  by: string,
): Promise<RetryOutcome | "stale"> {
  const { safety, store, name } = engine.world;
  const found = await store.load(JOBS, jobId);
  if (!found || found.value.org !== deadLetter.value.org) return { kind: "job_gone", jobId };
  // The sub-run that the job left must be stopped first; a redriven job would forget it.
  if (found.value.step?.isSubRunLeft) {
    await stopSubRun(engine, found);
    return "stale";
  }
  const redriven = redriveJob(found.value, by, decisionContext(engine, found.value));
  if (!redriven) return { kind: "not_revivable", jobId, state: found.value.state };
  if (!(await keepInput(engine, redriven))) return { kind: "input_gone", jobId };
  const puts = [
    ...removal(engine, deadLetter, by, "retried"),
    ...(await closing(engine, retryKeyOf(submitMessage(name, redriven).packet))),
  ];
  if (redriven.step) return rejoinRun(engine, { found, redriven, by, puts });
  if (safety.local) {
    const decision = safety.local(policyRequestOf(redriven, engine.world.clock.now()));
    const state = await placeRedriven(engine, found, redriven, decision, puts);
    return state === "stale" ? "stale" : { kind: "revived", jobId, state };
  }
  const announced = submitMessage(name, redriven);
  const committed = await engine.commit({
    org: redriven.org,
    puts: [...puts, put(JOBS, jobId, found, redriven)],
    // A new message id: the broker would drop the id of the first announcement as a duplicate.
    sends: [{ ...announced, id: `${announced.id}@${found.version + 1}` }],
  });
  return committed.kind === "committed" ? { kind: "revived", jobId, state: redriven.state } : "stale";
}

function placeRedriven(
  engine: RunContext,
  found: Versioned<Job>,
  redriven: Job,
  decision: Decision,
  puts: readonly Put[],
): Promise<JobState | "stale"> {
  if (decision.limits !== undefined) {
    return decideLimited(engine, redriven, decision, (decided, more, guards) =>
      placeJob(engine, found, decided, [...puts, ...more], guards),
    );
  }
  const decided = decideSafety(redriven, decision, decisionContext(engine, redriven));
  return placeJob(engine, found, decided, [...puts, decisionPut(engine, decided)]);
}

/** Extends the retention of the input. */
async function keepInput(engine: Needs<"world" | "settings">, { input, deadlineMs }: Job): Promise<boolean> {
  if (input.kind === "inline") return true;
  return keepPayload(engine, input, deadlineMs + engine.settings.current.retention.jobsMs);
}

async function sendAgain(
  engine: Needs<"world" | "commit" | "audit">,
  deadLetter: Versioned<DeadLetter>,
  source: Extract<DeadLetter["source"], { kind: "message" }>,
  by: string,
): Promise<RetryOutcome | "stale"> {
  const read = readPacket(source);
  if (read.kind === "unreadable") return read;
  const { subject, messageId } = source;
  const message: Message = {
    id: redeliveryId(messageId, engine.world.clock.now()),
    subject,
    packet: read.packet,
  };
  const committed = await engine.commit({
    org: deadLetter.value.org,
    puts: [
      ...removal(engine, deadLetter, by, "retried"),
      ...(await closing(engine, retryKeyOf(read.packet) || originalId(messageId))),
    ],
    sends: [message],
  });
  return committed.kind === "committed" ? { kind: "sent_again", messageId: message.id, subject } : "stale";
}

function readPacket({
  base64,
  isVerbatim,
}: Extract<DeadLetter["source"], { kind: "message" }>):
  | { readonly kind: "packet"; readonly packet: Packet }
  | Extract<RetryOutcome, { kind: "unreadable" }> {
  try {
    return { kind: "packet", packet: isVerbatim ? restorePacket(base64) : decodePacket(fromBase64(base64)) };
  } catch (error) {
    return { kind: "unreadable", error: (error as Error).message };
  }
}

function removal(engine: Needs<"audit">, deadLetter: Versioned<DeadLetter>, who: string, what: string): readonly Put[] {
  const { org, reason, source, error } = deadLetter.value;
  const job = source.kind === "job" ? source.jobId : null;
  const facts = { deadLetter: deadLetter.id, job, reason, error: error.message };
  return [
    put(DEAD_LETTERS, deadLetter.id, deadLetter, null),
    auditPut(engine, { org, kind: "dead_letter", who, what, facts }),
  ];
}

/** Removes the retry state of the message. */
async function closing(engine: Needs<"world">, accountId: string): Promise<readonly Put[]> {
  const account = await engine.world.store.load(RETRY_STATES, accountId);
  return account ? [put(RETRY_STATES, accountId, account, null)] : [];
}
