import { RESERVATIONS } from "../../core/jobs/idempotency.ts";
import { AUDIT_HEADS, AUDIT_PAGES, AUDIT_PENDING, verifyAudit } from "../../core/model/audit.ts";
import { SPENT } from "../../core/model/budgets/hold.ts";
import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { FAIL_OPENS } from "../../core/model/fail-open.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { PARKED, RETRY_STATES } from "../../core/model/parked-message.ts";
import { RUN_RESERVATIONS, RUNS, TIMELINE } from "../../core/model/run.ts";
import type { Table } from "../../core/model/table.ts";
import { WORKFLOW_HEADS, WORKFLOW_VERSIONS } from "../../core/model/workflow.ts";
import { WINDOWS } from "../../core/policy/limits/window.ts";
import { PROMOTED, ROLLOUTS } from "../../core/rollout/rollout.ts";
import { SCHEDULES } from "../../core/schedule/schedule.ts";
import { originalId } from "../../engine/delivery/index.ts";
import { deadLetterIdOf } from "../../engine/packets.ts";
import { toBase64 } from "../../protocol/base64.ts";
import { SUBMIT } from "../../protocol/subjects.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import type { System } from "../system.ts";
import { type Clients, garbageBytes } from "../workload/clients.ts";
import { METERED_TOPIC } from "../workload/limits.ts";
import type { Order, Plan } from "../workload/plan.ts";
import type { RunClients } from "../workload/run-clients.ts";
import { TALLIES, TALLY_SUBJECT } from "../workload/tally.ts";
import { APPROVAL_TOPIC, DENIED_TOPIC } from "../workload/workers.ts";
import { isKilled } from "./kill-checker.ts";
import { deadLetterId } from "./message-checker.ts";
import { areRunsIdle, checkRuns } from "./run-end-checks.ts";
import type { Violations } from "./violations.ts";

/** The state of a simulation after its faults have stopped. */
export interface Ended {
  readonly net: SimNet;
  readonly plan: Plan;
  readonly system: System;
  readonly clients: Clients;
  readonly runClients: RunClients;
  readonly violations: Violations;
  /** The ids of all messages that were on the bus. */
  readonly published: ReadonlySet<string>;
}

/** Whether no work is left. */
export function isIdle(ended: Ended): boolean {
  const { net, clients } = ended;
  if (!clients.isDone || !net.bus.open().next().done || !net.store.rows(PARKED).next().done) return false;
  if (!net.store.rows(SCHEDULES).next().done) return false;
  if (net.store.unsent(Number.POSITIVE_INFINITY, 1).length > 0 || net.locks.list(1).length > 0) return false;
  for (const { value } of net.store.rows(JOBS)) if (!isFinal(value.state)) return false;
  return areRunsIdle(ended) && net.store.rows(AUDIT_PENDING).next().done === true;
}

export function checkEnd(ended: Ended): void {
  checkClients(ended);
  for (const { value } of ended.net.store.rows(JOBS)) checkJob(ended, value);
  checkRuns(ended);
  checkMessages(ended);
  checkDeadLetters(ended);
  checkLeftovers(ended);
  checkDerived(ended);
  checkAuditChains(ended);
}

function checkClients({ net, plan, clients, violations }: Ended): void {
  for (const number of clients.pending) violations.add("acknowledged", `order ${number}`, "its client got no reply");
  for (const [number, jobId] of clients.acknowledged) {
    const order = plan.orders[number];
    const found = net.store.load(JOBS, jobId)?.value;
    if (found === undefined)
      violations.add("acknowledged", jobId, `order ${number} was acknowledged, but the job does not exist`);
    else if (order && (found.org !== order.submission.org || found.topic !== order.submission.topic)) {
      violations.add("idempotency", jobId, `order ${number} got a job of ${found.org} on ${found.topic}`);
    }
  }
}

