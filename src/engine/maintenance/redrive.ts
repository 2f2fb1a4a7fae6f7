import { reviveJob } from "../../core/jobs/lifecycle.ts";
import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import { SPENDINGS } from "../../core/model/parked-message.ts";
import type { Message } from "../../ports/bus.ts";
import { type Put, put, type Versioned } from "../../ports/store.ts";
import { fromBase64 } from "../../protocol/base64.ts";
import { decodePacket, keptPacket } from "../../protocol/codec.ts";
import type { Packet } from "../../protocol/packet.ts";
import { audited, decisionLine } from "../audit/audit-log.ts";
import { apply, untilFresh } from "../commit.ts";
import { accountIn } from "../delivery/deliver-message.ts";
import { comebackId, originalId } from "../delivery/park-message.ts";
import { place } from "../dispatch/place-job.ts";
import { type Flow, given } from "../engine.ts";
import { submitMessage } from "../packets.ts";
import type { Full } from "../runs/create-run.ts";
import { rejoinRun } from "../runs/rejoin-run.ts";
import { stopSubRun } from "../runs/sub-run.ts";
import { decide } from "../safety/apply-decision.ts";
import { policyRequestOf } from "../safety/check-job.ts";

/**
 * Dead letters that somebody tries again, or drops.
 *
 * 1. The letter goes in the commit that gives its job another life or puts its message into the outbox: neither both nor
 *    none of them, and of two that try at once one succeeds.
 * 2. The same job lives on, under its id: whatever waits for it is served by its result (L42). It is checked again.
 * 3. Its patience begins anew, and so does that of the messages about it: else the first failure would be the last.
 */
export interface LetterWish {
  readonly org: string;
  readonly id: string;
  readonly by: string;
}

export type RetryOutcome =
  | { readonly kind: "revived"; readonly jobId: string; readonly state: JobState }
  | { readonly kind: "sent_again"; readonly messageId: string; readonly subject: string }
  /** The bytes are no packet: whoever sent them has to send something else. */
  | { readonly kind: "unreadable"; readonly error: string }
  /** Removed after its retention, or without its input: there is nothing left to be tried. */
  | { readonly kind: "job_gone" | "input_gone"; readonly jobId: string }
  | { readonly kind: "not_revivable"; readonly jobId: string; readonly state: JobState }
  /** Its run has gone on without it, or cannot take it back: why, in words. */
  | { readonly kind: "run_went_on"; readonly jobId: string; readonly why: string }
  | Full
  | { readonly kind: "not_found" };

export function retryLetter(flow: Flow, wish: LetterWish): Promise<RetryOutcome> {
  return untilFresh(`dead letter \`${wish.id}\``, async () => {
    const letter = await loadLetter(flow, wish);
    if (!letter) return { kind: "not_found" };
    const { source } = letter.value;
    switch (source.kind) {
      case "job":
        return retryJob(flow, letter, source.jobId, wish.by);
      case "message":
        return sendAgain(flow, letter, source, wish.by);
      default:
        return source satisfies never;
    }
  });
}

export type DropOutcome = { readonly kind: "dropped" | "not_found" };

export function dropLetter(flow: Flow, wish: LetterWish): Promise<DropOutcome> {
  return untilFresh(`dead letter \`${wish.id}\``, async () => {
    const letter = await loadLetter(flow, wish);
    if (!letter) return { kind: "not_found" };
    const puts = removal(flow, letter, wish.by, "dropped");
    const committed = await apply(flow, { org: wish.org, puts });
    return committed.kind === "committed" ? { kind: "dropped" } : "stale";
  });
}

async function loadLetter(flow: Flow, { org, id }: LetterWish): Promise<Versioned<DeadLetter> | null> {
  const found = await flow.world.store.load(DEAD_LETTERS, id);
  return found?.value.org === org ? found : null;
}

async function retryJob(
  flow: Flow,
  letter: Versioned<DeadLetter>,
  jobId: string,
  by: string,
): Promise<RetryOutcome | "stale"> {
  const { safety, store, name } = flow.world;
  const found = await store.load(JOBS, jobId);
  if (!found || found.value.org !== letter.value.org) return { kind: "job_gone", jobId };
  // It would forget the run that it has left, and nobody would stop that one any more.
  if (found.value.step?.isSubRunLeft) {
    await stopSubRun(flow, found);
    return "stale";
  }
  const revived = reviveJob(found.value, by, given(flow));
  if (!revived) return { kind: "not_revivable", jobId, state: found.value.state };
  if (!(await keepInput(flow, revived))) return { kind: "input_gone", jobId };
  const puts = [
    ...removal(flow, letter, by, "retried"),
    ...(await closing(flow, accountIn(submitMessage(name, revived).packet))),
  ];
  if (revived.step) return rejoinRun(flow, { found, revived, by, puts });
  if (safety.local) {
    const checked = await decide(flow, revived, safety.local(policyRequestOf(revived)));
    const state = await place(flow, found, checked, [...puts, audited(flow, decisionLine(checked))]);
    return state === "stale" ? "stale" : { kind: "revived", jobId, state };
  }
  const announced = submitMessage(name, revived);
  const committed = await apply(flow, {
    org: revived.org,
    puts: [...puts, put(JOBS, jobId, found, revived)],
    // To the broker it is another message than the one that announced the job the first time.
    sends: [{ ...announced, id: `${announced.id}@${found.version + 1}` }],
  });
  return committed.kind === "committed" ? { kind: "revived", jobId, state: revived.state } : "stale";
}

/** What is kept elsewhere was to be kept for the first life only. */
async function keepInput(flow: Flow, { input, deadlineMs }: Job): Promise<boolean> {
  if (input.kind === "inline") return true;
  const bytes = await flow.world.blobs.get(input.ptr);
  if (bytes === null) return false;
  await flow.world.blobs.put(input.ptr, bytes, deadlineMs + flow.settings.current.retention.jobsMs);
  return true;
}

async function sendAgain(
  flow: Flow,
  letter: Versioned<DeadLetter>,
  source: Extract<DeadLetter["source"], { kind: "message" }>,
  by: string,
): Promise<RetryOutcome | "stale"> {
  const read = readPacket(source);
  if (read.kind === "unreadable") return read;
  const { subject, messageId } = source;
  const message: Message = {
    id: comebackId(messageId, flow.world.clock.now()),
    subject,
    packet: read.packet,
  };
  const committed = await apply(flow, {
    org: letter.value.org,
    puts: [
      ...removal(flow, letter, by, "retried"),
      ...(await closing(flow, accountIn(read.packet) || originalId(messageId))),
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
    return { kind: "packet", packet: isVerbatim ? keptPacket(base64) : decodePacket(fromBase64(base64)) };
  } catch (error) {
    return { kind: "unreadable", error: (error as Error).message };
  }
}

function removal(flow: Flow, letter: Versioned<DeadLetter>, who: string, what: string): readonly Put[] {
  const { org, reason, source, error } = letter.value;
  const job = source.kind === "job" ? source.jobId : null;
  const facts = { letter: letter.id, job, reason, error: error.message };
  return [put(DEAD_LETTERS, letter.id, letter, null), audited(flow, { org, kind: "dead_letter", who, what, facts })];
}

/** The account of what the message is about, if it has one, is closed. */
async function closing(flow: Flow, accountId: string): Promise<readonly Put[]> {
  const account = await flow.world.store.load(SPENDINGS, accountId);
  return account ? [put(SPENDINGS, accountId, account, null)] : [];
}
