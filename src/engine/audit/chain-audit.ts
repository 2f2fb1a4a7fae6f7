import {
  AUDIT_HEADS,
  AUDIT_PAGES,
  AUDIT_PENDING,
  AUDIT_PENDING_GROUP,
  type AuditHead,
  type AuditPage,
  emptyHead,
  extend,
  type PendingAudit,
  pageId,
  pageOf,
  pagesOf,
  pendingAuditOf,
} from "../../core/model/audit.ts";
import { put, type Versioned } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";
import { awaitTurn } from "../fairness-throttle.ts";
import { writeAudit } from "./audit-log.ts";

// Moves audit entries into the hash chain of their org (`core/model/audit.ts`). Any process may run it; commits are
// exclusive by version.

type ChainContext = Needs<"world" | "commit" | "audit" | "throttle">;

/**
 * Chains the pending entries of all orgs in passes of bounded work. Entries that arrive meanwhile are left to the next
 * pass, so a pass ends at any load. The orgs take turns.
 */
export class AuditChainer {
  readonly #engine: ChainContext;
  /** Orgs of earlier passes that have had their turn. */
  readonly #served = new Set<string>();

  constructor(engine: ChainContext) {
    this.#engine = engine;
  }

  /** Null when nothing is left, otherwise the age of the oldest entry left in milliseconds. */
  async pass(): Promise<number | null> {
    const engine = this.#engine;
    await writeAudit(engine, engine.audit.takeFailed());
    const waiting = await engine.world.store.counts(AUDIT_PENDING_GROUP, ORGS_MAX);
    const isNext = (org: string) => !this.#served.has(org);
    if (![...waiting.keys()].some(isNext)) this.#served.clear();
    const orgs = [...waiting.keys()].filter(isNext).slice(0, ORGS_PER_PASS);
    for (const org of orgs) this.#served.add(org);
    const passes = await Promise.all(orgs.map((org) => chainSome(engine, org, RECORDS_PER_PASS)));
    const nowMs = engine.world.clock.now();
    const left = passes.flatMap(({ leftMs }) => (leftMs === null ? [] : [Math.max(0, nowMs - leftMs)]));
    if (left.length > 0) return Math.max(...left);
    return waiting.size > orgs.length ? 0 : null;
  }
}

/** Chains all pending entries of all orgs. */
export async function chainAll(engine: ChainContext): Promise<void> {
  const chainer = new AuditChainer(engine);
  while ((await chainer.pass()) !== null);
}

/** Chains the entries of one org that are pending, as far as a reader waits for; returns their number. */
export async function chainAudit(engine: Needs<"world" | "commit" | "throttle">, org: string): Promise<number> {
  return (await chainSome(engine, org, RECORDS_PER_READ)).moved;
}

interface Chained {
  readonly moved: number;
  /** Time of the last entry that was chained if more are pending, otherwise null. */
  readonly leftMs: number | null;
}

/**
 * Moves pending records of one org in bounded portions. Many portions per list call, because a list costs more than a
 * portion.
 */
async function chainSome(
  engine: Needs<"world" | "commit" | "throttle">,
  org: string,
  recordsMax: number,
): Promise<Chained> {
  const { clock, store } = engine.world;
  const query = { index: pendingAuditOf(org), order: "oldest" } as const;
  let [moved, records] = [0, 0];
  let end: ChainEnd | null = null;
  for (let limit = RECORDS_MAX; ; ) {
    const { items, cursor } = await store.list(AUDIT_PENDING, { ...query, limit });
    for (const portion of portionsOf(items)) {
      await awaitTurn(engine, CHAINING);
      const fromMs = clock.now();
      end = await chain(engine, org, portion, end);
      engine.throttle.charge(CHAINING, Number.POSITIVE_INFINITY, clock.now() - fromMs, clock.now());
      if (end === null) return { moved, leftMs: null }; // Another process works on this chain.
      moved += linesOf(portion);
    }
    records += items.length;
    if (cursor === null) return { moved, leftMs: null };
    if (records >= recordsMax) return { moved, leftMs: items.at(-1)?.value.lines.at(-1)?.at ?? clock.now() };
    // Bounds the number of records by the entries that one portion may have.
    limit = linesOf(items) <= CHAINED_MAX ? Math.min(2 * limit, LISTED_MAX) : RECORDS_MAX;
  }
}

/** Splits records into commits of bounded size, in order. */
function* portionsOf(items: readonly Versioned<PendingAudit>[]): Generator<readonly Versioned<PendingAudit>[]> {
  let [from, lines] = [0, 0];
  for (const [at, { value }] of items.entries()) {
    lines += value.lines.length;
    if (at === from || (at - from < RECORDS_MAX && lines <= CHAINED_MAX)) continue;
    yield items.slice(from, at);
    [from, lines] = [at, value.lines.length];
  }
  if (from < items.length) yield items.slice(from);
}

const linesOf = (items: readonly Versioned<PendingAudit>[]): number =>
  items.reduce((sum, { value }) => sum + value.lines.length, 0);

/** The end of the chain that the next portion extends. */
interface ChainEnd {
  readonly head: Versioned<AuditHead> | null;
  readonly page: Versioned<AuditPage> | null;
}

/** One commit of head, pages and moved records. Returns the new end, or null if another process was first. */
async function chain(
  engine: Needs<"world" | "commit">,
  org: string,
  items: readonly Versioned<PendingAudit>[],
  known: ChainEnd | null,
): Promise<ChainEnd | null> {
  const { head, page: last } = known ?? (await chainEnd(engine, org));
  const before = head?.value ?? emptyHead(org);
  const { entries, head: after } = extend(
    before,
    items.flatMap(({ value }) => value.lines),
  );
  const pages = pagesOf(before, last?.value ?? null, entries);
  const pagePuts = pages.map((page) => put<AuditPage>(AUDIT_PAGES, pageId(org, page.number), sameOf(last, page), page));
  const committed = await engine.commit({
    org,
    puts: [
      put<AuditHead>(AUDIT_HEADS, org, head, after),
      ...pagePuts,
      ...items.map((item) => put(AUDIT_PENDING, item.id, item, null)),
    ],
  });
  if (committed.kind !== "committed") return null;
  const page = pages.at(-1) ?? null;
  return {
    head: written(org, head, after),
    page: page && written(pageId(org, page.number), sameOf(last, page), page),
  };
}

async function chainEnd({ world: { store } }: Needs<"world">, org: string): Promise<ChainEnd> {
  const head = await store.load(AUDIT_HEADS, org);
  return { head, page: await store.load(AUDIT_PAGES, pageId(org, pageOf(head?.value.count ?? 0))) };
}

function sameOf(last: Versioned<AuditPage> | null, page: AuditPage): Versioned<AuditPage> | null {
  return last?.value.number === page.number ? last : null;
}

function written<T>(id: string, before: Versioned<T> | null, value: T): Versioned<T> {
  return { id, version: (before?.version ?? 0) + 1, value };
}

/** Chaining yields to all other work (`fairness-throttle.ts`). */
const CHAINING = "audit";
const ORGS_MAX = 10_000;
const ORGS_PER_PASS = 64;
/** Per org and pass. */
const RECORDS_PER_PASS = 500;
const RECORDS_PER_READ = 20_000;
/** Records per list call. */
const LISTED_MAX = 192;
/** Records and entries per commit; small, so that other commits are not delayed. */
const RECORDS_MAX = 24;
const CHAINED_MAX = 1_000;
