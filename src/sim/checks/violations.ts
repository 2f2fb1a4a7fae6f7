import type { Timeline } from "../timeline.ts";

export interface Violation {
  readonly checker: Checker;
  /** The record, message or lock concerned. */
  readonly id: string;
  readonly hint: string;
  /** Virtual milliseconds since the start. */
  readonly atMs: number;
}

/** The checkers, each with the invariant it verifies. */
export const CHECKERS = {
  acknowledged: "every acknowledged job is in the store, and every client gets a reply in the end",
  idempotency: "one submission creates one job, however often it is sent",
  moves: "a job only makes the state transitions of its table, one attempt at a time",
  terminal: "a job reaches a final state once and does not change afterwards",
  stuck: "after the faults stop, every job ends and every parked message is redelivered",
  outcome: "the final state of a job matches what its workers, clients and operators did",
  denied: "no worker receives a job that was not allowed",
  permit: "no job is dispatched without a verdict, an approval, or a fail-open lease in force at that instant",
  verdict: "stored verdicts are the kernel's, and a process never bypasses a verdict it received",
  policy: "a stored verdict is what its policy says for its recorded time, and shadow rules decide nothing",
  bypass: "a job dispatched without a verdict is labelled, recorded in its history, audited and counted",
  kill: "no job of a scope is dispatched a minute after its kill switch was engaged, and no other job is killed",
  lease: "a fail-open lease ends on time and stays ended",
  limit: "no span of a limit's duration has more jobs than the limit of the policy",
  spend: "no dispatch exceeds a budget of the policy, and only results spend",
  probes: "a half-open breaker lets through no more probes than configured",
  approval: "an approval is used once, and only under the policy it was requested for",
  tenant: "a tenant has no more jobs in flight than its limit, and none is admitted beyond its quota of open jobs",
  payload: "a worker receives the input that the client submitted",
  window: "a topic has no more jobs in flight than its window",
  counters: "counters equal a recount of the records",
  index: "lists and queues contain exactly the records that belong in them",
  letter: "a failed job has a dead letter from the same commit, with payload and history; nothing else has one",
  swallowed: "a failed message is never acknowledged as done: it is processed, parked or dead-lettered",
  early_term: "no message is terminated before its dead letter is stored",
  endless: "the system becomes idle; messages do not circulate for ever",
  exhausted: "no message reaches the broker's delivery limit",
  early: "no retry runs before it is due",
  budget: "a retry uses the budget of its own class only",
  fairness: "no tenant is passed over while others are dispatched repeatedly",
  unsaved: "no message is published before its commit",
  outbox: "after the faults stop, every outbox message is published",
  quiet: "after the faults stop, no message is open and no lock is held",
  lost_update: "no update made under a lock is overwritten by another holder",
  fence: "the fences of a record only increase",
  claims: "a claimed entry is not given to another process before the claim's lease expires",
  retention: "expired records are removed with everything derived from them",
  audit: "after the faults stop, every audit entry is in an unbroken hash chain",
  human_actions: "every action of a person leaves exactly one audit entry with their name",
  two_holders: "a lock has at most one holder",
  step_order: "a step's job is created once, in a commit of its run, after all its dependencies are settled",
  run_end: "a run ends once and does not change afterwards, unless a dead letter of one of its steps is redriven",
  slots: "a tenant has no more open runs than its limit, and the slot counter equals their number",
  timer: "delays and step timeouts fire once, and not before they are due",
  run_moves: "a run and its steps only make the state transitions of their tables",
  run_outcome: "steps and runs end as the reference model predicts from the ends of their jobs",
  compensation:
    "a run that did not succeed has undone each step that its workers completed, once, and records what failed",
  events: "an accepted event is kept until one step takes it, and an event id is accepted once",
  loop: "a loop stays within its bound, and each iteration has the state that the one before left",
  schedule_slot: "each slot of a schedule starts one run, in time, or is recorded as left out",
  schedule_overlap: "a slot starts, waits or is skipped as the overlap policy of its schedule says",
  schedule_pause: "no slot starts while its schedule is paused",
  schedule_late: "after the faults stop, no slot is overdue",
  run_left: "after the faults stop, every run has ended, no job or sub-run is orphaned, and every parent is notified",
  arm: "a unit keeps the arms it was created with, every process draws the same, and only treated units use the treatment",
  rollback: "no treatment is used a minute after its rollout was rolled back or ended",
  measure: "each result of a run is measured once, and none after the horizon",
  rollout: "a subject has at most one active rollout, which makes only legal moves and is promoted only by a person",
  run_idempotency: "one idempotency key creates one run, and never returns a run of another tenant",
} as const;

export type Checker = keyof typeof CHECKERS;

export class Violations {
  readonly #timeline: Timeline;
  readonly #stopOn: readonly Checker[];
  #areComplete = false;
  readonly #found: Violation[] = [];
  readonly #seen = new Set<string>();

  constructor(timeline: Timeline, stopOn: readonly Checker[] = []) {
    this.#timeline = timeline;
    this.#stopOn = stopOn;
  }

  /** Reports each pair of checker and id once. */
  add(checker: Checker, id: string, hint: string): void {
    const key = `${checker}\n${id}`;
    if (this.#seen.has(key) || this.#found.length >= FOUND_MAX) return;
    this.#seen.add(key);
    this.#areComplete ||= this.#stopOn.includes(checker);
    this.#found.push({ checker, id, hint, atMs: Math.round(this.#timeline.nowMs) });
  }

  /** Whether one of the checkers has reported that end the simulation. */
  get areComplete(): boolean {
    return this.#areComplete;
  }

  get found(): readonly Violation[] {
    return this.#found;
  }
}

const FOUND_MAX = 200;
