import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DEAD_LETTERS, type DeadLetter, withFingerprint } from "../../../src/core/model/dead-letter.ts";
import { FingerprintBackfill } from "../../../src/engine/maintenance/dead-letter-groups.ts";
import { put } from "../../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;
let keys: Record<"acme" | "other" | "all", string>;

beforeEach(async () => {
  gateway = await openTestGateway();
  const [acme, other, all] = await Promise.all(
    ["acme", "other", "*"].map(async (tenant) => (await gateway.keyOf(tenant, "operator")).key),
  );
  keys = { acme: acme!, other: other!, all: all! };
});
afterEach(() => gateway.close());

const get = async (key: keyof typeof keys, path: string) =>
  (await gateway.call("GET", `/api/v1${path}`, { key: keys[key] })).json();

const HOUR_MS = 3_600_000;

function letter(id: string, fields: Partial<DeadLetter> & { topic?: string; message?: string } = {}): DeadLetter {
  const { topic = "pay", message = `order ${id.length}${id.codePointAt(1)} failed`, ...rest } = fields;
  return {
    id,
    org: "acme",
    createdMs: gateway.world.clock.now() - HOUR_MS,
    dueMs: gateway.world.clock.now() + HOUR_MS,
    reason: "budget",
    error: { name: "Error", message },
    source: { kind: "job", jobId: id, topic: `job.${topic}`, attempt: 3, input: { kind: "inline", value: null } },
    history: [],
    ...rest,
  };
}

const store = (...letters: readonly DeadLetter[]) =>
  gateway.engine.commit({ org: "acme", puts: letters.map((one) => put(DEAD_LETTERS, one.id, null, one)) });

