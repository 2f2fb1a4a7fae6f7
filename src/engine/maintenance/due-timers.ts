import { CONTENTION } from "../../core/contention/acquisition.ts";
import { expireApproval } from "../../core/jobs/approval.ts";
import { expireJob, resumeJob } from "../../core/jobs/attempt.ts";
import { RESERVATIONS } from "../../core/jobs/idempotency.ts";
import { NOTIFICATIONS } from "../../core/jobs/notification.ts";
import { SESSIONS } from "../../core/model/api-key.ts";
import { SPENT } from "../../core/model/budgets/hold.ts";
import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { FAIL_OPENS } from "../../core/model/fail-open.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { PARKED, RETRY_STATES } from "../../core/model/parked-message.ts";
import { RUN_RESERVATIONS, RUNS } from "../../core/model/run.ts";
import type { Table } from "../../core/model/table.ts";
import { WORKFLOW_HEADS } from "../../core/model/workflow.ts";
import { WINDOWS } from "../../core/policy/limits/window.ts";
import { retryDelay } from "../../core/retry/intent.ts";
import { SCHEDULES } from "../../core/schedule/schedule.ts";
import type { Labels } from "../../ports/metrics.ts";
import { type Due, put, type Versioned } from "../../ports/store.ts";
import { inputKey, outputKey } from "../../protocol/pointer.ts";
import { decisionContext } from "../context.ts";
import { unparkMessage } from "../delivery/index.ts";
import { notifyWorkers, placeJob, recordLoss, settleJob } from "../dispatch/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { carrySpent } from "../limits/index.ts";
import { onNotificationDue } from "../notifications.ts";
import { onRunDue, onStepJobDue, onWorkflowDue } from "../runs/index.ts";
import { checkSafety, onFailOpenDue } from "../safety/index.ts";
import { onScheduleDue } from "../schedules/index.ts";

/**
 * Dispatches a due record to the timer handler of its table. Every table with due times is listed in `TIMER_HANDLERS`.
 */
export async function onDue(engine: TimerContext, due: Due): Promise<void> {
  const timerHandler = TIMER_HANDLERS.get(due.table);
  if (!timerHandler) throw new Error(`no timer handler for table \`${due.table}\`: add it to TIMER_HANDLERS`);
  try {
    await timerHandler.fire(engine, due);
  } catch (error) {
    // A busy lock must not drop the due time (L18).
    const delayMs = retryDelay(error);
    if (delayMs === undefined) throw error;
    engine.timers.run(due, delayMs, async () => {
      const now = await timerHandler.load(engine, due.id);
      // The lock holder may have done the work.
      if (now?.dueMs === due.dueMs) await onDue(engine, now);
    });
  }
}

/** Whether the record has reached the end of its retention and is only removed, or kept longer with its run. */
export function isExpiry({ table, value }: Due): boolean {
  if (table !== JOBS.name) return EXPIRING.has(table);
  const { state, step } = value as Job;
  return isFinal(state) && !step?.isSubRunLeft;
}

type TimerContext = RunContext & Needs<"arrivals" | "admissionLimiter">;
const NO_LABELS: Labels = {};

interface TimerHandler {
  fire(engine: TimerContext, due: Due): Promise<void>;
  /** The current record; null if it is gone or has no due time. */
  load(engine: TimerContext, id: string): Promise<Due | null>;
}

function handler<T>(
  table: Table<T>,
  fire: (engine: TimerContext, found: Versioned<T>) => Promise<void>,
): [string, TimerHandler] {
  return [
    table.name,
    {
      // The store returns what was put under this table's name.
      fire: (engine, { id, version, value }) => fire(engine, { id, version, value: value as T }),
      async load(engine, id) {
        const found = await engine.world.store.load(table, id);
        const dueMs = found && table.placement(found.value).dueMs;
        return found && dueMs !== null ? { ...found, table: table.name, dueMs } : null;
      },
    },
  ];
}

const expiring = <T>(table: Table<T>) => handler(table, (engine, found) => forget(engine, table, found));

