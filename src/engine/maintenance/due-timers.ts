import { expireApproval } from "../../core/jobs/approval.ts";
import { passTime, resume } from "../../core/jobs/attempt.ts";
import { RESERVATIONS } from "../../core/jobs/idempotency.ts";
import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { FAIL_OPENS } from "../../core/model/fail-open.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { PARKED, SPENDINGS } from "../../core/model/parked-message.ts";
import { RUN_RESERVATIONS, RUNS } from "../../core/model/run.ts";
import type { Table } from "../../core/model/table.ts";
import { WORKFLOW_HEADS } from "../../core/model/workflow.ts";
import { retryDelay } from "../../core/retry/intent.ts";
import { type Due, put, type Versioned } from "../../ports/store.ts";
import { inputKey, outputKey } from "../../protocol/pointer.ts";
import { apply } from "../commit.ts";
import { unpark } from "../delivery/park-message.ts";
import { tellWorkers } from "../dispatch/cancel-job.ts";
import { place } from "../dispatch/place-job.ts";
import { settle } from "../dispatch/settle-job.ts";
import { type Flow, given } from "../engine.ts";
import { wakeRun, wakeStepJob } from "../runs/run-timer.ts";
import { wakeWorkflowHead } from "../runs/workflows.ts";
import { checkSafety } from "../safety/check-job.ts";
import { wakeLease } from "../safety/fail-open.ts";

/** What happens to a record when its time has come. Every table that gives its records a time is listed here. */
export async function wake(flow: Flow, due: Due): Promise<void> {
  const waker = WAKERS.get(due.table);
  if (!waker) throw new Error(`nothing wakes records of \`${due.table}\`: add it to the table in wake.ts`);
  try {
    await waker.wake(flow, due);
  } catch (error) {
    // A lock was busy: the time that has come is not forgotten because of that (L18).
    const delayMs = retryDelay(error);
    if (delayMs === undefined) throw error;
    later(flow, due, delayMs, async () => {
      const now = await waker.load(flow, due.id);
      // Who had the lock may have done what the time had come for.
      if (now?.dueMs === due.dueMs) await wake(flow, now);
    });
  }
}

/** In this process; if that dies, the sweeper does it. */
function later(flow: Flow, due: Due, delayMs: number, work: () => Promise<void>): void {
  const { clock, log } = flow.world;
  flow.desk.later(clock, delayMs, () => {
    const woken = work().catch((error: unknown) => {
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
  const due: Due = { ...waiting, table: JOBS.name, dueMs: waiting.value.dueMs };
  later(flow, due, Math.max(0, delayMs), () => wake(flow, due));
}

interface Waker {
  wake(flow: Flow, due: Due): Promise<void>;
  /** As it is now; null when it is gone, or waits for no time. */
  load(flow: Flow, id: string): Promise<Due | null>;
}

function waker<T>(table: Table<T>, wake: (flow: Flow, found: Versioned<T>) => Promise<void>): [string, Waker] {
  return [
    table.name,
    {
      // The store gives back what was put under this table's name.
      wake: (flow, { id, version, value }) => wake(flow, { id, version, value: value as T }),
      async load(flow, id) {
        const found = await flow.world.store.load(table, id);
        const dueMs = found && table.placement(found.value).dueMs;
        return found && dueMs !== null ? { ...found, table: table.name, dueMs } : null;
      },
    },
  ];
}

const forgotten = <T>(table: Table<T>) => waker(table, (flow, found) => forget(flow, table, found));

const WAKERS: ReadonlyMap<string, Waker> = new Map([
  waker(JOBS, wakeJob),
  waker(PARKED, unpark),
  forgotten(SPENDINGS),
  forgotten(RESERVATIONS),
  waker(RUNS, wakeRun),
  forgotten(RUN_RESERVATIONS),
  forgotten(DEAD_LETTERS),
  waker(FAIL_OPENS, wakeLease),
  waker(WORKFLOW_HEADS, wakeWorkflowHead),
]);

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
