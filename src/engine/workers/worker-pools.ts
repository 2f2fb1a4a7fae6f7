import { bareTopic } from "../../core/model/canonical.ts";
import { isKillId, type Kill, killOf, POOLS, POOLS_LIST, type Pool } from "../../core/model/kill-switch.ts";
import { matchesTopic, parsePattern, type TopicPattern } from "../../core/policy/pattern.ts";
import { isRolloutRecord, type Rollout } from "../../core/rollout/rollout.ts";
import type { PoolSettings } from "../../core/settings.ts";
import { put } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { broadcastChange } from "../change-broadcast.ts";
import { retryOnConflict } from "../commit.ts";
import { drainAllBacklogs, requeueAllEligible } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import type { PoolFacts } from "./worker-registry.ts";

/**
 * Pools and kill switches as this process knows them. Rollouts are read with them (`rollouts/rollout-registry.ts`).
 *
 * 1. The records in the store are authoritative. Each process caches them, refreshed on a change broadcast and every
 *    few seconds.
 * 2. A draining pool gets no new jobs; its workers finish theirs.
 * 3. A process that has not read them since its start dispatches nothing: a kill switch may be engaged.
 * 4. Jobs that waited for a pool or a kill switch are requeued as soon as this process sees it resumed or released.
 */
export class Pools {
  draining: ReadonlySet<string> = new Set();
  /** Engaged kill switches by scope. */
  kills: ReadonlyMap<string, Kill> = new Map();
  #isUnread = false;
  #begun = 0;
  #taken = 0;
  #settings: Readonly<Record<string, PoolSettings>> = {};
  #patterns: readonly { readonly name: string; readonly topics: readonly TopicPattern[] }[] = [];
  #named = new Map<string, readonly string[]>();

  /** True if the settings changed. */
  applySettings(settings: Readonly<Record<string, PoolSettings>>): boolean {
    if (settings === this.#settings) return false;
    this.#settings = settings;
    this.#patterns = Object.entries(settings).map(([name, { topics }]) => ({ name, topics: topics.map(parsePattern) }));
    this.#named = new Map();
    return true;
  }

  /** Pools whose settings match the topic. */
  namedFor(topic: string): readonly string[] {
    if (this.#patterns.length === 0) return NONE;
    const known = this.#named.get(topic);
    if (known) return known;
    const tokens = bareTopic(topic).split(".");
    const named = this.#patterns
      .filter(({ topics }) => topics.some((pattern) => matchesTopic(pattern, tokens)))
      .map(({ name }) => name);
    if (this.#named.size >= TOPICS_MAX) this.#named.clear();
    this.#named.set(topic, named);
    return named;
  }

  /** Blocks dispatch until the first read. */
  awaitRead(): void {
    this.#isUnread = this.#taken === 0;
  }

  get isUnread(): boolean {
    return this.#isUnread;
  }

  /** Starts a read. Its result is discarded if a later read finished first. */
  begin(): number {
    this.#begun += 1;
    return this.#begun;
  }

  /** A read that began before a kill switch was engaged must not release it. */
  apply(order: number, draining: ReadonlySet<string>, kills: ReadonlyMap<string, Kill>): boolean {
    if (order <= this.#taken) return false;
    this.#taken = order;
    this.#isUnread = false;
    this.draining = draining;
    this.kills = kills;
    return true;
  }

  /** The kill switch that blocks the org; null if none. */
  killOf(org: string): Kill | null {
    return killOf(this.kills, org);
  }

  /** Whether jobs of the org must stay in the backlog. */
  isBlocked(org: string): boolean {
    return this.#isUnread || this.killOf(org) !== null;
  }

  readonly factsOf = (pool: string): PoolFacts => ({
    serves: (subject) => this.namedFor(subject).includes(pool),
    capabilities: this.#settings[pool]?.requires ?? NONE,
  });
}

/** Null if nothing changed. */
export async function setDraining(
  engine: DispatchContext & Needs<"audit">,
  name: string,
  isDraining: boolean,
  by: string,
): Promise<Pool | null> {
  const { store, clock } = engine.world;
  const pool = await retryOnConflict(`pool \`${name}\``, async () => {
    const found = await store.load(POOLS, name);
    if ((found?.value.isDraining ?? false) === isDraining) return null;
    const atMs = clock.now();
    const pool: Pool = { name, createdMs: found?.value.createdMs ?? atMs, isDraining, by, atMs };
    const what = isDraining ? "drained" : "resumed";
    const line = { org: "*", kind: "pool", who: by, what, facts: { pool: name } } as const;
    const committed = await engine.commit({ org: "", puts: [put(POOLS, name, found, pool), auditPut(engine, line)] });
    return committed.kind === "committed" ? pool : "stale";
  });
  await refreshPools(engine);
  broadcastChange(engine, POOLS_CHANGED);
  return pool;
}

/** Loads draining pools, engaged kill switches and rollouts in force. */
export async function refreshPools(engine: DispatchContext): Promise<void> {
  const order = engine.pools.begin();
  const { rollouts } = engine;
  const readMs = rollouts.isEmpty ? null : engine.world.clock.now();
  const page = await engine.world.store.list<Pool | Kill | Rollout>(POOLS, { index: POOLS_LIST, limit: POOLS_MAX });
  const draining = new Set(
    page.items.flatMap(({ id, value }) => ("isDraining" in value && value.isDraining ? [id] : [])),
  );
  const kills = new Map(
    page.items.flatMap(({ id, value }) => (isKillId(id) && "scope" in value ? [[value.scope, value]] : [])),
  );
  const { draining: drainedBefore, kills: killedBefore, isUnread: wasUnread } = engine.pools;
  if (!engine.pools.apply(order, draining, kills)) return;
  rollouts.apply(
    page.items.flatMap(({ id, value }) => (isRolloutRecord(id) && "treatment" in value ? [value] : [])),
    readMs,
  );
  const isResumed = [...drainedBefore].some((name) => !draining.has(name));
  const isReleased = [...killedBefore.keys()].some((scope) => !kills.has(scope));
  if (isResumed || isReleased || wasUnread) engine.tasks.track(requeueAll(engine));
  // The age of a copy is known only if the time was taken before the read.
  if (readMs === null && !rollouts.isEmpty) await refreshPools(engine);
}

/** Best effort: the sweeper and the jobs' due times repair what is missed. */
async function requeueAll(engine: DispatchContext): Promise<void> {
  try {
    await Promise.all([drainAllBacklogs(engine), requeueAllEligible(engine)]);
  } catch (error) {
    engine.world.log.write("warn", "backlog_drain_failed", { error: String(error) });
  }
}

export const POOLS_CHANGED = "pools";
const NONE: readonly string[] = [];
const POOLS_MAX = 1_000;
const TOPICS_MAX = 10_000;
