import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { isFinal, JOBS } from "../../core/model/job.ts";
import { PARKED, RETRY_STATES } from "../../core/model/parked-message.ts";
import type { RetryState } from "../../core/retry/budget.ts";
import type { RetryClass } from "../../core/retry/retry-classes.ts";
import { originalId } from "../../engine/delivery/index.ts";
import type { Delivery } from "../../ports/bus.ts";
import { latestNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import { clockToleranceMs } from "../faults.ts";
import type { Plan } from "../workload/plan.ts";
import { TALLIES, type Tally } from "../workload/tally.ts";
import type { Violations } from "./violations.ts";

/** Checks publishes, settlements, parked messages, retry budgets and the tallies. Returns the ids that were on the bus. */
export function checkMessageFlow(net: SimNet, plan: Plan, violations: Violations): ReadonlySet<string> {
  const { store, bus } = net;
  /** Ids in the outbox of a commit. */
  const saved = new Set<string>();
  const stored = new Set<string>();
  /** Original ids of messages that were or will be republished under a new id. */
  const republished = new Set<string>();
  store.observe(({ sends }) => {
    for (const { id } of sends) {
      saved.add(id);
      if (originalId(id) !== id) republished.add(originalId(id));
    }
  });
  store.observeTable(TALLIES, ({ id, before, after }) => {
    if (after) checkTally(violations, id, before ?? undefined, after);
  });
  store.observeTable(RETRY_STATES, ({ id, before, after }) => {
    if (after) checkBudgets(violations, id, before?.patience, after.patience);
  });
  store.observeTable(JOBS, ({ id, before, after }) => {
    if (after) checkBudgets(violations, id, before?.patience, after.patience);
  });
  store.observeTable(PARKED, ({ change, id, before, after }) => {
    if (before === null || after !== null) return;
    const earlyMs = before.dueMs - latestNow(net) - clockToleranceMs(plan.faults.process);
    if (earlyMs > 1) violations.add("early", id, `redelivered ${Math.round(earlyMs)} ms before it was due`);
    if (change.sends.length === 0) violations.add("swallowed", id, "removed from the parked messages without a send");
  });
  bus.observe({
    stored: (_subject, id) => {
      // A republished message was on the bus before; all other messages of the control plane come from an outbox.
      const isKnown = saved.has(id) || (originalId(id) !== id && stored.has(originalId(id)));
      if (FROM_OUTBOX.test(id) && !isKnown) violations.add("unsaved", id, "on the bus without a commit");
      stored.add(id);
      if (originalId(id) !== id) republished.add(originalId(id));
    },
    settled: (_process, delivery, { kind }) => {
      const { subject, id, attempt } = delivery;
      const isElsewhere = republished.has(originalId(id)) || store.load(PARKED, `${subject}/${id}`) !== null;
      if (kind === "ack" && !isElsewhere) checkAckedResult(net, violations, delivery);
      if (kind === "term" && store.load(DEAD_LETTERS, deadLetterId(subject, id)) === null) {
        violations.add("early_term", id, `terminated on delivery ${attempt} without a dead letter`);
      }
    },
  });
  return stored;
}

/** Ids of announcements, dead-letter notices and parked messages, which are sent through the outbox. */
const FROM_OUTBOX = /^submit:|^dlq:|~~back/;

/** The id that the engine gives to the dead letter of a message. */
export function deadLetterId(subject: string, messageId: string): string {
  return `${subject}/${originalId(messageId)}`;
}

/** An acknowledged success must have ended its job. */
function checkAckedResult(net: SimNet, violations: Violations, { id, content }: Delivery): void {
  if (content.kind !== "packet" || content.packet.body.kind !== "job_result") return;
  const { jobId, status, attempt = 1 } = content.packet.body;
  const job = net.store.load(JOBS, jobId)?.value;
  // A result of an attempt before a redrive does not apply to the job.
  if (job?.history.some((line) => line.event === "revived" && attempt <= line.attempt)) return;
  if (status === "succeeded" && job && !isFinal(job.state)) {
    violations.add("swallowed", id, `a success was acknowledged, but its job ${jobId} is ${job.state}`);
  }
}

const EMPTY_TALLY: Tally = { count: 0, applied: [], fence: 0 };

function checkTally(violations: Violations, id: string, before: Tally = EMPTY_TALLY, after: Tally): void {
  const key = `${TALLIES.name}/${id}`;
  if (after.fence <= before.fence) violations.add("fence", key, `fence ${after.fence} after ${before.fence}`);
  if (after.count !== before.count + 1 || after.applied.length !== before.applied.length + 1) {
    violations.add("lost_update", key, `${before.count} became ${after.count}: written from a stale read`);
  }
}

/** A write increments the count of one retry class by one, or resets counts. */
function checkBudgets(violations: Violations, id: string, before: RetryState = {}, after: RetryState): void {
  if (after === before) return;
  let changed = 0;
  for (const [retryClass, { count }] of Object.entries(after)) {
    const was = before[retryClass as RetryClass]?.count ?? 0;
    if (count === was) continue;
    changed += 1;
    if (count === was + 1 && changed === 1) continue;
    violations.add("budget", id, `${retryClass} went from ${was} to ${count} together with other classes`);
  }
}
