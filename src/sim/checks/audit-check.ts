import { AUDIT_HEADS, AUDIT_PAGES, AUDIT_PENDING, AUDIT_PENDING_GROUP, verifyAudit } from "../../core/model/audit.ts";
import type { MemoryStore } from "../adapters/memory-store.ts";
import { withPuts, withStore } from "../mutants/decorators.ts";
import type { Mutant } from "../mutants/mutants.ts";
import type { Violations } from "./violations.ts";

/** When everything has come to rest: every line has its place, and every chain is as it was written. */
export function checkAuditLogs(store: MemoryStore, violations: Violations): void {
  for (const { id } of store.rows(AUDIT_PENDING)) violations.add("audit", id, "it never got a place in its chain");
  const pages = [...store.rows(AUDIT_PAGES)].map(({ value }) => value).sort((a, b) => a.number - b.number);
  for (const { id, value: head } of store.rows(AUDIT_HEADS)) {
    const { problem } = verifyAudit(
      pages.filter(({ org }) => org === id),
      head,
    );
    if (problem) violations.add("audit", id, `entry ${problem.index}: ${problem.why}`);
  }
}

export const hasPendingAudit = (store: MemoryStore): boolean => !store.rows(AUDIT_PENDING).next().done;

export const AUDIT_MUTANTS: readonly Mutant[] = [
  {
    name: "no-audit-sweep",
    about: "nobody moves audit lines into their chain",
    caughtBy: ["audit"],
    world: withStore((store) => ({
      counts: async (group, limit) => (group === AUDIT_PENDING_GROUP ? new Map() : store.counts(group, limit)),
    })),
  },
  {
    name: "audit-line-changed",
    about: "an audit line is written with another time than was hashed",
    caughtBy: ["audit"],
    world: withPuts((put) => {
      if (put.table !== AUDIT_PAGES.name || put.value === null) return put;
      const page = put.value as { readonly entries: readonly { readonly at: number }[] };
      return { ...put, value: { ...page, entries: page.entries.map((entry) => ({ ...entry, at: entry.at + 1 })) } };
    }),
  },
];
