import { fairShare, type Turn } from "../../core/jobs/fair-share.ts";
import { JOBS, type Job, queueOf } from "../../core/model/job.ts";
import { put, type Versioned } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";
import type { DispatchBlock } from "./select-target.ts";

/**
 * Picks jobs out of a topic's backlog for somebody who cannot have all of them.
 *
 * 1. In turn between the orgs that wait, by their weights. A job is taken under a short lease: two processes do not work
 *    on the same head, and a dead one loses nothing.
 * 2. Where nothing is held, it is one take for each org. A job that is held does not stand in the way of those behind
 *    it: they are looked at too, a bounded number of them, while the held ones are out of sight; then these are shown to
 *    everybody again.
 * 3. Never throws after a job was taken: what was picked is used whatever failed beside it.
 */
export interface Selection {
  readonly fit: readonly Versioned<Job>[];
  /** How many left the backlog, to wait on their own. */
  readonly asideCount: number;
  readonly failure: unknown;
}

/** At most `room`, and of each org at most as many as it is `allowed`. */
export async function selectNext(
  engine: Needs<"world" | "settings" | "commit" | "jobCache">,
  topic: string,
  allowed: ReadonlyMap<string, number>,
  room: number,
  holdingOf: (job: Job) => DispatchBlock | null,
): Promise<Selection> {
  const turn = engine.jobCache.turnOf(topic) ?? { org: anyOf(allowed, engine), taken: 0 };
  const first = await take(engine, topic, allowed, room, turn);
  engine.jobCache.setTurn(topic, first.turn);
  const sorted = new Sorted(room, allowed, holdingOf);
  sorted.add(first.taken);
  if (sorted.fit.length === first.taken.length) return { fit: sorted.fit, asideCount: 0, failure: first.failure };
  const failure = first.failure ?? (await lookFurther(engine, topic, first, sorted));
  const notPutAway = await putAway(engine, topic, sorted);
  return { fit: sorted.fit, asideCount: sorted.aside.length, failure: failure ?? notPutAway };
}

async function lookFurther(
  engine: Needs<"world" | "settings" | "jobCache">,
  topic: string,
  first: Take,
  sorted: Sorted,
): Promise<unknown> {
  // Any number of an org's jobs is looked at: what is held does not count towards what it may have.
  const open = new Map([...sorted.allowed.keys()].map((org) => [org, PASSED_MAX]));
  let { turn, ended } = first;
  for (let look = 0; look < LOOKS_MAX; look++) {
    for (const org of ended) open.delete(org);
    for (const org of open.keys()) if (sorted.isFull(org)) open.delete(org);
    if (open.size === 0 || sorted.passed.length >= PASSED_MAX) break;
    const next = await take(engine, topic, open, Math.max(LOOK_MIN, sorted.room - sorted.fit.length), turn);
    ({ turn, ended } = next);
    const last = sorted.add(next.taken);
    // The next turn comes after who got a place, not after who was only looked at: else always the same would get it.
    if (last !== null) engine.jobCache.setTurn(topic, { org: last, taken: sorted.usedBy(last) });
    if (next.failure !== null) return next.failure;
  }
  return null;
}

/** Held ones go where they belong, and what was only looked at back to its place. */
async function putAway(engine: Needs<"world" | "commit">, topic: string, { aside, passed }: Sorted): Promise<unknown> {
  const ofOrg = new Map<string, string[]>();
  for (const { id, value } of passed) {
    const ids = ofOrg.get(value.org);
    if (ids) ids.push(id);
    else ofOrg.set(value.org, [id]);
  }
  const results = await Promise.allSettled([
    ...[...ofOrg].map(([org, ids]) => engine.world.store.untake(JOBS, queueOf(topic, org), ids)),
    ...aside.map(([taken, job]) => engine.commit({ org: job.org, puts: [put(JOBS, taken.id, taken, job)] })),
  ]);
  const failed = results.find((result) => result.status === "rejected");
  return failed ? failed.reason : null;
}

interface Take {
  readonly taken: readonly Versioned<Job>[];
  /** Orgs that have no more to take. */
  readonly ended: readonly string[];
  readonly turn: Turn;
  readonly failure: unknown;
}

async function take(
  engine: Needs<"world" | "settings">,
  topic: string,
  waiting: ReadonlyMap<string, number>,
  room: number,
  before: Turn,
): Promise<Take> {
  const { orgs } = engine.settings.current;
  const { shares, turn } = fairShare(waiting, room, before, (org) => orgs[org]?.weight ?? 1);
  const nowMs = engine.world.clock.now();
  const asked = [...shares];
  const takes = await Promise.allSettled(
    asked.map(([org, limit]) =>
      engine.world.store.take(JOBS, { queue: queueOf(topic, org), limit, nowMs, leaseMs: TAKE_LEASE_MS }),
    ),
  );
  // What was taken is used even if another org's take failed: it would be hidden until its lease ends.
  const taken = takes.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  const failed = takes.find((one) => one.status === "rejected");
  const ended = asked.flatMap(([org, limit], at) => {
    const one = takes[at];
    return one?.status === "fulfilled" && one.value.length < limit ? [org] : [];
  });
  return { taken, ended, turn, failure: failed ? failed.reason : null };
}

/** A process that has just started begins anywhere: beginning at the first would favour it whenever processes restart. */
function anyOf(waiting: ReadonlyMap<string, number>, engine: Needs<"world">): string {
  return [...waiting.keys()][Math.floor(engine.world.random.next() * waiting.size)] ?? "";
}

/** What was taken, by what becomes of it. */
class Sorted {
  readonly fit: Versioned<Job>[] = [];
  readonly aside: (readonly [Versioned<Job>, Job])[] = [];
  readonly passed: Versioned<Job>[] = [];
  readonly room: number;
  readonly allowed: ReadonlyMap<string, number>;
  readonly #used = new Map<string, number>();
  readonly #holdingOf: (job: Job) => DispatchBlock | null;

  constructor(room: number, allowed: ReadonlyMap<string, number>, holdingOf: (job: Job) => DispatchBlock | null) {
    this.room = room;
    this.allowed = allowed;
    this.#holdingOf = holdingOf;
  }

  /** The org of the last one that got a place. */
  add(taken: readonly Versioned<Job>[]): string | null {
    let last: string | null = null;
    for (const job of taken) {
      const { org } = job.value;
      const holding = this.isFull(org) ? STAYS : this.#holdingOf(job.value);
      if (holding?.kind === "stays") this.passed.push(job);
      else if (holding?.kind === "waits") this.aside.push([job, holding.job]);
      else {
        this.fit.push(job);
        this.#used.set(org, this.usedBy(org) + 1);
        last = org;
      }
    }
    return last;
  }

  isFull(org: string): boolean {
    return this.fit.length >= this.room || this.usedBy(org) >= (this.allowed.get(org) ?? 0);
  }

  usedBy(org: string): number {
    return this.#used.get(org) ?? 0;
  }
}

const STAYS = { kind: "stays" } as const;
/** How many are looked at in a step beyond the first; and about how many in all, of those that are held. */
const LOOK_MIN = 32;
const LOOKS_MAX = 16;
const PASSED_MAX = 256;
/** Long enough for a commit, short enough that a job taken by a process that died is soon taken again. */
const TAKE_LEASE_MS = 5_000;
