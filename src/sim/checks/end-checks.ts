import { RESERVATIONS } from "../../core/jobs/idempotency.ts";
import { AUDIT_PENDING } from "../../core/model/audit.ts";
import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { FAIL_OPENS } from "../../core/model/fail-open.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { PARKED, RETRY_STATES } from "../../core/model/parked-message.ts";
import { RUN_RESERVATIONS, RUNS, TIMELINE } from "../../core/model/run.ts";
import type { Table } from "../../core/model/table.ts";
import { WORKFLOW_HEADS, WORKFLOW_VERSIONS } from "../../core/model/workflow.ts";
import { originalId } from "../../engine/delivery/index.ts";
import { deadLetterIdOf } from "../../engine/packets.ts";
import { toBase64 } from "../../protocol/base64.ts";
import { SUBMIT } from "../../protocol/subjects.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import type { System } from "../system.ts";
import { ASKED_TOPIC, DENIED_TOPIC } from "../workload/acts.ts";
import { type Clients, garbageBytes } from "../workload/clients.ts";
import type { Order, Plan } from "../workload/plan.ts";
import type { RunClients } from "../workload/run-clients.ts";
import { TALLIES, TALLY_SUBJECT } from "../workload/tally.ts";
import { checkAuditLogs, hasPendingAudit } from "./audit-check.ts";
import { type BusHistory, deadLetterId } from "./message-checker.ts";
import { areRunsQuiet, checkRuns } from "./run-end-checks.ts";
import type { Violations } from "./violations.ts";

/** What is looked at when the faults have stopped and the system has had its time. */
export interface Ended {
  readonly net: SimNet;
  readonly plan: Plan;
  readonly system: System;
  readonly clients: Clients;
  readonly runClients: RunClients;
  readonly violations: Violations;
  readonly seen: BusHistory;
}

/** Whether nothing is left to be done: the moment to look. */
export function isQuiet(ended: Ended): boolean {
  const { net, clients } = ended;
  if (!clients.isDone || !net.bus.open().next().done || !net.store.rows(PARKED).next().done) return false;
  if (net.store.unsent(Number.POSITIVE_INFINITY, 1).length > 0 || net.locks.list(1).length > 0) return false;
  for (const { value } of net.store.rows(JOBS)) if (!isFinal(value.state)) return false;
  return areRunsQuiet(ended) && !hasPendingAudit(net.store);
}

export function checkEnd(ended: Ended): void {
  checkClients(ended);
  for (const { value } of ended.net.store.rows(JOBS)) checkJob(ended, value);
  checkRuns(ended);
  checkMessages(ended);
  checkLetters(ended);
  checkLeftovers(ended);
  checkDerived(ended);
  checkAuditLogs(ended.net.store, ended.violations);
}

function checkClients({ net, plan, clients, violations }: Ended): void {
  for (const number of clients.trying) violations.add("acknowledged", `order ${number}`, "its client was never told");
  for (const [number, jobId] of clients.told) {
    const order = plan.orders[number];
    const found = net.store.load(JOBS, jobId)?.value;
    if (found === undefined)
      violations.add("acknowledged", jobId, `order ${number} was acknowledged, the job is not there`);
    else if (order && (found.org !== order.submission.org || found.topic !== order.submission.topic)) {
      violations.add("idempotency", jobId, `order ${number} was given a job of ${found.org} on ${found.topic}`);
    }
  }
}

function checkJob({ plan, system, violations, seen }: Ended, job: Job): void {
  if (!isFinal(job.state)) {
    violations.add("stuck", job.id, `still ${job.state}, attempt ${job.attempt}, due ${job.dueMs}, topic ${job.topic}`);
    return;
  }
  if ((job.state === "FAILED" || job.state === "TIMEOUT") && !seen.stored.has(deadLetterIdOf(job))) {
    violations.add("letter", job.id, `${job.state}, and nobody was told on the bus`);
  }
  const order = plan.orders[Number(job.labels.order)];
  if (order === undefined) return;
  const problem = outcomeProblem(job, order, plan, system.finishedWell.has(order.number));
  if (problem !== null) violations.add("outcome", job.id, problem);
}

function outcomeProblem(job: Job, order: Order, plan: Plan, isFinishedWell: boolean): string | null {
  // A kernel that is away for as long as the job lives leaves it to its deadline.
  const isRefused = job.state === "DENIED" || (job.state === "TIMEOUT" && job.attempt === 0);
  if (job.state === "CANCELLED") return order.cancelAfterMs === null ? "CANCELLED, but nobody wanted that" : null;
  if (job.topic === DENIED_TOPIC && !isRefused && !job.bypass) return `${job.state} on ${job.topic}`;
  const isRejected = job.topic === ASKED_TOPIC && (order.answer === "reject" || order.answer === "both");
  if (job.state === "DENIED" && job.topic !== DENIED_TOPIC && !isRejected) return `DENIED on ${job.topic}`;
  if (job.state === "SUCCEEDED" && !isFinishedWell) return "SUCCEEDED, but no worker finished it";
  if (job.state !== "FAILED" || order.acts.includes("fatal")) return null;
  const { budget } = plan.settings.retry.unclassified;
  return budget.kind === "count" && job.attempt < budget.max ? `FAILED after ${job.attempt} attempts` : null;
}

