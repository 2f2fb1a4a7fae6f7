import type { AuditEntry, AuditKind, AuditPage } from "../audit.ts";
import type { Entry } from "../table.ts";
import { labelPart } from "./labels.ts";

/**
 * Lists of audit pages by what is on them. A page of a list has at least one entry that matches, so a reader loads no more
 * pages than it returns entries, however long the chain is.
 */
export interface AuditFilter {
  readonly actor?: string | undefined;
  readonly kind?: AuditKind | undefined;
  readonly what?: string | undefined;
  /** Entries about a job, except plain `allow` decisions: these share entries, and a list of each would cost every job. */
  readonly job?: string | undefined;
}

export const auditPagesOf = (org: string): string => `audit/${org}`;
/** Pages by the latest time on earlier pages, which grows with the page number. */
export const auditTimesOf = (org: string): string => `audit/${org}/earlier`;

/** The most selective list for a filter; entries of its pages are compared with `matchesAudit`. */
export function auditListOf(org: string, { actor, kind, what, job }: AuditFilter): string {
  const base = auditPagesOf(org);
  if (job !== undefined) return `${base}/job/${labelPart("", job)}`;
  if (what !== undefined) return `${base}/what/${labelPart(actor ?? "", what)}`;
  if (kind !== undefined) return `${base}/kind/${labelPart(actor ?? "", kind)}`;
  return actor === undefined ? base : `${base}/who/${labelPart("", actor)}`;
}

export function matchesAudit(entry: AuditEntry, { actor, kind, what, job }: AuditFilter): boolean {
  return (
    (actor === undefined || entry.who === actor) &&
    (kind === undefined || entry.kind === kind) &&
    (what === undefined || entry.what === what) &&
    (job === undefined || jobOf(entry) === job)
  );
}

function jobOf({ kind, what, facts }: AuditEntry): string | null {
  if (kind === "decision" && what === "allow") return null;
  return typeof facts.job === "string" ? facts.job : null;
}

export function pageLists({ org, number, earlierMs, entries }: AuditPage): readonly Entry[] {
  const pages = { name: auditPagesOf(org), score: number };
  if (earlierMs === undefined) return [pages];
  const names = new Set<string>();
  for (const entry of entries) {
    const { who: actor, kind, what } = entry;
    const job = jobOf(entry);
    for (const filter of [{ actor }, { kind }, { what }, { actor, kind }, { actor, what }]) {
      names.add(auditListOf(org, filter));
    }
    if (job !== null) names.add(auditListOf(org, { job }));
  }
  return [pages, { name: auditTimesOf(org), score: earlierMs }, ...[...names].map((name) => ({ name, score: number }))];
}
