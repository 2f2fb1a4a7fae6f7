import {
  type BudgetEvent,
  BudgetReplay,
  budgetEvents,
  type RecordedSpends,
  recordedSpends,
} from "../../core/jobs/replay-budgets.ts";
import type { Job } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import {
  inOrderOfTime,
  type LimitedDecision,
  LimitReplay,
  letsRun,
  type RecordedUse,
} from "../../core/policy/limits/replay.ts";
import { type DecidedBy, EXAMPLES_MAX, type FlipGroups } from "../../core/policy/recorded.ts";
import type { Needs } from "../engine.ts";

/** Jobs without room in a budget. */
export interface ExhaustedGroup {
  readonly ruleId: string;
  readonly per: string;
  readonly count: number;
  /** Ids of jobs, the earliest. */
  readonly examples: readonly string[];
}

export interface ReplayedLimits {
  /** Uses before this time are not counted. */
  readonly fromMs: number;
  readonly flipped: number;
  readonly exhausted: readonly ExhaustedGroup[];
}

interface Use extends RecordedUse {
  readonly id: string;
  readonly topic: string;
  /** What the job spends of the budgets of each decision, by rule. */
  readonly spends: ReadonlyMap<string | null, RecordedSpends>;
}

type Spender = RecordedSpends & Pick<Use, "id">;

/**
 * Collects the recorded decisions of a simulation that depend on limits and budgets, and replays them at its end. The
 * records of a simulation are read newest first; counting requires the order of time.
 */
export class RecordedReplay {
  readonly #uses: Use[] = [];
  readonly #org: string;

  constructor(org: string) {
    this.#org = org;
  }

  add(job: Job, decided: DecidedBy, { otherwise, limits }: LimitedDecision): void {
    const atMs = countedMs(job);
    const spends = new Map<string | null, RecordedSpends>();
    for (const decision of [otherwise, ...limits.map(({ exceeded }) => exceeded)]) {
      const found = recordedSpends(job, decision, atMs);
      if (found !== null) spends.set(decision.ruleId, found);
    }
    const { topic, deadlineMs } = job;
    this.#uses.push({
      ...{ atMs, deadlineMs, decided, otherwise, limits, spends },
      ...{ id: clientJobId(this.#org, job.id), topic },
    });
  }

  /**
   * Null without limits and budgets. `knownFromMs`: all jobs since then are among the records; null: since the first
   * record.
   */
  async run({ world }: Needs<"world">, groups: FlipGroups, knownFromMs: number | null): Promise<ReplayedLimits | null> {
    const uses = inOrderOfTime(this.#uses);
    const [first] = uses;
    if (first === undefined) return null;
    const fromMs = knownFromMs ?? first.atMs;
    const replay = new LimitReplay(fromMs);
    const spenders: Spender[] = [];
    const flips: [Use, DecidedBy][] = [];
    await inTurns(world.clock, uses, (use) => {
      const decision = replay.decide(use);
      if (decision.effect !== use.decided.effect) flips.push([use, decision]);
      const spends = use.spends.get(decision.ruleId);
      if (letsRun(decision.effect) && spends !== undefined) spenders.push({ ...spends, id: use.id });
    });
    // Examples are the newest.
    for (const [{ decided, topic, id }, to] of flips.reverse()) groups.add(decided, to, topic, id);
    const exhausted = await exhaustedBy(world.clock, budgetEvents<Spender>(spenders));
    return { fromMs, flipped: flips.length, exhausted };
  }
}

async function exhaustedBy(
  clock: Needs<"world">["world"]["clock"],
  events: readonly BudgetEvent<Spender>[],
): Promise<readonly ExhaustedGroup[]> {
  const budgets = new BudgetReplay();
  const groups = new Map<string, ExhaustedGroup & { count: number; examples: string[] }>();
  await inTurns(clock, events, (event) => {
    const full = budgets.apply(event);
    if (full === null) return;
    const { ruleId, per } = full;
    const group = groups.get(`${per} ${ruleId}`) ?? { ruleId, per, count: 0, examples: [] };
    groups.set(`${per} ${ruleId}`, group);
    group.count += 1;
    if (group.examples.length < EXAMPLES_MAX) group.examples.push(event.job.id);
  });
  return [...groups.values()].sort((a, b) => b.count - a.count).slice(0, GROUPS_MAX);
}

/** A job counts with its last decision, at the recorded time of its count; a denied job ended with the decision. */
function countedMs({ safety, counted, createdMs, state, updatedMs }: Job): number {
  if (safety?.effect === "throttle") return safety.atMs ?? createdMs;
  if (counted !== undefined && counted.length > 0) return Math.max(...counted.map(({ atMs }) => atMs));
  return state === "DENIED" ? updatedMs : (safety?.atMs ?? createdMs);
}

/** Other work of the process runs between the turns. */
async function inTurns<T>(
  clock: Needs<"world">["world"]["clock"],
  items: readonly T[],
  work: (item: T) => void,
): Promise<void> {
  for (let from = 0; from < items.length; from += TURN) {
    if (from > 0) await new Promise<void>((resolve) => clock.after(0, resolve));
    for (const item of items.slice(from, from + TURN)) work(item);
  }
}

const TURN = 2_000;
const GROUPS_MAX = 100;
