import { budgetDeathsGroupOf, budgetDeathsIn } from "../../core/model/arms.ts";
import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import type { Arm } from "../../core/rollout/arm.ts";
import { type Judgement, judge, newJudgement, type Verdict, verdictOf } from "../../core/rollout/judgement.ts";
import { isRolloutActive, moveRollout, ROLLOUT_LEVEL, type Rollout } from "../../core/rollout/rollout.ts";
import { safetyStop } from "../../core/rollout/safety-stop.ts";
import { JUDGEMENTS, type StoredJudgement } from "../../core/rollout/stored-judgement.ts";
import { unitKindOf } from "../../core/rollout/subject.ts";
import { summaryOf } from "../../core/rollout/summary.ts";
import { type Put, put, type Versioned } from "../../ports/store.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { commitMove, loadRollout, rolloutsChanged } from "./control-rollout.ts";
import { readUnits } from "./read-units.ts";

/**
 * Judges active rollouts: reads the units whose horizon has ended, and rolls back, advances the stage, reports a proof or ends
 * the rollout. Every process runs it; the versions of judgement and rollout let one commit win. It never promotes.
 */
export class RolloutJudge {
  readonly #engine: DispatchContext & Needs<"audit">;
  /** Rollouts whose gauges are set, and when their next unit can be judged. */
  readonly #nextMs = new Map<string, number>();

  constructor(engine: DispatchContext & Needs<"audit">) {
    this.#engine = engine;
  }

  /** A rollout that has ended is needed once more, for its gauges. */
  isNeeded(): boolean {
    return this.#engine.rollouts.active.length > 0 || this.#nextMs.size > 0;
  }

