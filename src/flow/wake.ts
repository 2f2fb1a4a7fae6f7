import { expireApproval } from "../jobs/approval.ts";
import { passTime, resume } from "../jobs/attempt.ts";
import { RESERVATIONS } from "../jobs/idempotency.ts";
import { DEAD_LETTERS } from "../model/dead-letter.ts";
import { FAIL_OPENS } from "../model/fail-open.ts";
import { isFinal, JOBS, type Job } from "../model/job.ts";
import { PARKED, SPENDINGS } from "../model/parked.ts";
import { RUN_RESERVATIONS, RUNS } from "../model/run.ts";
import type { Table } from "../model/table.ts";
import { WORKFLOW_HEADS } from "../model/workflow.ts";
import { type Due, put, type Versioned } from "../ports/store.ts";
import { retryDelay } from "../retry/contract.ts";
import { inputKey, outputKey } from "../wire/pointer.ts";
import { apply } from "./apply.ts";
import { tellWorkers } from "./cancel.ts";
import { checkSafety } from "./check-safety.ts";
import { wakeLease } from "./fail-open.ts";
import { settle } from "./finish.ts";
import { type Flow, given } from "./flow.ts";
import { unpark } from "./park.ts";
import { place } from "./place.ts";
import { wakeRun, wakeStepJob } from "./wake-run.ts";
import { wakeWorkflowHead } from "./workflows.ts";

/** What happens to a record when its time has come. Every table that gives its records a time is listed here. */
export async function wake(flow: Flow, due: Due): Promise<void> {
  const waker = WAKERS[due.table];
  if (!waker) throw new Error(`nothing wakes records of \`${due.table}\`: add it to the table in wake.ts`);
  try {
    await waker(flow, due);
  } catch (error) {
    // A lock was busy: the time that has come is not forgotten because of that (L18).
    const delayMs = retryDelay(error);
    if (delayMs === undefined) throw error;
    again(flow, due, delayMs);
  }
}

/** Wakes it once more in this process; if that dies, the sweeper does. */
function again(flow: Flow, due: Due, delayMs: number): void {
  const { clock, log } = flow.world;
  flow.desk.later(clock, delayMs, () => {
    const woken = wake(flow, due).catch((error: unknown) => {
      log.write("warn", "wake_left_to_sweeper", { id: due.id, error: String(error) });
    });
    flow.desk.track(woken);
  });
}

/**
 * A job whose time comes before the next sweep would be late, and all such jobs late together: this process wakes it by
 * itself. If it dies, the sweeper does.
 */
export function remind(flow: Flow, waiting: Versioned<Job>): void {
  const delayMs = waiting.value.dueMs - flow.world.clock.now();
  if (delayMs > flow.settings.current.sweep.everyMs) return;
  again(flow, { ...waiting, table: JOBS.name, dueMs: waiting.value.dueMs }, Math.max(0, delayMs));
}

const WAKERS: Readonly<Record<string, (flow: Flow, due: Due) => Promise<void>>> = {
  [JOBS.name]: (flow, due) => wakeJob(flow, as(due)),
  [PARKED.name]: (flow, due) => unpark(flow, as(due)),
  [SPENDINGS.name]: (flow, due) => forget(flow, SPENDINGS, as(due)),
  [RESERVATIONS.name]: (flow, due) => forget(flow, RESERVATIONS, as(due)),
  [RUNS.name]: (flow, due) => wakeRun(flow, as(due)),
  [RUN_RESERVATIONS.name]: (flow, due) => forget(flow, RUN_RESERVATIONS, as(due)),
  [DEAD_LETTERS.name]: (flow, due) => forget(flow, DEAD_LETTERS, as(due)),
  [FAIL_OPENS.name]: (flow, due) => wakeLease(flow, as(due)),
  [WORKFLOW_HEADS.name]: (flow, due) => wakeWorkflowHead(flow, as(due)),
};

/** A stale version below means that somebody else moved the job on; then its time is another one. */
async function wakeJob(flow: Flow, found: Versioned<Job>): Promise<void> {
  const job = found.value;
  if (job.step && (await wakeStepJob(flow, found))) return;
  // Before the job's own deadline is looked at: an approval that nobody gave is the better reason.
  if (job.state === "APPROVAL_REQUIRED" && job.approval && flow.world.clock.now() >= job.approval.expiresMs) {
    await settle(flow, found, expireApproval(job, given(flow)));
    return;
  }
  const passed = passTime(job, given(flow));
  if (passed) {
    const isSettled = await settle(flow, found, passed);
    // Somebody may still be at it, for nothing.
    if (isSettled && passed.state === "TIMEOUT") tellWorkers(flow, job, "cordum", passed.error?.message ?? "timed out");
    return;
  }
  if (job.wait) flow.arrivals.note(job.wait.retryClass, flow.world.clock.now());
  if (isFinal(job.state)) {
    await removeJob(flow, found);
  } else if (job.state === "PENDING") {
    await checkSafety(flow, found);
  } else if (job.state === "RETRYING") {
    await place(flow, found, resume(job, given(flow)));
  }
}

/**
 * After its retention a job leaves with its payloads: those it points at, the input as its client wrote it (an approval
 * points at a copy), and what workers wrote whose results did not count. The record goes first: one that somebody has
 * given another life meanwhile keeps its payloads, and what a crash leaves behind ends by itself.
 */
export async function removeJob(flow: Flow, found: Versioned<Job>): Promise<void> {
  const { id, input, output, attempt, org } = found.value;
  const keys = new Set<string>();
  if (input.kind === "pointer") keys.add(input.ptr).add(inputKey(id));
  if (output?.kind === "pointer") keys.add(output.ptr);
  // For workers of others an input is put where they look for it, and they put their results where they are looked for.
  if (attempt > 0) keys.add(inputKey(id)).add(outputKey(id));
  const committed = await apply(flow, { org, puts: [put(JOBS, found.id, found, null)] });
  if (committed.kind === "committed") await Promise.all([...keys].map((key) => flow.world.blobs.delete(key)));
}

async function forget<T>(flow: Flow, table: Table<T>, found: Versioned<T>): Promise<void> {
  await apply(flow, { org: "", puts: [put(table, found.id, found, null)] });
}

/** The store gives back what was put under this table's name. */
const as = <T>(due: Due): Versioned<T> => ({ id: due.id, version: due.version, value: due.value as T });
