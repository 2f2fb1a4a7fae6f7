import { fairShare, type Turn } from "../../core/jobs/fair-share.ts";
import { JOBS, type Job, queueOf } from "../../core/model/job.ts";
import { put, type Versioned } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";
import type { DispatchBlock } from "./select-target.ts";

/**
 * Selects the next jobs of a topic's backlog.
 *
 * 1. Orgs take turns by weight. A job is claimed under a short lease: two processes do not work on the same head, and
 *    the claims of a dead process expire.
 * 2. Without blocked jobs this is one claim per org. Blocked jobs do not hold up the jobs behind them: a bounded number
 *    of further jobs is claimed, then the blocked ones are released.
 * 3. After a claim nothing throws: selected jobs are used whatever else failed.
 */
export interface Selection {
  readonly fit: readonly Versioned<Job>[];
  /** Jobs that left the backlog to wait on their own record. */
  readonly asideCount: number;
  readonly failure: unknown;
}

/** At most `room` jobs in total and `allowed` jobs per org. */
export async function selectNext(
  engine: Needs<"world" | "settings" | "commit" | "jobCache">,
  topic: string,
  allowed: ReadonlyMap<string, number>,
  room: number,
  holdingOf: (job: Job) => DispatchBlock | null,
): Promise<Selection> {
  const turn = engine.jobCache.turnOf(topic) ?? { org: randomOrg(allowed, engine), taken: 0 };
  const first = await take(engine, topic, allowed, room, turn);
  engine.jobCache.setTurn(topic, first.turn);
  const sorted = new Sorted(room, allowed, holdingOf);
  sorted.add(first.taken);
  if (sorted.fit.length === first.taken.length) return { fit: sorted.fit, asideCount: 0, failure: first.failure };
  const failure = first.failure ?? (await claimMore(engine, topic, first, sorted));
  const notPutAway = await releaseBlocked(engine, topic, sorted);
  return { fit: sorted.fit, asideCount: sorted.aside.length, failure: failure ?? notPutAway };
}

async function claimMore(
  engine: Needs<"world" | "settings" | "jobCache">,
  topic: string,
  first: Take,
  sorted: Sorted,
): Promise<unknown> {
  // Blocked jobs do not count towards the limit of their org.
  const open = new Map([...sorted.allowed.keys()].map((org) => [org, PASSED_MAX]));
  let { turn, ended } = first;
  for (let look = 0; look < LOOKS_MAX; look++) {
    for (const org of ended) open.delete(org);
    for (const org of open.keys()) if (sorted.isFull(org)) open.delete(org);
    if (open.size === 0 || sorted.passed.length >= PASSED_MAX) break;
    const next = await take(engine, topic, open, Math.max(LOOK_MIN, sorted.room - sorted.fit.length), turn);
    ({ turn, ended } = next);
    const last = sorted.add(next.taken);
    // The turn moves to the org of the last selected job, not of the last claimed one; otherwise the same org would
    // always be next.
    if (last !== null) engine.jobCache.setTurn(topic, { org: last, taken: sorted.usedBy(last) });
    if (next.failure !== null) return next.failure;
  }
  return null;
}

/** Moves jobs aside that wait on their own record, and releases the claims of the others. */
async function releaseBlocked(
  engine: Needs<"world" | "commit">,
  topic: string,
  { aside, passed }: Sorted,
): Promise<unknown> {
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
  /** Orgs without further jobs. */
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
  // Claims are used even if the claim of another org failed: their jobs would be hidden until the lease ends.
  const taken = takes.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  const failed = takes.find((one) => one.status === "rejected");
  const ended = asked.flatMap(([org, limit], at) => {
    const one = takes[at];
    return one?.status === "fulfilled" && one.value.length < limit ? [org] : [];
  });
  return { taken, ended, turn, failure: failed ? failed.reason : null };
}

/** A new process starts at a random org, so that restarts favour none. */
function randomOrg(waiting: ReadonlyMap<string, number>, engine: Needs<"world">): string {
  return [...waiting.keys()][Math.floor(engine.world.random.next() * waiting.size)] ?? "";
}

/** Claimed jobs by what happens to them. */
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

  /** The org of the last selected job. */
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
/** Jobs claimed per further step, and blocked jobs passed over in all. */
const LOOK_MIN = 32;
const LOOKS_MAX = 16;
const PASSED_MAX = 256;
/** Longer than a commit takes; short, because the claims of a dead process last that long. */
const TAKE_LEASE_MS = 5_000;