  /** One pass. The age of the oldest unit that is left; null if none is. */
  async pass(): Promise<number | null> {
    const { rollouts, world } = this.#engine;
    const active = rollouts.active.map(({ id }) => id);
    let leftMs: number | null = null;
    for (const id of new Set([...active, ...this.#nextMs.keys()])) {
      const found = await loadRollout(this.#engine, id);
      if (!found || !isRolloutActive(found.value.state)) {
        this.#nextMs.delete(id);
        if (found) world.metrics.set("cordum_rollout_state", ROLLOUT_LEVEL[found.value.state], { rollout: id });
        continue;
      }
      if (await this.#judge(found)) leftMs = found.value.horizonMs;
    }
    return leftMs;
  }

  /** True if more units can be judged at once. */
  async #judge(found: Versioned<Rollout>): Promise<boolean> {
    const { world } = this.#engine;
    const rollout = found.value;
    const { id } = rollout;
    const nowMs = world.clock.now();
    const stored = await world.store.load(JUDGEMENTS, id);
    const before: StoredJudgement = stored?.value ?? {
      judgement: newJudgement(rollout),
      cursors: { runs: null, jobs: null },
      updatedMs: nowMs,
    };
    const letters = await readDeadLetters(this.#engine, rollout);
    const stop = this.#stopReason(rollout, letters, nowMs);
    if (stop !== null) {
      await this.#move(found, stop.to, stop.reason, []);
      return false;
    }
    const nextMs = this.#nextMs.get(id) ?? 0;
    // Another process has just judged it.
    const isFresh = stored !== null && nowMs - before.updatedMs < FRESH_MS;
    const isDue = nextMs === 0 || (nowMs >= nextMs && !isFresh);
    const from = { cursors: before.cursors, judged: before.judgement.cursor };
    const page = isDue ? await readUnits(this.#engine, rollout, from, deathsByUnit(rollout, letters)) : null;
    const judged = page === null ? null : judge(rollout, before.judgement, page.units, nowMs);
    const { judgement, verdict } = judged ?? {
      judgement: before.judgement,
      verdict: verdictOf(rollout, before.judgement),
    };
    const isNew = page !== null && page.units.length > 0 && !isSame(judgement, before.judgement);
    const after: StoredJudgement = { judgement, cursors: page?.cursors ?? before.cursors, updatedMs: nowMs };
    const puts = isNew ? [put(JUDGEMENTS, id, stored, after)] : [];
    const isWritten = await this.#apply(found, verdict, puts);
    if (page !== null && isWritten) this.#nextMs.set(id, page.hasMore ? 0 : page.nextMs);
    else if (!this.#nextMs.has(id)) this.#nextMs.set(id, 0);
    showGauges(this.#engine, rollout, judgement);
    return isWritten && (page?.hasMore ?? false);
  }

  #stopReason(rollout: Rollout, letters: Letters, nowMs: number): Stop | null {
    const broken = this.#engine.rollouts.broken.find(([{ id }]) => id === rollout.id);
    if (broken) return { to: "rolled_back", reason: `policy error: ${broken[1]}` };
    const deadUnits = { control: unitsIn(rollout, letters.control), treatment: unitsIn(rollout, letters.treatment) };
    const reason = safetyStop(rollout, { deadUnits, policyErrors: 0 });
    if (reason !== null) return { to: "rolled_back", reason };
    if (nowMs < rollout.endsMs || rollout.state === "proved") return null;
    return { to: "ended", reason: `not decided before ${new Date(rollout.endsMs).toISOString()}` };
  }

  /** False if another process was first. */
  async #apply(found: Versioned<Rollout>, verdict: Verdict, puts: readonly Put[]): Promise<boolean> {
    const { state, stage, shares } = found.value;
    switch (verdict.kind) {
      case "breach":
        return this.#move(found, "rolled_back", `gate ${verdict.gate} breached: ${verdict.reason}`, puts);
      case "proved":
        if (state !== "running") break;
        return stage + 1 < shares.length ? this.#advance(found, puts) : this.#move(found, "proved", PROVED, puts);
      case "none":
        break;
      default:
        return verdict satisfies never;
    }
    if (puts.length === 0) return true;
    return (await this.#engine.commit({ org: "", puts })).kind === "committed";
  }

  #advance(found: Versioned<Rollout>, puts: readonly Put[]): Promise<boolean> {
    const nowMs = this.#engine.world.clock.now();
    const { stage } = found.value;
    const reason = `every gate is proved in stage ${stage + 1}`;
    return this.#commit(
      found,
      { ...found.value, stage: stage + 1, stagedMs: nowMs, updatedMs: nowMs, by: CONTROL_PLANE, reason },
      puts,
    );
  }

  async #move(found: Versioned<Rollout>, to: Stop["to"] | "proved", reason: string, puts: readonly Put[]) {
    const nowMs = this.#engine.world.clock.now();
    const next = moveRollout(found.value, to, { by: CONTROL_PLANE, reason, nowMs });
    return next === null ? false : this.#commit(found, next, puts);
  }

  async #commit(found: Versioned<Rollout>, next: Rollout, puts: readonly Put[]): Promise<boolean> {
    const moved = await commitMove(this.#engine, found, next, {}, puts);
    if (moved === "stale" || moved.kind !== "moved") return false;
    await rolloutsChanged(this.#engine);
    return true;
  }
}

interface Stop {
  readonly to: "rolled_back" | "ended";
  readonly reason: string;
}

type Letters = Readonly<Record<Arm, readonly DeadLetter[]>>;

/** Dead letters by an exhausted budget, by arm. Two reads more if there are any. */
async function readDeadLetters({ world }: Needs<"world">, { id }: Rollout): Promise<Letters> {
  const counts = await world.store.counts(budgetDeathsGroupOf(id), 2);
  const of = async (arm: Arm): Promise<readonly DeadLetter[]> => {
    if ((counts.get(arm) ?? 0) === 0) return [];
    const page = await world.store.list(DEAD_LETTERS, { index: budgetDeathsIn(id, arm), limit: LETTERS_MAX });
    return page.items.map(({ value }) => value);
  };
  const [control, treatment] = await Promise.all([of("control"), of("treatment")]);
  return { control, treatment };
}

/**
 * Units of one arm with dead letters. The units of one time block of a switched rollout share an arm and count once, as do the
 * runs of a tenant's window.
 */
function unitsIn({ id, subject, switchMs }: Rollout, letters: readonly DeadLetter[]): number {
  const isTenant = unitKindOf(subject) === "org";
  const keys = letters.flatMap(({ unit, org, arms, createdMs }) => {
    if (switchMs !== null) return Math.floor(createdMs / switchMs);
    if (!isTenant) return unit ?? [];
    const untilMs = arms?.[id]?.untilMs;
    return untilMs === undefined ? [] : `${org}@${untilMs}`;
  });
  return new Set(keys).size;
}

/** The number of dead letters within the horizon of each unit. */
function deathsByUnit({ id }: Rollout, { control, treatment }: Letters): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { unit, arms, createdMs } of [...control, ...treatment]) {
    const untilMs = arms?.[id]?.untilMs;
    if (unit === undefined || untilMs === undefined || createdMs > untilMs) continue;
    counts.set(unit, (counts.get(unit) ?? 0) + 1);
  }
  return counts;
}

/** Units that were judged before leave the cursor where it is. */
const isSame = (after: Judgement, before: Judgement): boolean =>
  after.cursor?.id === before.cursor?.id && after.cursor?.startMs === before.cursor?.startMs;

function showGauges({ world }: Needs<"world">, rollout: Rollout, judgement: Judgement): void {
  const { id, state } = rollout;
  world.metrics.set("cordum_rollout_state", ROLLOUT_LEVEL[state], { rollout: id });
  for (const { gate, breachE } of summaryOf(rollout, judgement).gates) {
    world.metrics.set("cordum_rollout_e_value", breachE, { rollout: id, gate });
  }
}

const CONTROL_PLANE = "cordum";
const PROVED = "every gate is proved; promote it or roll it back";
const LETTERS_MAX = 1_000;
const FRESH_MS = 2_500;
