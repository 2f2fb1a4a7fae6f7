import {
  AUDIT_HEADS,
  AUDIT_PAGES,
  AuditCheck,
  type AuditEntry,
  type AuditVerdict,
  emptyHead,
  PAGE_ENTRIES,
  pageId,
  pageOf,
  type SavedHead,
} from "../../core/model/audit.ts";
import {
  type AuditFilter,
  auditListOf,
  auditPagesOf,
  auditTimesOf,
  matchesAudit,
} from "../../core/model/lists/audit-lists.ts";
import type { Needs } from "../engine.ts";
import { chainAudit } from "./chain-audit.ts";

/** Reads the audit log. Pending entries are chained first, so that none is missing. */
export async function readAudit(
  engine: Needs<"world" | "commit" | "throttle">,
  org: string,
  query: { readonly limit: number; readonly before: number | null },
): Promise<{ readonly entries: readonly AuditEntry[]; readonly before: number | null }> {
  const { store } = engine.world;
  if (query.before === null) await chainAudit(engine, org);
  const count = (await store.load(AUDIT_HEADS, org))?.value.count ?? 0;
  const end = Math.min(query.before ?? count, count);
  const start = Math.max(0, end - query.limit);
  const entries: AuditEntry[] = [];
  for (let number = pageOf(Math.max(0, end - 1)); number >= pageOf(start) && end > 0; number--) {
    const page = await store.load(AUDIT_PAGES, pageId(org, number));
    const wanted = page?.value.entries.filter(({ index }) => index >= start && index < end) ?? [];
    entries.push(...wanted.toReversed());
  }
  return { entries, before: start > 0 ? start : null };
}

/** Filtered entries, from pages that have at least one each. The head must be indexed (`index-audit.ts`). */
export async function readFilteredAudit(
  engine: Needs<"world">,
  org: string,
  filter: AuditFilter & { readonly sinceMs?: number | undefined },
  query: { readonly limit: number; readonly before: number | null },
): Promise<{ readonly entries: readonly AuditEntry[]; readonly before: number | null }> {
  const { store } = engine.world;
  const { sinceMs = 0 } = filter;
  const index = auditListOf(org, filter);
  const scoreMin = sinceMs === 0 ? 0 : await firstPageSince(engine, org, sinceMs);
  const entries: AuditEntry[] = [];
  for (let before = query.before ?? Number.MAX_SAFE_INTEGER; before > 0; ) {
    const scoreMax = pageOf(before - 1);
    const pages = await store.list(AUDIT_PAGES, { index, scoreMin, scoreMax, limit: PAGES_PER_CHUNK });
    for (const { value } of pages.items) {
      for (const entry of value.entries.toReversed()) {
        if (entry.index >= before || entry.at < sinceMs || !matchesAudit(entry, filter)) continue;
        if (entries.length === query.limit) return { entries, before: (entries.at(-1) as AuditEntry).index };
        entries.push(entry);
      }
    }
    if (pages.cursor === null) break;
    before = (pages.items.at(-1)?.value.number ?? 0) * PAGE_ENTRIES;
  }
  return { entries, before: null };
}

/** All entries of this time or later are on this page or later ones. */
async function firstPageSince({ world: { store } }: Needs<"world">, org: string, sinceMs: number): Promise<number> {
  const index = auditTimesOf(org);
  const { items } = await store.list(AUDIT_PAGES, { index, scoreMax: Math.max(0, sinceMs - 1), limit: 1 });
  return items[0]?.value.number ?? 0;
}

/** Verifies the chain of an org, also against a saved head. Entries written meanwhile are not an error. */
export async function checkAudit(
  engine: Needs<"world" | "commit" | "throttle">,
  org: string,
  saved: SavedHead | null = null,
): Promise<AuditVerdict & { readonly head: string }> {
  const { store } = engine.world;
  await chainAudit(engine, org);
  const head = (await store.load(AUDIT_HEADS, org))?.value ?? emptyHead(org);
  const check = new AuditCheck(org, saved);
  let cursor: string | undefined;
  do {
    const page = await store.list(AUDIT_PAGES, {
      index: auditPagesOf(org),
      limit: PAGES_READ,
      order: "oldest",
      cursor,
    });
    for (const { value } of page.items) {
      const entries = value.entries.filter(({ index }) => index < head.count);
      if (!check.page({ ...value, entries })) return { ...check.end(head), head: head.hash };
    }
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  return { ...check.end(head), head: head.hash };
}

const PAGES_READ = 20;
/** A page with many matches is enough for a page of results. */
const PAGES_PER_CHUNK = 4;
