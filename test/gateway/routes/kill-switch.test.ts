import { afterEach, describe, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const LEVER = "/api/v1/kill";
const post = (url: string, body: object, key?: string) => gateway.call("POST", url, { key, body });
const get = (url: string, key?: string) => gateway.call("GET", url, { key });
const lease = (key?: string) => post("/api/v1/worker/lease", { worker_id: "w", topics: ["demo.far"] }, key);

describe("the kill switch", () => {
  test("stops what is with workers, keeps back what comes, says so everywhere, and lets it go again", async () => {
    gateway = await openTestGateway();
    const submit = async () => (await post("/api/v1/jobs", { topic: "demo.far" })).json().job_id;
    const first = await submit();
    const [leased] = (await lease()).json().jobs;
    const engaged = await post(LEVER, { scope: "*", reason: "stop it" });
    expect(engaged.json()).toMatchObject({
      scope: "*",
      reason: "stop it",
      engaged_by: "local",
      already: false,
      cancelled: 1,
    });
    expect((await get(`/api/v1/jobs/${first}`)).json()).toMatchObject({ state: "CANCELLED" });
    const done = await post(`/api/v1/worker/jobs/${first}/complete`, { lease_id: leased.lease_id, result: 1 });
    expect(done.json()).toMatchObject({ status: 409, code: "lease_lost" });
    const next = await submit();
    expect((await lease()).statusCode).toBe(204);
    expect((await get(LEVER)).json().items).toMatchObject([{ scope: "*", engaged_by: "local" }]);
    expect((await get("/api/v1/status")).json().kill).toMatchObject([{ scope: "*", reason: "stop it" }]);
    const explained = (await get(`/api/v1/jobs/${next}/explain`)).json();
    expect(explained).toMatchObject({ wait: { reason: "killed" } });
    expect(explained.sentence).toContain("stop it");
    expect((await post(LEVER, { scope: "*", reason: "again" })).json()).toMatchObject({
      already: true,
      reason: "stop it",
    });
    expect((await post(`${LEVER}/release`, { scope: "*" })).json()).toEqual({ scope: "*", released: true });
    expect((await post(`${LEVER}/release`, { scope: "*" })).json()).toEqual({ scope: "*", released: false });
    expect((await lease()).json().jobs).toMatchObject([{ job_id: next }]);
    const log = (await get("/api/v1/audit?system=true")).json().items;
    const lines = log.filter(({ kind }: { kind: string }) => kind === "kill");
    expect(lines.map(({ what, who }: { what: string; who: string }) => `${who} ${what}`)).toEqual([
      "local released",
      "local engaged",
    ]);
    expect(lines[1].facts).toEqual({ scope: "*", reason: "stop it" });
  });

  test("L35: whoever submits, decides about jobs or does the work can neither engage nor release it", async () => {
    gateway = await openTestGateway();
    await gateway.keyOf("*", "admin");
    for (const role of ["viewer", "submitter", "operator", "worker"] as const) {
      const { key } = await gateway.keyOf("acme", role);
      for (const url of [LEVER, `${LEVER}/release`]) {
        const body = url === LEVER ? { reason: "x" } : {};
        expect((await post(url, body, key)).json(), `${role} ${url}`).toMatchObject({ status: 403, code: "forbidden" });
      }
    }
  });

  test("an administrator has that of the own tenant; that of all takes a key of all", async () => {
    gateway = await openTestGateway();
    const [root, acme, other] = await Promise.all([
      gateway.keyOf("*", "admin"),
      gateway.keyOf("acme", "admin"),
      gateway.keyOf("other", "admin"),
    ]);
    expect((await post(LEVER, { reason: "mine" }, acme.key)).json()).toMatchObject({ scope: "acme" });
    for (const scope of ["*", "acme"]) {
      for (const [url, body] of [
        [LEVER, { scope, reason: "x" }],
        [`${LEVER}/release`, { scope }],
      ] as const) {
        expect((await post(url, body, other.key)).json()).toMatchObject({ status: 403, code: "tenant_forbidden" });
      }
    }
    expect((await get(LEVER, other.key)).json().items).toEqual([]);
    expect((await get("/api/v1/status", other.key)).json().kill).toEqual([]);
    expect((await get("/api/v1/pools", root.key)).json().items).toEqual([]);
    await post(LEVER, { scope: "*", reason: "all" }, root.key);
    expect((await get(LEVER, other.key)).json().items).toMatchObject([{ scope: "*" }]);
    expect((await get(LEVER, root.key)).json().items).toHaveLength(2);
    expect((await get("/api/v1/status", acme.key)).json().kill).toHaveLength(2);
  });

  test.each([{}, { reason: "" }, { reason: " " }, { reason: "x".repeat(501) }, { reason: "x", scope: "a b" }])(
    "is not engaged by %o",
    async (body) => {
      gateway = await openTestGateway();
      expect((await post(LEVER, body)).json()).toMatchObject({ status: 400, code: "invalid_request" });
      expect((await get(LEVER)).json().items).toEqual([]);
    },
  );
});
