import type { Timeline } from "../timeline.ts";

/** What a checker found: its name, what it is about, and where to look. */
export interface Violation {
  readonly checker: Checker;
  readonly id: string;
  readonly hint: string;
  /** Virtual milliseconds since the start. */
  readonly atMs: number;
}

/** Every checker, and what it promises. */
export const CHECKERS = {
  acknowledged: "a client that was told of a job finds it; every client is told in the end",
  idempotency: "one order makes one job, whoever asks how often",
  moves: "a job makes only the moves of its table, one attempt at a time",
  terminal: "a job ends once and never changes after that",
  stuck: "when the faults have stopped, every job ends and every parked message comes back",
  outcome: "a job ends as what was done to it says",
  denied: "what nobody has allowed never reaches a worker",
  permit: "nothing is sent without a verdict, an approval, or a fail-open lease that is in force at that instant",
  verdict: "a verdict is the kernel's own, and one that a process was told is never bypassed by it",
  bypass: "what goes out without a verdict is labelled, remembered, audited and counted",
  lease: "a fail-open lease ends when it should, and stays ended",
  probes: "no more probes of the kernel are under way than the breaker lets",
  approval: "an approval is used once, and only for the policy under which it was asked for",
  tenant: "no more jobs of a tenant are out than its limit",
  payload: "a worker gets the input that the client gave",
  window: "no more jobs of a topic are out than its window",
  counters: "counters are what a recount of the records gives",
  index: "lists and queues name the records that belong there, and no others",
  letter:
    "a job that failed has its dead letter from the same commit, with payload and history; what was fine has none",
  swallowed: "a message that failed is never acknowledged as done: it is done, parked, or a dead letter",
  early_term: "nothing is ended before its dead letter is in the store",
  endless: "the system comes to rest; it does not go round in circles",
  exhausted: "the broker's delivery cap is never reached",
  early: "a retry does not come before its time",
  budget: "waiting for one thing uses up the patience for that thing alone",
  fairness: "no org waits while others are served again and again",
  unsaved: "nothing is sent that was not saved",
  outbox: "when the faults have stopped, what was saved is sent",
  quiet: "when the faults have stopped, the bus falls silent and no lock is held",
  lost_update: "no change made under a lock is undone by another",
  fence: "the fences on a record never go back",
  claims: "what one process was handed, no other is given before its lease is over",
  retention: "after their time, records leave with everything that belonged to them",
  audit: "when the faults have stopped, every audit line has its place in an unbroken chain",
  two_holders: "a lock has one holder",
  step_order: "a step's job is made once, with its run, and after everything that it hangs on is settled",
  run_end: "a run ends once and never changes after that, but for a step's dead letter that is tried again",
  slots: "no more runs of a tenant are open than its limit, and the counter says how many",
  timer:
    "a delay ends once and not before its time; nor is the time of a list or a parallel step cut short or forgotten",
  run_moves: "a run and its steps make only the moves of their tables",
  run_outcome: "steps and runs end as the rules say, given how their jobs ended",
  run_left:
    "when the faults have stopped, every run ends; no job, child or sub-run is left or lost, and every parent is told",
  run_idempotency: "one key makes one run, whoever asks how often, and never hands out another tenant's",
} as const;

export type Checker = keyof typeof CHECKERS;

export class Violations {
  readonly #timeline: Timeline;
  readonly #found: Violation[] = [];
  readonly #seen = new Set<string>();

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  /** Each checker reports each id once; a bug that shows a thousand times is one finding. */
  add(checker: Checker, id: string, hint: string): void {
    const key = `${checker}\n${id}`;
    if (this.#seen.has(key) || this.#found.length >= FOUND_MAX) return;
    this.#seen.add(key);
    this.#found.push({ checker, id, hint, atMs: Math.round(this.#timeline.nowMs) });
  }

  get found(): readonly Violation[] {
    return this.#found;
  }
}

const FOUND_MAX = 200;