function checkMessages({ net, plan, system, clients, violations }: Ended): void {
  for (const { subject, id, attempt } of net.bus.exhausted) {
    violations.add("exhausted", id, `the broker gave up on it after ${attempt} deliveries of ${subject}`);
  }
  const applied = new Map<string, number>();
  for (const { value } of net.store.rows(TALLIES)) {
    for (const id of value.applied) applied.set(id, (applied.get(id) ?? 0) + 1);
  }
  for (const { id } of plan.tallies) {
    const letter = net.store.load(DEAD_LETTERS, deadLetterId(TALLY_SUBJECT, id))?.value;
    const times = applied.get(id) ?? 0;
    if (times > 1) violations.add("lost_update", id, `counted ${times} times`);
    if (clients.published.has(id) && times === 0 && !letter) {
      violations.add("swallowed", id, "neither counted nor in the dead letters");
    }
    const { budget } = plan.settings.retry.unclassified;
    const failures = system.plainErrors.get(id) ?? 0;
    const isPlain = letter?.reason === "budget" && letter.error.retryClass === undefined;
    if (isPlain && budget.kind === "count" && failures < budget.max) {
      violations.add("budget", id, `given up after ${failures} failures; others had used up its patience`);
    }
  }
  for (const { id, kind } of plan.garbage) {
    if (kind === "stray_result" || !clients.published.has(id)) continue;
    const source = net.store.load(DEAD_LETTERS, deadLetterId(SUBMIT, id))?.value.source;
    if (source?.kind !== "message") violations.add("swallowed", id, `a ${kind} message is not in the dead letters`);
    else if (kind === "bytes" && source.base64 !== toBase64(garbageBytes(id))) {
      violations.add("swallowed", id, "the dead letter does not have the raw bytes");
    }
  }
}

/** A message that nothing is wrong with is not given up on. */
function checkLetters({ net, plan, violations }: Ended): void {
  const moods = new Map(plan.tallies.map(({ id, mood }) => [id, mood]));
  const garbage = new Set(plan.garbage.map(({ id }) => id));
  for (const { id, value } of net.store.rows(DEAD_LETTERS)) {
    if (value.source.kind !== "message") continue;
    const messageId = originalId(value.source.messageId);
    if (garbage.has(messageId) || (moods.get(messageId) ?? "fine") !== "fine") continue;
    violations.add("letter", id, `nothing was wrong with this message: ${value.error.message}`);
  }
}

function checkLeftovers({ net, violations }: Ended): void {
  for (const { id } of net.store.unsent(Number.POSITIVE_INFINITY, 10))
    violations.add("outbox", id, "saved, never sent");
  for (const { id, subject, attempt } of net.bus.open()) {
    violations.add("quiet", id, `still on ${subject} after ${attempt} deliveries`);
  }
  for (const { key, holder } of net.locks.list(10))
    violations.add("quiet", key, `a lock held by ${holder ?? "nobody"}`);
  for (const { id, value } of net.store.rows(PARKED))
    violations.add("stuck", id, `parked until ${value.dueMs}, still there`);
}

/** When every retention has passed: nothing is left, neither records nor what was derived from them. */
export function checkRetention({ net, violations }: Ended): void {
  for (const table of TABLES) {
    for (const { id } of net.store.rows(table)) violations.add("retention", `${table.name}/${id}`, "still there");
    for (const kind of ["lists", "queues"] as const) {
      for (const { name, id } of net.store.entries(table.name, kind))
        violations.add("retention", id, `still in ${name}`);
    }
  }
  for (const { group, name, count } of net.store.allCounts()) {
    violations.add("retention", `${group} ${name}`, `still counts ${count}`);
  }
  for (const [key, { expiresAtMs }] of net.blobs) {
    if (expiresAtMs > serverNow(net)) violations.add("retention", key, "a blob that is still kept");
  }
}

const TABLES: readonly Table<never>[] = [
  JOBS,
  PARKED,
  DEAD_LETTERS,
  RETRY_STATES,
  RESERVATIONS,
  FAIL_OPENS,
  AUDIT_PENDING,
  RUNS,
  TIMELINE,
  RUN_RESERVATIONS,
  WORKFLOW_HEADS,
  WORKFLOW_VERSIONS,
];

/** Counters, lists and queues against what the records say. */
function checkDerived({ net, violations }: Ended): void {
  const counts = new Map<string, number>();
  for (const table of TABLES) {
    const expected = { lists: new Set<string>(), queues: new Set<string>() };
    for (const { id, value } of net.store.rows(table)) {
      const { counters, lists, queue } = table.placement(value);
      for (const { group, name } of counters) counts.set(`${group} ${name}`, (counts.get(`${group} ${name}`) ?? 0) + 1);
      for (const { name } of lists) expected.lists.add(`${name} ${id}`);
      if (queue) expected.queues.add(`${queue.name} ${id}`);
    }
    for (const kind of ["lists", "queues"] as const) {
      const actual = new Set([...net.store.entries(table.name, kind)].map(({ name, id }) => `${name} ${id}`));
      for (const entry of expected[kind]) if (!actual.has(entry)) violations.add("index", entry, `missing in ${kind}`);
      for (const entry of actual) if (!expected[kind].has(entry)) violations.add("index", entry, `too much in ${kind}`);
    }
  }
  for (const { group, name, count } of net.store.allCounts()) {
    const key = `${group} ${name}`;
    const recount = counts.get(key) ?? 0;
    if (recount !== count) violations.add("counters", key, `says ${count}, a recount says ${recount}`);
    counts.delete(key);
  }
  for (const [key, recount] of counts) violations.add("counters", key, `says 0, a recount says ${recount}`);
}
