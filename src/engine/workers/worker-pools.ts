import { isKillId, type Kill, killOf, POOLS, POOLS_LIST, type Pool } from "../../core/model/kill-switch.ts";
import { bareTopic, matchesTopic, parsePattern, type TopicPattern } from "../../core/policy/pattern.ts";
import type { PoolSettings } from "../../core/settings.ts";
import { put } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { broadcastChange } from "../change-broadcast.ts";
import { retryOnConflict } from "../commit.ts";
import { drainAllBacklogs, requeueAllEligible } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import type { PoolFacts } from "./worker-registry.ts";

/**
 * The pools of workers as this process knows them: what the settings say, and which are being drained; and beside them
 * the kill switches (see `kill.ts`), which keep work back likewise.
 *
 * 1. The record in the store is the truth; every process keeps a copy, made anew when it is told of a change, and every
 *    few seconds in case it was not.
 * 2. A pool that is being drained gets nothing new; what its workers have, they finish.
 * 3. What waited for a pool goes on as soon as this process knows that it takes work again, or that a switch was released.
 */
export class Pools {
  draining: ReadonlySet<string> = new Set();
  /** Those that are engaged, by their scope. */
  kills: ReadonlyMap<string, Kill> = new Map();
  #begun = 0;
  #taken = 0;
  #settings: Readonly<Record<string, PoolSettings>> = {};
  #patterns: readonly { readonly name: string; readonly topics: readonly TopicPattern[] }[] = [];
  #named = new Map<string, readonly string[]>();

  /** True when the settings are other ones than before. */
  follow(settings: Readonly<Record<string, PoolSettings>>): boolean {
    if (settings === this.#settings) return false;
    this.#settings = settings;
    this.#patterns = Object.entries(settings).map(([name, { topics }]) => ({ name, topics: topics.map(parsePattern) }));
    this.#named = new Map();
    return true;
  }

  /** The pools whose settings name the topic. */
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

  /** A read begins; what it finds is taken if none that began later was taken before. */
  begin(): number {
    this.#begun += 1;
    return this.#begun;
  }

  /** What was read before a switch was engaged must not release it. */
  take(order: number, draining: ReadonlySet<string>, kills: ReadonlyMap<string, Kill>): boolean {
    if (order <= this.#taken) return false;
    this.#taken = order;
    this.draining = draining;
    this.kills = kills;
    return true;
  }

  /** The kill switch that keeps the work of an org back; null for none. */
  killOf(org: string): Kill | null {
    return killOf(this.kills, org);
  }

  readonly factsOf = (pool: string): PoolFacts => ({
    serves: (subject) => this.namedFor(subject).includes(pool),
    capabilities: this.#settings[pool]?.requires ?? NONE,
  });
}

/** `null`: it was so already. */
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

/** Reads which pools are being drained, and which kill switches are engaged. */
export async function refreshPools(engine: DispatchContext): Promise<void> {
  const order = engine.pools.begin();
  const page = await engine.world.store.list<Pool | Kill>(POOLS, { index: POOLS_LIST, limit: POOLS_MAX });
  const draining = new Set(
    page.items.flatMap(({ id, value }) => ("isDraining" in value && value.isDraining ? [id] : [])),
  );
  const kills = new Map(
    page.items.flatMap(({ id, value }) => (isKillId(id) && "scope" in value ? [[value.scope, value]] : [])),
  );
  const { draining: drainedBefore, kills: killedBefore } = engine.pools;
  if (!engine.pools.take(order, draining, kills)) return;
  const isResumed = [...drainedBefore].some((name) => !draining.has(name));
  const isReleased = [...killedBefore.keys()].some((scope) => !kills.has(scope));
  if (isResumed || isReleased) engine.tasks.track(goOn(engine));
}

/** Nobody waits for it: what is missed here is found by the sweeper, or by the job's own time. */
async function goOn(engine: DispatchContext): Promise<void> {
  try {
    await Promise.all([drainAllBacklogs(engine), requeueAllEligible(engine)]);
  } catch (error) {
    engine.world.log.write("warn", "drain_left_to_sweeper", { error: String(error) });
  }
}

export const POOLS_CHANGED = "pools";
const NONE: readonly string[] = [];
const POOLS_MAX = 1_000;
const TOPICS_MAX = 10_000;
