import { afterAll, beforeAll, expect, test } from "vitest";
import { AUDIT_PAGES, pageId } from "../../../src/core/model/audit.ts";
import { recordAudit } from "../../../src/engine/audit/audit-log.ts";
import { put } from "../../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;
const keys: Record<string, string> = {};

beforeAll(async () => {
  gateway = await openTestGateway();
  keys.root = (await gateway.keyOf("*", "admin")).key;
  keys.acme = (await gateway.keyOf("acme", "operator")).key;
  keys.evil = (await gateway.keyOf("evil", "admin")).key;
  keys.viewer = (await gateway.keyOf("acme", "viewer")).key;
});
afterAll(() => gateway.close());

const get = async (url: string, key: string) => {
  const response = await gateway.call("GET", url, { key: keys[key] });
  return { status: response.statusCode, body: response.json() };
};

test("lists the log of the tenant only, newest first, in pages", async () => {
  for (let at = 0; at < 450; at++) {
    recordAudit(gateway.engine, { org: "acme", kind: "policy", who: "k", what: `line ${at}` });
  }
  recordAudit(gateway.engine, { org: "evil", kind: "policy", who: "k", what: "mine" });
  await gateway.engine.world.store.counts("audit_pending", 10); // After the commit of this tick.
  const seen: { index: number; what: string; hash: string; prev: string }[] = [];
  let cursor = "";
  do {
    const { status, body } = await get(`/api/v1/audit?limit=77${cursor && `&cursor=${cursor}`}`, "acme");
    expect(status).toBe(200);
    seen.push(...body.items);
    cursor = body.next_cursor ?? "";
  } while (cursor !== "");
  const lines = seen.filter(({ what }) => what.startsWith("line"));
  expect(lines.map(({ what }) => what)).toEqual(Array.from({ length: 450 }, (_, at) => `line ${449 - at}`));
  expect(seen.map(({ index }) => index)).toEqual(seen.map((_, at) => seen.length - 1 - at));
  for (const [at, entry] of seen.entries()) if (at > 0) expect(seen[at - 1]?.prev).toBe(entry.hash);
  expect(seen.some(({ what }) => what === "mine")).toBe(false);
  expect((await get("/api/v1/audit", "evil")).body.items.map(({ what }: { what: string }) => what)).toContain("mine");
});

test("finds one entry by its index, in the chain of the tenant only", async () => {
  const { items } = (await get("/api/v1/audit?limit=200", "acme")).body;
  const { index, hash } = items.at(-1);
  expect((await get(`/api/v1/audit?index=${index}`, "acme")).body).toMatchObject({
    items: [{ index, hash }],
    next_cursor: null,
  });
  expect((await get("/api/v1/audit?index=0", "evil")).body.items[0].hash).not.toBe(
    (await get("/api/v1/audit?index=0", "acme")).body.items[0].hash,
  );
  expect((await get("/api/v1/audit?index=999999", "acme")).body.items).toEqual([]);
  expect((await get("/api/v1/audit?index=-1", "acme")).status).toBe(400);
});

test("viewers have no access; the system chain requires a key of `*`", async () => {
  expect((await get("/api/v1/audit", "viewer")).status).toBe(403);
  expect((await get("/api/v1/audit?system=true", "acme")).status).toBe(403);
  const all = await get("/api/v1/audit?system=true", "root");
  expect(all.status).toBe(200);
  expect(all.body.items.some(({ what }: { what: string }) => what === "key used")).toBe(true);
});

test("rejects a cursor of another tenant", async () => {
  const { body } = await get("/api/v1/audit?limit=1", "acme");
  expect((await get(`/api/v1/audit?cursor=${body.next_cursor}`, "evil")).body.code).toBe("invalid_cursor");
});

test("verify finds an entry that was changed in the store", async () => {
  const before = await get("/api/v1/audit/verify", "acme");
  expect(before.body).toMatchObject({ ok: true, problem: null });
  expect(before.body.entries).toBeGreaterThanOrEqual(450);
  const { store } = gateway.engine.world;
  const page = await store.load(AUDIT_PAGES, pageId("acme", 1));
  const entries = page!.value.entries.map((entry) => (entry.index === 250 ? { ...entry, what: "nothing" } : entry));
  await gateway.engine.commit({ org: "acme", puts: [put(AUDIT_PAGES, page!.id, page, { ...page!.value, entries })] });
  const after = await get("/api/v1/audit/verify", "acme");
  expect(after.body).toMatchObject({ ok: false, entries: 250, problem: { index: 250 } });
});

test("a checkpoint requires a signing key, the role `operator`, and for the system chain a key of `*`", async () => {
  expect((await get("/api/v1/audit/checkpoint", "viewer")).status).toBe(403);
  expect((await get("/api/v1/audit/checkpoint?system=true", "acme")).status).toBe(403);
  expect((await get("/api/v1/audit/checkpoint?system=true", "root")).body).toMatchObject({ tenant: "*" });
  expect((await get("/api/v1/audit/verify?entries=3", "root")).status).toBe(400);
  const unsigned = await openTestGateway({ hasSigner: false });
  const response = await unsigned.call("GET", "/api/v1/audit/checkpoint");
  expect(response.json()).toMatchObject({ status: 409, code: "audit_key_missing" });
  await unsigned.close();
});
