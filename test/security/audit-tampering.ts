import { expect, test } from "vitest";
import {
  AUDIT_HEADS,
  AUDIT_PAGES,
  type AuditEntry,
  emptyHead,
  extend,
  pageId,
  pagesOf,
  type StampedLine,
} from "../../src/core/model/audit.ts";
import { auditPagesOf } from "../../src/core/model/lists/audit-lists.ts";
import { put, type Store } from "../../src/ports/store.ts";

/** A control plane whose store can be changed behind its back. */
export interface Subject {
  readonly store: Store;
  // biome-ignore lint/suspicious/noExplicitAny: a response of any route
  get(path: string): Promise<{ readonly status: number; readonly body: any }>;
  /** Writes that many audit entries of the tenant `default`. */
  write(count: number): Promise<void>;
}

/**
 * Attacks by a writer with full access to the store: each leaves a chain and a head that fit together. Only a head or
 * checkpoint saved before can detect them.
 */
const ATTACKS: Readonly<Record<string, (store: Store, entries: readonly AuditEntry[]) => Promise<void>>> = {
  "the last entry is removed": (store, entries) => replaceChain(store, entries.slice(0, -1)),
  "half of the entries are removed": (store, entries) => replaceChain(store, entries.slice(0, entries.length / 2)),
  "one entry is removed from the middle": (store, entries) => replaceChain(store, entries.toSpliced(70, 1)),
  "one entry is changed": (store, entries) => replaceChain(store, entries.with(70, { ...entries[70]!, who: "forged" })),
  "the first entry is changed": (store, entries) => replaceChain(store, entries.with(0, { ...entries[0]!, at: 1 })),
  "the last entry is changed": (store, entries) =>
    replaceChain(store, entries.with(-1, { ...entries.at(-1)!, what: "deny" })),
  "two entries are swapped": (store, entries) => replaceChain(store, entries.with(5, entries[6]!).with(6, entries[5]!)),
  "an entry is inserted": (store, entries) => replaceChain(store, entries.toSpliced(3, 0, entries[9]!)),
  "everything is written again, with more entries": (store, entries) =>
    replaceChain(
      store,
      [...entries, ...entries].map((entry) => ({ ...entry, who: "forged" })),
    ),
  "the chain is deleted": (store) => replaceChain(store, []),
};

export function tamperingCases(open: () => Subject): void {
  test.each(Object.entries(ATTACKS))("%s: detected by a saved head and a checkpoint", async (_, attack) => {
    const { store, get, write } = open();
    await replaceChain(store, []);
    await write(250);
    const { body: checkpoint } = await get("/audit/checkpoint");
    expect(checkpoint).toMatchObject({ tenant: "default", entries: 250 });
    await write(30);
    const against = `head=${checkpoint.head}&entries=${checkpoint.entries}`;
    for (const query of ["", `?head=${checkpoint.head}`, `?${against}`]) {
      expect((await get(`/audit/verify${query}`)).body, query).toMatchObject({ ok: true, problem: null });
    }
    await attack(store, (await entriesOf(store)).slice(0, 250));
    // The chain alone looks intact.
    expect((await get("/audit/verify")).body).toMatchObject({ ok: true });
    for (const query of [`?head=${checkpoint.head}`, `?${against}`]) {
      const { status, body } = await get(`/audit/verify${query}`);
      expect(status).toBe(200);
      expect(body, query).toMatchObject({ ok: false, problem: { why: expect.stringMatching(/removed|rewritten/) } });
    }
  });

  test("entries that continue a deleted chain do not hide the deletion", async () => {
    const { store, get, write } = open();
    await replaceChain(store, []);
    await write(10);
    const { body: checkpoint } = await get("/audit/checkpoint");
    await replaceChain(store, []);
    await write(20);
    const { body } = await get(`/audit/verify?head=${checkpoint.head}&entries=10`);
    expect(body).toMatchObject({ ok: false, entries: 20, problem: { index: 9 } });
  });

  test("a saved head is found only at its own position", async () => {
    const { store, get, write } = open();
    await replaceChain(store, []);
    await write(10);
    const { head } = (await get("/audit/checkpoint")).body;
    await write(10);
    for (const [entries, ok] of [
      [10, true],
      [9, false],
      [11, false],
      [21, false],
    ] as const) {
      expect((await get(`/audit/verify?head=${head}&entries=${entries}`)).body, String(entries)).toMatchObject({ ok });
    }
  });

  test("a broken log is not signed", async () => {
    const { store, get, write } = open();
    await replaceChain(store, []);
    await write(10);
    await get("/audit/verify");
    const page = await store.load(AUDIT_PAGES, pageId("default", 0));
    const entries = page!.value.entries.with(4, { ...page!.value.entries[4]!, who: "forged" });
    await commit(store, [put(AUDIT_PAGES, page!.id, page, { ...page!.value, entries })]);
    expect(await get("/audit/checkpoint")).toMatchObject({
      status: 409,
      body: { code: "audit_broken", problem: { index: 4 } },
    });
  });
}

async function entriesOf(store: Store): Promise<readonly AuditEntry[]> {
  const { items } = await store.list(AUDIT_PAGES, { index: auditPagesOf("default"), limit: 100, order: "oldest" });
  return items.flatMap(({ value }) => value.entries);
}

/** Writes a chain with these lines, with valid hashes and a valid head. */
async function replaceChain(store: Store, lines: readonly StampedLine[]): Promise<void> {
  const { items } = await store.list(AUDIT_PAGES, { index: auditPagesOf("default"), limit: 100 });
  const head = await store.load(AUDIT_HEADS, "default");
  await commit(store, [
    ...items.map((page) => put(AUDIT_PAGES, page.id, page, null)),
    ...(head === null ? [] : [put(AUDIT_HEADS, "default", head, null)]),
  ]);
  const chain = extend(emptyHead("default"), lines);
  if (lines.length === 0) return;
  await commit(store, [
    put(AUDIT_HEADS, "default", null, chain.head),
    ...pagesOf(emptyHead("default"), null, chain.entries).map((page) =>
      put(AUDIT_PAGES, pageId("default", page.number), null, page),
    ),
  ]);
}

async function commit(store: Store, puts: ReturnType<typeof put>[]): Promise<void> {
  const committed = await store.commit({ org: "default", atMs: 1, puts, guards: [], sends: [], watch: [] });
  expect(committed.kind).toBe("committed");
}