const EXPIRING: ReadonlySet<string> = new Set(
  [RETRY_STATES, RESERVATIONS, RUN_RESERVATIONS, DEAD_LETTERS, CONTENTION, SESSIONS, WINDOWS, SPENT].map(
    ({ name }) => name,
  ),
);

const TIMER_HANDLERS: ReadonlyMap<string, TimerHandler> = new Map([
  handler(JOBS, onJobDue),
  handler(PARKED, unparkMessage),
  expiring(RETRY_STATES),
  expiring(RESERVATIONS),
  handler(RUNS, onRunDue),
  expiring(RUN_RESERVATIONS),
  expiring(DEAD_LETTERS),
  expiring(CONTENTION),
  expiring(SESSIONS),
  handler(WINDOWS, forgetOf(WINDOWS)),
  handler(SPENT, forgetOf(SPENT)),
  handler(FAIL_OPENS, onFailOpenDue),
  handler(WORKFLOW_HEADS, onWorkflowDue),
  handler(NOTIFICATIONS, onNotificationDue),
  handler(SCHEDULES, onScheduleDue),
]);

/** A stale commit below means that the job changed; its due time changed with it. */
async function onJobDue(engine: RunContext & Needs<"arrivals">, found: Versioned<Job>): Promise<void> {
  const job = found.value;
  if (job.step && (await onStepJobDue(engine, found))) return;
  // Checked before the job's deadline: an expired approval is the more specific reason.
  if (job.state === "APPROVAL_REQUIRED" && job.approval && engine.world.clock.now() >= job.approval.expiresMs) {
    await settleJob(engine, found, expireApproval(job, decisionContext(engine, job)));
    return;
  }
  const passed = expireJob(job, decisionContext(engine, job));
  if (passed) {
    const isSettled = await settleJob(engine, found, passed);
    if (isSettled) recordLoss(engine, job);
    // A worker may still be running the attempt.
    if (isSettled && passed.state === "TIMEOUT")
      notifyWorkers(engine, job, "cordum", passed.error?.message ?? "timed out");
    return;
  }
  if (job.wait) {
    const { arm } = engine.settings.labelled(NO_LABELS, job.arms);
    engine.arrivals.record(job.wait.retryClass, engine.world.clock.now(), arm);
  }
  if (isFinal(job.state)) {
    await removeJob(engine, found);
  } else if (job.state === "PENDING") {
    await checkSafety(engine, found);
  } else if (job.state === "RETRYING") {
    // The deadline comes before the next attempt, and the clock of this process is slightly behind it.
    if (job.wait && job.wait.untilMs > job.deadlineMs) engine.timers.arm(found);
    else await placeJob(engine, found, resumeJob(job, decisionContext(engine, job)));
  }
}

/**
 * Removes a job after its retention, with its payloads: input, output, and those that clients and workers wrote for it.
 * The record goes first: a job that was redriven meanwhile keeps its payloads, and payloads left by a crash expire.
 */
export async function removeJob(engine: Needs<"world" | "commit" | "settings">, found: Versioned<Job>): Promise<void> {
  const { id, input, output, attempt, org } = found.value;
  const keys = new Set<string>();
  if (input.kind === "pointer") keys.add(input.ptr).add(inputKey(id));
  if (output?.kind === "pointer") keys.add(output.ptr);
  // Written by clients and workers of the wire protocol.
  if (attempt > 0) keys.add(inputKey(id)).add(outputKey(id));
  const carried = found.value.budgets === undefined ? [] : await carrySpent(engine, found.value);
  const committed = await engine.commit({ org, puts: [put(JOBS, found.id, found, null), ...carried] });
  if (committed.kind === "committed") await Promise.all([...keys].map((key) => engine.world.blobs.delete(key)));
}

/** Records that belong to a tenant and count nothing any more. */
function forgetOf<T extends { readonly org: string }>(table: Table<T>) {
  return async (engine: Needs<"commit">, found: Versioned<T>): Promise<void> => {
    await engine.commit({ org: found.value.org, puts: [put(table, found.id, found, null)] });
  };
}

async function forget<T>(engine: Needs<"commit">, table: Table<T>, found: Versioned<T>): Promise<void> {
  await engine.commit({ org: "", puts: [put(table, found.id, found, null)] });
}
