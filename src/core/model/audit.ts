import { createHash } from "node:crypto";
import { pageLists } from "./lists/audit-lists.ts";
import type { Placement, Table } from "./table.ts";

/**
 * The audit log: a hash chain per tenant.
 *
 * 1. An entry holds the hash of the previous entry; the first one holds a hash of the tenant.
 * 2. `hash` is SHA-256 in hex over the entry without it, as JSON with sorted keys and no spaces.
 * 3. Lines are written as `PendingAudit` in the commit that they describe. A sweep appends them to the chain, in order,
 *    in one commit with the head: no line is lost or duplicated.
 * 4. The head holds the count and the last hash, so truncation is detected. A writer with access to the store can
 *    forge head and chain: only a head saved elsewhere detects that (`AuditCheckpoint`).
 */
export const AUDIT_KINDS = [
  "decision",
  "approval",
  "fail_open",
  "policy",
  "key",
  "cancel",
  "dead_letter",
  "pool",
  "kill",
  "breaker",
  "workflow",
  "run",
  "schedule",
  "rollout",
] as const;
export type AuditKind = (typeof AUDIT_KINDS)[number];

export type Fact = string | number | boolean | null;

export interface AuditLine {
  readonly org: string;
  readonly kind: AuditKind;
  /** A key id, a worker id, or `cordum` for the control plane. */
  readonly who: string;
  /** A short verb, such as `allow`, `approved`, `opened`. */
  readonly what: string;
  readonly facts?: Readonly<Record<string, Fact>>;
}

export interface AuditEntry {
  /** From 0, without gaps. */
  readonly index: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly kind: AuditKind;
  readonly who: string;
  readonly what: string;
  readonly facts: Readonly<Record<string, Fact>>;
  readonly prev: string;
  readonly hash: string;
}

/** Lines not yet in their tenant's chain. */
export interface PendingAudit {
  readonly org: string;
  readonly lines: readonly StampedLine[];
}

export interface StampedLine extends Omit<AuditLine, "org"> {
  readonly at: number;
}

export interface AuditHead {
  readonly org: string;
  readonly count: number;
  readonly hash: string;
  /** The latest time of all entries. Absent until the pages of an earlier version are indexed. */
  readonly latestMs?: number;
}

export interface AuditPage {
  readonly org: string;
  readonly number: number;
  /** The latest time of the entries on earlier pages. Absent in pages of an earlier version that are not indexed. */
  readonly earlierMs?: number;
  readonly entries: readonly AuditEntry[];
}

export const AUDIT_PENDING: Table<PendingAudit> = {
  name: "audit_pending",
  placement: ({ org, lines }): Placement => ({
    lists: [{ name: pendingAuditOf(org), score: lines[0]?.at ?? 0 }],
    queue: null,
    counters: [{ group: AUDIT_PENDING_GROUP, name: org }],
    dueMs: null,
  }),
};
/** Tenants with pending lines. */
export const AUDIT_PENDING_GROUP = "audit_pending";
export const pendingAuditOf = (org: string): string => `audit_pending/${org}`;

export const AUDIT_HEADS: Table<AuditHead> = {
  name: "audit_head",
  placement: (): Placement => ({ lists: [], queue: null, counters: [], dueMs: null }),
};

export const AUDIT_PAGES: Table<AuditPage> = {
  name: "audit_page",
  placement: (page): Placement => ({
    lists: pageLists(page),
    queue: null,
    counters: [],
    dueMs: null,
  }),
};

export const pageId = (org: string, number: number): string => `${org}/${number}`;
/** Entries per page. Each batch rewrites the last page, so pages stay short. */
export const PAGE_ENTRIES = 200;
export const pageOf = (index: number): number => Math.floor(index / PAGE_ENTRIES);

export const emptyHead = (org: string): AuditHead => ({
  org,
  count: 0,
  hash: sha256(`cordum audit of ${org}`),
  latestMs: 0,
});

/** The new entries and the head after them. */
export function extend(head: AuditHead, lines: readonly StampedLine[]) {
  const entries: AuditEntry[] = [];
  let { count, hash, latestMs } = head;
  for (const { at, kind, who, what, facts = {} } of lines) {
    const body = { index: count, at, kind, who, what, facts, prev: hash };
    hash = entryHash(body);
    entries.push({ ...body, hash });
    count++;
    if (latestMs !== undefined) latestMs = Math.max(latestMs, at);
  }
  const after = { org: head.org, count, hash };
  return { entries, head: (latestMs === undefined ? after : { ...after, latestMs }) satisfies AuditHead };
}

/** Groups entries into pages; the first may extend the existing last page. `before` is the head before the entries. */
export function pagesOf(
  before: AuditHead,
  last: AuditPage | null,
  entries: readonly AuditEntry[],
): readonly AuditPage[] {
  const pages: { org: string; number: number; earlierMs?: number; entries: AuditEntry[] }[] = [];
  let { latestMs } = before;
  for (const entry of entries) {
    const number = pageOf(entry.index);
    const known = pages.at(-1);
    if (known?.number === number) known.entries.push(entry);
    else if (number === last?.number) pages.push({ ...last, entries: [...last.entries, entry] });
    else {
      const page = { org: before.org, number, entries: [entry] };
      pages.push(latestMs === undefined ? page : { ...page, earlierMs: latestMs });
    }
    if (latestMs !== undefined) latestMs = Math.max(latestMs, entry.at);
  }
  return pages;
}

