import {
  AUDIT_HEADS,
  AUDIT_PAGES,
  AuditCheck,
  type AuditEntry,
  type AuditKind,
  type AuditVerdict,
  auditPagesOf,
  emptyHead,
  PAGE_ENTRIES,
  pageId,
  pageOf,
  type SavedHead,
} from "../../core/model/audit.ts";
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

/** Entries of one kind. Scans until the page is full, up to a limit. */
export async function readAuditOf(
  engine: Needs<"world" | "commit" | "throttle">,
  org: string,
  kind: AuditKind,
  query: { readonly limit: number; readonly before: number | null },
): Promise<{ readonly entries: readonly AuditEntry[]; readonly before: number | null }> {
  const entries: AuditEntry[] = [];
  let { before } = query;
  for (let looks = 0; looks < LOOKS_MAX; looks++) {
    const page = await readAudit(engine, org, { limit: PAGE_ENTRIES, before });
    entries.push(...page.entries.filter((entry) => entry.kind === kind));
    const last = entries[query.limit - 1];
    if (last) return { entries: entries.slice(0, query.limit), before: last.index > 0 ? last.index : null };
    before = page.before;
    if (before === null) break;
  }
  return { entries, before };
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
const LOOKS_MAX = 100;
