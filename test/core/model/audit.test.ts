import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type AuditEntry,
  type AuditHead,
  type AuditPage,
  emptyHead,
  entryHash,
  extend,
  PAGE_ENTRIES,
  pagesOf,
  type StampedLine,
  verifyAudit,
} from "../../../src/core/model/audit.ts";

interface Chain {
  readonly entries: readonly AuditEntry[];
  readonly head: AuditHead;
}

const lines = (count: number): StampedLine[] =>
  Array.from({ length: count }, (_, at) => ({
    at: 1_000 + at,
    kind: "decision",
    who: "k1",
    what: at % 3 ? "allow" : "deny",
    facts: { job: `j${at}`, rule: null, size: at },
  }));

const chainOf = (count: number): Chain => extend(emptyHead("acme"), lines(count));
const pages = (entries: readonly AuditEntry[]): readonly AuditPage[] => {
  const all: AuditPage[] = [];
  for (let at = 0; at < entries.length; at += PAGE_ENTRIES) {
    all.push({ org: "acme", number: at / PAGE_ENTRIES, entries: entries.slice(at, at + PAGE_ENTRIES) });
  }
  return all;
};
const check = ({ entries, head }: Chain) => verifyAudit(pages(entries), head);
const rehashed = (entry: AuditEntry): AuditEntry => ({ ...entry, hash: entryHash(entry) });

test("verifies an unchanged chain, in any number of batches", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 90 }), { maxLength: 12 }), (batches) => {
      let head = emptyHead("acme");
      let last: AuditPage | null = null;
      const stored = new Map<number, AuditPage>();
      for (const size of batches) {
        const next = extend(head, lines(size));
        for (const page of pagesOf(head, last, next.entries)) {
          stored.set(page.number, page);
          last = page;
        }
        head = next.head;
      }
      const count = batches.reduce((sum, size) => sum + size, 0);
      expect(verifyAudit(stored.values(), head)).toEqual({ entries: count, problem: null });
      for (const page of stored.values()) expect(page.entries.length).toBeLessThanOrEqual(PAGE_ENTRIES);
    }),
    { numRuns: 50 },
  );
});

test("reports the entry of any single change", () => {
  const changes: ((entry: AuditEntry) => AuditEntry)[] = [
    (entry) => ({ ...entry, who: "k2" }),
    (entry) => ({ ...entry, what: "allow!" }),
    (entry) => ({ ...entry, at: entry.at + 1 }),
    (entry) => ({ ...entry, kind: "policy" }),
    (entry) => ({ ...entry, facts: { ...entry.facts, job: "other" } }),
    (entry) => ({ ...entry, facts: { ...entry.facts, more: 1 } }),
    (entry) => rehashed({ ...entry, who: "k2" }),
  ];
  const { entries, head } = chainOf(450);
  const change = fc.tuple(fc.nat({ max: 449 }), fc.constantFrom(...changes));
  fc.assert(
    fc.property(change, ([at, edit]) => {
      const edited = entries.map((entry, index) => (index === at ? edit(entry) : entry));
      expect(check({ entries: edited, head }).problem?.index).toBe(at);
    }),
    { numRuns: 60 },
  );
});

test("reports a removed, duplicated or moved entry", () => {
  const { entries, head } = chainOf(450);
  fc.assert(
    fc.property(fc.nat({ max: 448 }), (at) => {
      expect(check({ entries: entries.toSpliced(at, 1), head }).problem?.index).toBe(at);
      expect(check({ entries: entries.toSpliced(at, 0, entries[at]!), head }).problem?.index).toBe(at + 1);
      const swapped = entries.with(at, entries[at + 1]!).with(at + 1, entries[at]!);
      expect(check({ entries: swapped, head }).problem?.index).toBe(at);
      expect(check({ entries: entries.slice(0, at), head }).problem).toMatchObject({ index: at });
    }),
    { numRuns: 60 },
  );
});

test("renumbering does not hide a removed entry", () => {
  const { entries, head } = chainOf(20);
  const renumbered = entries.toSpliced(7, 1).map((entry, index) => rehashed({ ...entry, index }));
  expect(check({ entries: renumbered, head }).problem).not.toBeNull();
});

test("rejects the chain of another tenant", () => {
  const { entries, head } = extend(emptyHead("evil"), lines(5));
  expect(verifyAudit(pages(entries), { ...head, org: "acme" }).problem?.index).toBe(0);
});

test("accepts an empty chain and rejects a head with a wrong count", () => {
  expect(verifyAudit([], emptyHead("acme"))).toEqual({ entries: 0, problem: null });
  const { entries, head } = chainOf(3);
  expect(verifyAudit([], head).problem?.index).toBe(0);
  expect(check({ entries, head: { ...head, count: 2 } }).problem?.index).toBe(2);
  expect(check({ entries, head: { ...head, hash: "0" } }).problem?.index).toBe(2);
});

test("the hash covers JSON with sorted keys", () => {
  const entry = { index: 0, at: 5, kind: "key", who: "w", what: "x", facts: { b: 1, a: null }, prev: "p" } as const;
  // printf '%s' '{"at":5,"facts":{"a":null,"b":1},"index":0,"kind":"key","prev":"p","what":"x","who":"w"}' | sha256sum
  expect(entryHash(entry)).toBe("5f99ae427e5b12a0f0ebcd31a9f3270b2921e80a825cd18ba83472c84156bc4f");
  expect(entryHash({ ...entry, facts: { a: null, b: 1 } })).toBe(entryHash(entry));
});
