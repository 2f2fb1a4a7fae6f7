import { checkRollout, type RolloutRequest } from "../../core/rollout/request.ts";
import {
  activeRolloutsOf,
  moveRollout,
  PROMOTED,
  PROMOTED_MAX,
  ROLLOUTS,
  ROLLOUTS_LIST,
  type Rollout,
  type RolloutState,
  rolloutRecordId,
} from "../../core/rollout/rollout.ts";
import { type Guard, type Put, put, type Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { broadcastChange } from "../change-broadcast.ts";
import { retryOnConflict } from "../commit.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { POOLS_CHANGED, refreshPools } from "../workers/index.ts";

/**
 * Actions of operators on rollouts. Each is one commit with its audit entry, applied in this process before the response and
 * broadcast to the others. Promotion is an operator's action only; the control plane itself aborts (`judge-rollouts.ts`).
 */
type RolloutContext = DispatchContext & Needs<"audit">;

export type StartRolloutOutcome =
  | { readonly kind: "started"; readonly rollout: Rollout }
  | { readonly kind: "bad"; readonly field: keyof RolloutRequest; readonly why: string }
  /** The subject has an active rollout. */
  | { readonly kind: "already_active"; readonly id: string | null };

export async function startRollout(engine: RolloutContext, request: RolloutRequest): Promise<StartRolloutOutcome> {
  const { clock, random, log } = engine.world;
  // The value in force may have been promoted by another process.
  await refreshPools(engine);
  const { current } = engine.settings;
  const checked = checkRollout(request, current, current.rollout.alpha, clock.now());
  if (checked.kind === "bad") return checked;
  const { subject } = checked.rollout;
  const salt = random.id();
  const started = await retryOnConflict("rollout ids", async (): Promise<StartRolloutOutcome | "stale"> => {
    const rollout: Rollout = { id: await nextId(engine), salt, ...checked.rollout };
    const guard: Guard = { kind: "counter", counter: activeRolloutsOf(subject), max: 1 };
    const puts = [put(ROLLOUTS, rolloutRecordId(rollout.id), null, rollout), auditOf(engine, rollout, "started")];
    const committed = await engine.commit({ org: "", puts, guards: [guard] });
    if (committed.kind === "stale") return "stale";
    if (committed.kind === "committed") return { kind: "started", rollout };
    return { kind: "already_active", id: engine.rollouts.active.find((one) => one.subject === subject)?.id ?? null };
  });
  if (started.kind === "started") {
    const { id, treatment, by } = started.rollout;
    log.write("warn", "rollout_started", { rollout: id, subject, treatment, by });
    await rolloutsChanged(engine);
  }
  return started;
}

/** Ids count up. Of two starts that read the same last id, one is stale. */
async function nextId({ world }: Needs<"world">): Promise<string> {
  const page = await world.store.list(ROLLOUTS, { index: ROLLOUTS_LIST, limit: IDS_READ });
  const last = Math.max(0, ...page.items.map(({ value }) => Number(value.id.slice(1))));
  return `R${last + 1}`;
}

export interface RolloutAction {
  readonly id: string;
  readonly by: string;
  readonly reason: string;
}

export type RolloutOutcome =
  | { readonly kind: "moved"; readonly rollout: Rollout }
  | { readonly kind: "not_found" }
  /** The rollout is in that state already, or cannot reach it from its state. */
  | { readonly kind: "illegal"; readonly rollout: Rollout }
  /** Not every gate is proved: promotion needs `isForced` and a reason. */
  | { readonly kind: "not_proved"; readonly rollout: Rollout }
  | { readonly kind: "reason_missing" }
  | { readonly kind: "too_many_promoted"; readonly limit: number };

/** No new units are enrolled; enrolled ones keep their arms and are still judged. */
export const pauseRollout = (engine: RolloutContext, action: RolloutAction): Promise<RolloutOutcome> =>
  move(engine, action, "paused");

export const resumeRollout = (engine: RolloutContext, action: RolloutAction): Promise<RolloutOutcome> =>
  move(engine, action, "running");

/** The control value applies to all units again, also after a promotion. */
export const rollbackRollout = (engine: RolloutContext, action: RolloutAction): Promise<RolloutOutcome> =>
  move(engine, action, "rolled_back");

/** Ends an active rollout without a decision. */
export const endRollout = (engine: RolloutContext, action: RolloutAction): Promise<RolloutOutcome> =>
  move(engine, action, "ended");

/** The treatment value applies to all units of all processes, without a restart, until it is rolled back. */
export function promoteRollout(
  engine: RolloutContext,
  { isForced = false, ...action }: RolloutAction & { readonly isForced?: boolean },
): Promise<RolloutOutcome> {
  if (isForced && action.reason.trim() === "") return Promise.resolve({ kind: "reason_missing" });
  return move(engine, action, "promoted", isForced);
}

async function move(
  engine: RolloutContext,
  { id, by, reason }: RolloutAction,
  to: RolloutState,
  isForced = false,
): Promise<RolloutOutcome> {
  const moved = await retryOnConflict(`rollout \`${id}\``, async (): Promise<RolloutOutcome | "stale"> => {
    const found = await loadRollout(engine, id);
    if (!found) return { kind: "not_found" };
    const next = moveRollout(found.value, to, { by, reason: reason.trim(), nowMs: engine.world.clock.now() });
    if (next === null) return { kind: "illegal", rollout: found.value };
    if (to === "promoted" && found.value.state !== "proved" && !isForced) {
      return { kind: "not_proved", rollout: found.value };
    }
    return commitMove(engine, found, next, isForced ? { forced: true } : {});
  });
  if (moved.kind === "moved") await rolloutsChanged(engine);
  return moved;
}

/** Also for transitions by the control plane, with `puts` in the same commit. The caller announces the change. */
export async function commitMove(
  engine: Needs<"world" | "commit" | "audit">,
  found: Versioned<Rollout>,
  next: Rollout,
  facts: { readonly forced?: boolean } = {},
  puts: readonly Put[] = [],
): Promise<Extract<RolloutOutcome, { kind: "moved" | "too_many_promoted" }> | "stale"> {
  const { id, state, stage, by, reason } = next;
  const what = stage === found.value.stage ? state : "stage advanced";
  const guards: Guard[] = state === "promoted" ? [{ kind: "counter", counter: PROMOTED, max: PROMOTED_MAX }] : [];
  const committed = await engine.commit({
    org: "",
    puts: [put(ROLLOUTS, found.id, found, next), auditOf(engine, next, what, facts), ...puts],
    guards,
  });
  if (committed.kind === "stale") return "stale";
  if (committed.kind === "refused") return { kind: "too_many_promoted", limit: PROMOTED_MAX };
  engine.world.log.write("warn", "rollout_moved", { rollout: id, from: found.value.state, state, stage, by, reason });
  return { kind: "moved", rollout: next };
}

/** Applies a committed change in this process and tells the others. */
export async function rolloutsChanged(engine: DispatchContext): Promise<void> {
  broadcastChange(engine, POOLS_CHANGED);
  try {
    await refreshPools(engine);
  } catch (error) {
    // The next refresh applies it.
    engine.world.log.write("warn", "rollout_read_failed", { error: String(error) });
  }
}

export function loadRollout({ world }: Needs<"world">, id: string): Promise<Versioned<Rollout> | null> {
  return world.store.load(ROLLOUTS, rolloutRecordId(id));
}

function auditOf(
  engine: Needs<"audit">,
  rollout: Rollout,
  what: string,
  facts: { readonly forced?: boolean } = {},
): Put {
  const { id, subject, treatment, control, shares, stage, state, by, reason } = rollout;
  const share = shares[stage] ?? 0;
  return auditPut(engine, {
    org: EVERY_TENANT,
    kind: "rollout",
    who: by,
    what,
    facts: { rollout: id, subject, treatment, control, share, stage, state, reason, ...facts },
  });
}

const EVERY_TENANT = "*";
/** More than one, because a clock that was set back may start a later rollout at an earlier time. */
const IDS_READ = 20;