function checkJob({ plan, system, violations, published }: Ended, job: Job): void {
  if (!isFinal(job.state)) {
    violations.add("stuck", job.id, `still ${job.state}, attempt ${job.attempt}, due ${job.dueMs}, topic ${job.topic}`);
    return;
  }
  if ((job.state === "FAILED" || job.state === "TIMEOUT") && !published.has(deadLetterIdOf(job))) {
    violations.add("letter", job.id, `${job.state} without a notice on the bus`);
  }
  const order = plan.orders[Number(job.labels.order)];
  if (order === undefined) return;
  const problem = outcomeProblem(job, order, plan, system.succeeded.has(order.number));
  if (problem !== null) violations.add("outcome", job.id, problem);
}

function outcomeProblem(job: Job, order: Order, plan: Plan, hasSucceeded: boolean): string | null {
  // Without an answer of the kernel the job ends at its deadline.
  const isRefused = job.state === "DENIED" || (job.state === "TIMEOUT" && job.attempt === 0);
  if (job.state === "CANCELLED") {
    return order.cancelAfterMs === null && !isKilled(job) ? "CANCELLED without a request" : null;
  }
  if (job.topic === DENIED_TOPIC && !isRefused && !job.bypass) return `${job.state} on ${job.topic}`;
  const isRejected = job.topic === APPROVAL_TOPIC && (order.decision === "reject" || order.decision === "both");
  if (job.state === "DENIED" && job.topic !== DENIED_TOPIC && !isRejected) return `DENIED on ${job.topic}`;
  if (job.state === "SUCCEEDED" && !hasSucceeded) return "SUCCEEDED, but no worker finished it";
  if (job.error?.code === "budget_exhausted") {
    return job.topic === METERED_TOPIC ? null : `exhausted a budget on ${job.topic}`;
  }
  if (job.state !== "FAILED" || order.actions.includes("fatal")) return null;
  const { budget } = plan.settings.retry.unclassified;
  return budget.kind === "count" && job.attempt < budget.max ? `FAILED after ${job.attempt} attempts` : null;
}

function checkMessages({ net, plan, system, clients, violations }: Ended): void {
  for (const { subject, id, attempt } of net.bus.exhausted) {
    violations.add("exhausted", id, `dropped by the broker after ${attempt} deliveries on ${subject}`);
  }
  const applied = new Map<string, number>();
  for (const { value } of net.store.rows(TALLIES)) {
    for (const id of value.applied) applied.set(id, (applied.get(id) ?? 0) + 1);
  }
  for (const { id } of plan.tallies) {
    const deadLetter = net.store.load(DEAD_LETTERS, deadLetterId(TALLY_SUBJECT, id))?.value;
    const times = applied.get(id) ?? 0;
    if (times > 1) violations.add("lost_update", id, `applied ${times} times`);
    if (clients.published.has(id) && times === 0 && !deadLetter) {
      violations.add("swallowed", id, "neither applied nor dead-lettered");
    }
    const { budget } = plan.settings.retry.unclassified;
    const failures = system.plainErrors.get(id) ?? 0;
    const isPlain = deadLetter?.reason === "budget" && deadLetter.error.retryClass === undefined;
    if (isPlain && budget.kind === "count" && failures < budget.max) {
      violations.add("budget", id, `dead-lettered after ${failures} failures, before its budget was used up`);
    }
  }
  for (const { id, kind } of plan.garbage) {
    if (kind === "stray_result" || !clients.published.has(id)) continue;
    const source = net.store.load(DEAD_LETTERS, deadLetterId(SUBMIT, id))?.value.source;
    if (source?.kind !== "message") violations.add("swallowed", id, `a ${kind} message has no dead letter`);
    else if (kind === "bytes" && source.base64 !== toBase64(garbageBytes(id))) {
      violations.add("swallowed", id, "the dead letter does not have the raw bytes");
    }
  }
}

/** Only messages that are meant to fail may have dead letters. */
function checkDeadLetters({ net, plan, violations }: Ended): void {
  const behaviors = new Map(plan.tallies.map(({ id, behavior }) => [id, behavior]));
  const garbage = new Set(plan.garbage.map(({ id }) => id));
  for (const { id, value } of net.store.rows(DEAD_LETTERS)) {
    if (value.source.kind !== "message") continue;
    const messageId = originalId(value.source.messageId);
    if (garbage.has(messageId) || (behaviors.get(messageId) ?? "fine") !== "fine") continue;
    violations.add("letter", id, `a valid message was dead-lettered: ${value.error.message}`);
  }
}