export function entryHash(entry: Omit<AuditEntry, "hash">): string {
  const { at, facts, index, kind, prev, what, who } = entry;
  const sorted = Object.fromEntries(Object.entries(facts).sort(([a], [b]) => (a < b ? -1 : 1)));
  return sha256(JSON.stringify({ at, facts: sorted, index, kind, prev, what, who }));
}

export interface AuditProblem {
  /** The first entry that differs from what was written. */
  readonly index: number;
  readonly why: string;
}

export interface AuditVerdict {
  readonly entries: number;
  readonly problem: AuditProblem | null;
}

/** A head that was saved outside of the store. */
export interface SavedHead {
  readonly head: string;
  /** Entries at that time; null if unknown. */
  readonly entries: number | null;
}

/** Verifies a chain page by page, oldest first, up to the first problem. The chain must contain the saved head. */
export class AuditCheck {
  readonly #org: string;
  readonly #saved: SavedHead | null;
  #next = 0;
  #hash: string;
  #isSavedFound = false;
  #problem: AuditProblem | null = null;

  constructor(org: string, saved: SavedHead | null = null) {
    this.#org = org;
    this.#saved = saved;
    this.#hash = emptyHead(org).hash;
    this.#findSaved();
  }

  /** True while no problem was found. */
  page(page: AuditPage): boolean {
    for (const entry of page.entries) {
      this.#problem ??= this.#look(entry);
      if (this.#problem) return false;
      this.#hash = entry.hash;
      this.#next++;
      this.#findSaved();
    }
    return true;
  }

  end(head: AuditHead | null): AuditVerdict {
    const { count, hash } = head ?? emptyHead(this.#org);
    this.#problem ??= this.#lookAtEnd(count, hash) ?? this.#lookAtSaved();
    return { entries: this.#next, problem: this.#problem };
  }

  #findSaved(): void {
    const saved = this.#saved;
    if (saved === null || this.#hash !== saved.head) return;
    if (saved.entries === null || saved.entries === this.#next) this.#isSavedFound = true;
  }

  #lookAtSaved(): AuditProblem | null {
    if (this.#saved === null || this.#isSavedFound) return null;
    const { entries } = this.#saved;
    const index = this.#next;
    if (entries === null) {
      return { index, why: "entries removed or rewritten: no entry has the saved hash" };
    }
    if (index < entries) return { index, why: `entries removed: ${entries} entries were saved, ${index} are left` };
    return {
      index: Math.max(0, entries - 1),
      why: "log rewritten: this entry or an earlier one differs from the saved one",
    };
  }

  #look(entry: AuditEntry): AuditProblem | null {
    const index = this.#next;
    if (entry.index !== index) {
      const why = entry.index > index ? "entry removed" : "entry inserted or reordered";
      return { index, why: `${why}: found entry ${entry.index} in its place` };
    }
    if (entryHash(entry) !== entry.hash) return { index, why: "entry changed: its hash does not match" };
    if (entry.prev === this.#hash) return null;
    if (index === 0) return { index, why: "not the first entry of this tenant's chain" };
    return { index: index - 1, why: "entry and hash changed: the next entry does not link to it" };
  }

  #lookAtEnd(count: number, hash: string): AuditProblem | null {
    if (this.#next < count) return { index: this.#next, why: `entry removed: ${count} entries expected` };
    if (this.#next > count) return { index: count, why: `entry inserted: ${count} entries expected` };
    if (this.#hash === hash) return null;
    return { index: Math.max(0, count - 1), why: "entry and hash changed: the head has a different hash" };
  }
}

export function verifyAudit(pages: Iterable<AuditPage>, head: AuditHead): AuditVerdict {
  const check = new AuditCheck(head.org);
  for (const page of pages) if (!check.page(page)) break;
  return check.end(head);
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/**
 * A signed statement about the state of an audit chain. Kept outside of the store, it proves that later entries were appended to
 * the chain as it was: `entries` entries, the last of which has the hash `head`.
 */
export interface CheckpointStatement extends SavedHead {
  readonly format: typeof CHECKPOINT_FORMAT;
  /** `*` for the system chain. */
  readonly tenant: string;
  readonly entries: number;
  /** ISO 8601. */
  readonly at: string;
}

export interface AuditCheckpoint extends CheckpointStatement {
  /** Ed25519 over `checkpointText`, base64. */
  readonly signature: string;
  /** The public key of the signer (PEM). It proves nothing by itself: compare it with a copy. */
  readonly public_key: string;
}

export const CHECKPOINT_FORMAT = "cordum-audit-checkpoint/1";

/** The signed bytes: JSON with sorted keys and no spaces. */
export function checkpointText({ at, entries, format, head, tenant }: CheckpointStatement): string {
  return JSON.stringify({ at, entries, format, head, tenant });
}

/** `null` if the document is not a checkpoint of a known format. */
export function readCheckpoint(document: unknown): AuditCheckpoint | null {
  if (typeof document !== "object" || document === null) return null;
  const { format, tenant, entries, head, at, signature, public_key } = document as Record<string, unknown>;
  const texts = [tenant, head, at, signature, public_key];
  if (format !== CHECKPOINT_FORMAT || texts.some((text) => typeof text !== "string")) return null;
  return Number.isSafeInteger(entries) ? (document as AuditCheckpoint) : null;
}
