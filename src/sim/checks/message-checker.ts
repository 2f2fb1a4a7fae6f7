import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { PARKED, type Parked, RETRY_STATES, type StoredRetryState } from "../../core/model/parked-message.ts";
import type { RetryState } from "../../core/retry/budget.ts";
import type { RetryClass } from "../../core/retry/classes.ts";
import { originalId } from "../../engine/delivery/index.ts";
import type { Delivery } from "../../ports/bus.ts";
import type { Change, Put, Versioned } from "../../ports/store.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import type { Plan } from "../workload/plan.ts";
import { TALLIES, type Tally } from "../workload/tally.ts";
import { JobChecker } from "./job-checker.ts";
import type { Violations } from "./violations.ts";

/** Looks at every write and at every answer to the broker while the system runs; see `CHECKERS` for what it looks for. */
export function checkMessageFlow(
  net: SimNet,
  plan: Plan,
  violations: Violations,
  failures: ReadonlySet<string>,
): BusHistory {
  new JobChecker(net, plan, violations, failures);
  const saved = new Set<string>();
  const stored = new Set<string>();
  /** Messages that have come back, or will, as new ones. */
  const comebacks = new Set<string>();
  net.store.observe((change, before) => {
    for (const { id } of change.sends) {
      saved.add(id);
      if (id.includes("~")) comebacks.add(originalId(id));
    }
    for (const [index, put] of change.puts.entries()) see(net, plan, violations, change, put, before[index] ?? null);
  });
  net.bus.observe({
    stored: (_subject, id) => {
      // A message that goes back to the broker as a new one was there before; all others of ours come from an outbox.
      const isKnown = saved.has(id) || (id.includes("~") && stored.has(originalId(id)));
      if (OURS.test(id) && !isKnown) violations.add("unsaved", id, "on the bus, but in no commit before");
      stored.add(id);
      if (id.includes("~")) comebacks.add(originalId(id));
    },
    settled: (_process, delivery, settlement) => {
      const id = deadLetterId(delivery.subject, delivery.id);
      const isElsewhere = comebacks.has(originalId(delivery.id)) || isParked(net, delivery);
      if (settlement.kind === "ack" && !isElsewhere) seeResult(net, violations, delivery);
      if (settlement.kind === "term" && net.store.load(DEAD_LETTERS, id) === null) {
        violations.add("early_term", delivery.id, `ended on delivery ${delivery.attempt}, not in the dead letters yet`);
      }
    },
  });
  return { stored };
}

/** What has been on the bus. */
export interface BusHistory {
  readonly stored: ReadonlySet<string>;
}

function isParked(net: SimNet, { subject, id }: Delivery): boolean {
  return net.store.load(PARKED, `${subject}/${id}`) !== null;
}

/** A success ends its job, whatever else has become of it: whoever has acknowledged one has seen to that. */
function seeResult(net: SimNet, violations: Violations, { id, content }: Delivery): void {
  if (content.kind !== "packet" || content.packet.body.kind !== "job_result") return;
  const { jobId, status, attempt = 1 } = content.packet.body;
  const job = net.store.load(JOBS, jobId)?.value;
  // One that came when the job was over, and that was given another life before the acknowledgement was heard.
  if (job?.history.some((line) => line.event === "revived" && attempt <= line.attempt)) return;
  if (status === "succeeded" && job && !isFinal(job.state)) {
    violations.add("swallowed", id, `a success was acknowledged, and its job ${jobId} is still ${job.state}`);
  }
}

/** What the control plane sends by way of its outbox: announcements, notices of dead letters, parked messages. */
const OURS = /^submit:|^dlq:|~/;

/** How the flow names the dead letter of a message. */
export function deadLetterId(subject: string, messageId: string): string {
  return `${subject}/${originalId(messageId)}`;
}

function see(
  net: SimNet,
  plan: Plan,
  violations: Violations,
  change: Change,
  put: Put,
  found: Versioned<unknown> | null,
): void {
  switch (put.table) {
    case TALLIES.name:
      seeTally(violations, put, found?.value as Tally | undefined);
      return;
    case RETRY_STATES.name:
      seePatience(
        violations,
        put.id,
        (found?.value as StoredRetryState | undefined)?.patience,
        put.value as StoredRetryState | null,
      );
      return;
    case JOBS.name:
      seePatience(violations, put.id, (found?.value as Job | undefined)?.patience, put.value as Job | null);
      return;
    case PARKED.name:
      if (put.value === null) seeReturn(net, plan, violations, change, put.id, found?.value as Parked | undefined);
      return;
    default:
      return;
  }
}

function seeTally(violations: Violations, put: Put, before: Tally = { count: 0, applied: [], fence: 0 }): void {
  const after = put.value as Tally;
  if (after.fence <= before.fence) {
    violations.add("fence", `${put.table}/${put.id}`, `a fence of ${after.fence} after one of ${before.fence}`);
  }
  if (after.count !== before.count + 1 || after.applied.length !== before.applied.length + 1) {
    violations.add(
      "lost_update",
      `${put.table}/${put.id}`,
      `${before.count} became ${after.count}: written on an old reading`,
    );
  }
}

/** One account at a time: an entry grows by one, or the accounts are emptied. */
function seePatience(
  violations: Violations,
  id: string,
  before: RetryState = {},
  after: { readonly patience: RetryState } | null,
): void {
  if (after === null || after.patience === before) return;
  let spent = 0;
  for (const [retryClass, now] of Object.entries(after.patience)) {
    const was = before[retryClass as RetryClass]?.count ?? 0;
    if (now.count === was) continue;
    spent += 1;
    if (now.count === was + 1 && spent === 1) continue;
    violations.add("budget", id, `${retryClass} went from ${was} to ${now.count} together with others`);
  }
}

function seeReturn(
  net: SimNet,
  plan: Plan,
  violations: Violations,
  change: Change,
  id: string,
  parked: Parked | undefined,
): void {
  if (parked === undefined) return;
  const earlyMs = parked.dueMs - serverNow(net) - plan.faults.process.skewMsMax;
  if (earlyMs > 1) violations.add("early", id, `came back ${Math.round(earlyMs)} ms before its time`);
  if (change.sends.length === 0) violations.add("swallowed", id, "left the parked messages without being sent");
}