function checkLeftovers({ net, violations }: Ended): void {
  for (const { id } of net.store.unsent(Number.POSITIVE_INFINITY, 10))
    violations.add("outbox", id, "still in the outbox");
  for (const { id, subject, attempt } of net.bus.open()) {
    violations.add("quiet", id, `still open on ${subject} after ${attempt} deliveries`);
  }
  for (const { key, holder } of net.locks.list(10))
    violations.add("quiet", key, `still held by ${holder ?? "a waiter"}`);
  for (const { id, value } of net.store.rows(PARKED)) violations.add("stuck", id, `still parked, due ${value.dueMs}`);
}

/** After all retention times no record, index entry, counter or blob is left. */
export function checkRetention({ net, violations }: Ended): void {
  for (const table of TABLES) {
    // Rollouts are kept.
    if (table.name === ROLLOUTS.name) continue;
    for (const { id } of net.store.rows(table)) violations.add("retention", `${table.name}/${id}`, "not removed");
    for (const kind of ["lists", "queues"] as const) {
      for (const { name, id } of net.store.entries(table.name, kind))
        violations.add("retention", id, `still in ${name}`);
    }
  }
  for (const { group, name, count } of net.store.allCounts()) {
    if (group === PROMOTED.group) continue;
    violations.add("retention", `${group} ${name}`, `still counts ${count}`);
  }
  for (const [key, { expiresAtMs }] of net.blobs) {
    if (expiresAtMs > serverNow(net)) violations.add("retention", key, "blob not expired");
  }
}

const TABLES: readonly Table<never>[] = [
  JOBS,
  PARKED,
  DEAD_LETTERS,
  RETRY_STATES,
  RESERVATIONS,
  FAIL_OPENS,
  ROLLOUTS,
  AUDIT_PENDING,
  RUNS,
  TIMELINE,
  RUN_RESERVATIONS,
  WORKFLOW_HEADS,
  WORKFLOW_VERSIONS,
  WINDOWS,
  SPENT,
  SCHEDULES,
];

/** Compares counters, lists and queues with the records. */
function checkDerived({ net, violations }: Ended): void {
  const counts = new Map<string, number>();
  for (const table of TABLES) {
    const expected = { lists: new Set<string>(), queues: new Set<string>() };
    for (const { id, value } of net.store.rows(table)) {
      const { counters, lists, queue } = table.placement(value);
      for (const { group, name, by = 1 } of counters) {
        counts.set(`${group} ${name}`, (counts.get(`${group} ${name}`) ?? 0) + by);
      }
      for (const { name } of lists) expected.lists.add(`${name} ${id}`);
      if (queue) expected.queues.add(`${queue.name} ${id}`);
    }
    for (const kind of ["lists", "queues"] as const) {
      const actual = new Set([...net.store.entries(table.name, kind)].map(({ name, id }) => `${name} ${id}`));
      for (const entry of expected[kind]) if (!actual.has(entry)) violations.add("index", entry, `missing in ${kind}`);
      for (const entry of actual)
        if (!expected[kind].has(entry)) violations.add("index", entry, `should not be in ${kind}`);
    }
  }
  for (const { group, name, count } of net.store.allCounts()) {
    const key = `${group} ${name}`;
    const recount = counts.get(key) ?? 0;
    if (recount !== count) violations.add("counters", key, `the counter is ${count}, a recount gives ${recount}`);
    counts.delete(key);
  }
  for (const [key, recount] of counts) violations.add("counters", key, `the counter is 0, a recount gives ${recount}`);
}

function checkAuditChains({ net: { store }, violations }: Ended): void {
  for (const { id } of store.rows(AUDIT_PENDING)) violations.add("audit", id, "not added to its chain");
  const pages = [...store.rows(AUDIT_PAGES)].map(({ value }) => value).sort((a, b) => a.number - b.number);
  for (const { id, value: head } of store.rows(AUDIT_HEADS)) {
    const own = pages.filter(({ org }) => org === id);
    const { problem } = verifyAudit(own, head);
    if (problem) violations.add("audit", id, `entry ${problem.index}: ${problem.why}`);
  }
}