describe("groups of dead letters", () => {
  it("counts by topic, reason and message pattern, exact after a drop", async () => {
    const old = gateway.world.clock.now() - 3 * HOUR_MS;
    await store(
      ...["a1", "a2", "a3"].map((id) => withFingerprint(letter(id))),
      withFingerprint(letter("a4", { createdMs: old })),
      withFingerprint(letter("b1", { topic: "ship" })),
      withFingerprint(letter("c1", { reason: "timeout" })),
      withFingerprint(letter("o1", { org: "other" })),
    );
    const { items, more } = await get("acme", "/dlq/groups");
    const counted = items.map(({ count, topic, reason }: Record<string, unknown>) => `${count} ${topic} ${reason}`);
    expect(counted[0]).toBe("4 pay budget");
    expect(counted.slice(1).sort()).toEqual(["1 pay timeout", "1 ship budget"]);
    expect(items[0]).toMatchObject({ pattern: "order <n> failed", first_seen: new Date(old).toISOString() });
    expect(more).toBe(false);
    await gateway.call("DELETE", "/api/v1/dlq/a1", { key: keys.acme });
    expect((await get("acme", "/dlq/groups")).items[0]).toMatchObject({ count: 3 });
  });

  it("are those of the own tenant; a key of all tenants sees the sum", async () => {
    await store(withFingerprint(letter("a1")), withFingerprint(letter("o1", { org: "other" })));
    expect((await get("acme", "/dlq/groups")).items).toMatchObject([{ count: 1, sample_id: "a1" }]);
    expect((await get("other", "/dlq/groups")).items).toMatchObject([{ count: 1, sample_id: "o1" }]);
    expect((await get("all", "/dlq/groups")).items).toMatchObject([{ count: 2 }]);
    const [{ fingerprint }] = (await get("other", "/dlq/groups")).items;
    expect((await get("acme", `/dlq?fingerprint=${fingerprint}`)).items).toMatchObject([
      { id: "a1", tenant_id: "acme" },
    ]);
  });

  it("filters by topic, reason, group and age with full pages", async () => {
    const old = gateway.world.clock.now() - 48 * HOUR_MS;
    await store(
      withFingerprint(letter("a1")),
      withFingerprint(letter("a2", { createdMs: old })),
      withFingerprint(letter("b1", { topic: "ship", createdMs: old })),
      withFingerprint(letter("c1", { topic: "ship", reason: "timeout", error: { name: "TypeError", message: "x" } })),
    );
    const ids = async (query: string) =>
      (await get("acme", `/dlq?${query}`)).items.map(({ id }: { id: string }) => id).sort();
    expect(await ids("topic=pay")).toEqual(["a1", "a2"]);
    expect(await ids("topic=job.ship")).toEqual(["b1", "c1"]);
    expect(await ids("reason=timeout")).toEqual(["c1"]);
    expect(await ids("topic=ship&reason=budget")).toEqual(["b1"]);
    expect(await ids("error=TypeError")).toEqual(["c1"]);
    expect(await ids("error=Error&topic=ship&reason=budget")).toEqual(["b1"]);
    expect(await ids("error=Error&reason=timeout")).toEqual([]);
    expect(await ids("older_than=24h")).toEqual(["a2", "b1"]);
    expect(await ids("newer_than=24h&topic=ship")).toEqual(["c1"]);
    expect(await ids("newer_than=24h&older_than=24h")).toEqual([]);
    const first = await get("acme", "/dlq?topic=ship&limit=1");
    expect(first.items).toHaveLength(1);
    expect((await get("acme", `/dlq?topic=ship&limit=1&cursor=${first.next_cursor}`)).items).toHaveLength(1);
    expect(await get("acme", `/dlq?topic=pay&limit=1&cursor=${first.next_cursor}`)).toMatchObject({
      code: "invalid_cursor",
    });
  });

  it.each(["fingerprint=x", "reason=late", "older_than=soon", "fingerprint=0123456789abcdef&topic=pay"])(
    "rejects `%s`",
    async (query) => {
      expect(await get("acme", `/dlq?${query}`)).toMatchObject({ status: 400, code: "invalid_request" });
    },
  );

  const bulk = async (key: keyof typeof keys, body: object) =>
    (await gateway.call("POST", "/api/v1/dlq/bulk", { key: keys[key], body })).json();

  it("are dropped by query in pages, after a dry run, and never those of another tenant", async () => {
    const ids = Array.from({ length: 25 }, (_, at) => `a${at + 10}`);
    await store(...ids.map((id) => withFingerprint(letter(id))), withFingerprint(letter("s1", { topic: "ship" })));
    await store(withFingerprint(letter("o1", { org: "other" })));
    const query = { action: "drop", topic: "pay", error: "Error" };
    const dry = await bulk("acme", { ...query, dry_run: true });
    expect(dry).toMatchObject({ matched: 25, done: 0 });
    expect(dry.sample.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 5));
    const first = await bulk("acme", { ...query, limit: 15 });
    expect(first).toMatchObject({ matched: 25, done: 15, rejected: [], stopped: null });
    // Created after the start of the operation.
    await store(withFingerprint(letter("z1", { createdMs: gateway.world.clock.now() + 1_000 })));
    expect(await bulk("other", { ...query, cursor: first.next_cursor })).toMatchObject({ code: "invalid_cursor" });
    expect(await bulk("acme", { ...query, action: "retry", cursor: first.next_cursor })).toMatchObject({ status: 400 });
    const [one, again] = await Promise.all([1, 2].map(() => bulk("acme", { ...query, cursor: first.next_cursor })));
    expect(one.done + again.done).toBe(10);
    expect([one.next_cursor, again.next_cursor]).toEqual([null, null]);
    expect([one.matched, again.matched]).toEqual([25, 25]);
    expect((await get("acme", "/dlq")).items.map(({ id }: { id: string }) => id).sort()).toEqual(["s1", "z1"]);
    expect((await get("other", "/dlq")).items).toHaveLength(1);
  });

  it("L49: the cursor of a dry run starts the operation on exactly what was counted", async () => {
    await store(...["a1", "a2", "a3"].map((id) => withFingerprint(letter(id))));
    const query = { action: "drop", topic: "pay" };
    const dry = await bulk("acme", { ...query, dry_run: true });
    await store(withFingerprint(letter("z1", { createdMs: gateway.world.clock.now() + 1_000 })));
    const page = await bulk("acme", { ...query, limit: 2, cursor: dry.next_cursor });
    expect(page).toMatchObject({ matched: 3, done: 2 });
    expect(await bulk("acme", { ...query, cursor: page.next_cursor })).toMatchObject({ done: 1, next_cursor: null });
    expect((await get("acme", "/dlq")).items).toMatchObject([{ id: "z1" }]);
    const { items } = await get("acme", "/audit");
    expect(items.filter(({ what }: { what: string }) => what === "bulk drop")).toMatchObject([
      { facts: { matched: 3 } },
    ]);
    expect(await bulk("acme", { ...query, error: "TypeError", dry_run: true })).toMatchObject({ next_cursor: null });
  });

  it("audits the start of a bulk operation once, and no dry run", async () => {
    await store(...["a1", "a2", "a3"].map((id) => withFingerprint(letter(id))));
    await bulk("acme", { action: "drop", topic: "pay", dry_run: true });
    const { next_cursor } = await bulk("acme", { action: "drop", topic: "pay", limit: 2 });
    await bulk("acme", { action: "drop", topic: "pay", limit: 2, cursor: next_cursor });
    await bulk("acme", { action: "drop", topic: "pay" });
    const { items } = await get("acme", "/audit");
    const started = items.filter(({ what }: { what: string }) => what.startsWith("bulk "));
    expect(started).toMatchObject([{ what: "bulk drop", facts: { topic: "pay", matched: 3, reason: null } }]);
    expect(items.filter(({ kind }: { kind: string }) => kind === "dead_letter")).toHaveLength(4);
  });

  it("reports dead letters that cannot be retried and continues after them", async () => {
    await store(...["a1", "a2", "a3"].map((id) => withFingerprint(letter(id))));
    const page = await bulk("acme", { action: "retry", topic: "pay", limit: 2 });
    expect(page).toMatchObject({ done: 0, rejected: [{ id: "a1", code: "job_gone" }, { id: "a2" }] });
    const last = await bulk("acme", { action: "retry", topic: "pay", limit: 2, cursor: page.next_cursor });
    expect(last).toMatchObject({ rejected: [{ id: "a3" }], next_cursor: null });
  });

  it("include dead letters of earlier versions once they have a fingerprint", async () => {
    await store(letter("a1"), letter("a2"));
    const groups = async () => (await get("acme", "/dlq/groups")).items;
    expect(await groups()).toEqual([]);
    const backfill = new FingerprintBackfill(gateway.engine);
    expect(await backfill.pass()).toBeNull();
    expect(backfill.isNeeded()).toBe(false);
    expect(await groups()).toMatchObject([{ count: 2 }]);
    await gateway.call("DELETE", "/api/v1/dlq/a1", { key: keys.acme });
    expect(await groups()).toMatchObject([{ count: 1 }]);
  });
});
