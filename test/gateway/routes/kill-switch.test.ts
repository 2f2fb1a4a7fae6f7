import { afterEach, describe, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const KILL = "/api/v1/kill";
const post = (url: string, body: object, key?: string) => gateway.call("POST", url, { key, body });
const get = (url: string, key?: string) => gateway.call("GET", url, { key });
const lease = (key?: string) => post("/api/v1/worker/lease", { worker_id: "w", topics: ["demo.far"] }, key);

describe("kill switch", () => {
  test("cancels running jobs, holds new ones until release, and is visible in status and audit", async () => {
    gateway = await openTestGateway();
    const submit = async () => (await post("/api/v1/jobs", { topic: "demo.far" })).json().job_id;
    const first = await submit();
    const [leased] = (await lease()).json().jobs;
    const engaged = await post(KILL, { scope: "*", reason: "stop it" });
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
    expect((await get(KILL)).json().items).toMatchObject([{ scope: "*", engaged_by: "local" }]);
    expect((await get("/api/v1/status")).json().kill).toMatchObject([{ scope: "*", reason: "stop it" }]);
    const explained = (await get(`/api/v1/jobs/${next}/explain`)).json();
    expect(explained).toMatchObject({ wait: { reason: "killed" } });
    expect(explained.sentence).toContain("stop it");
    expect((await post(KILL, { scope: "*", reason: "again" })).json()).toMatchObject({
      already: true,
      reason: "stop it",
    });
    expect((await post(`${KILL}/release`, { scope: "*" })).json()).toEqual({ scope: "*", released: true });
    expect((await post(`${KILL}/release`, { scope: "*" })).json()).toEqual({ scope: "*", released: false });
    expect((await lease()).json().jobs).toMatchObject([{ job_id: next }]);
    const log = (await get("/api/v1/audit?system=true")).json().items;
    const lines = log.filter(({ kind }: { kind: string }) => kind === "kill");
    expect(lines.map(({ what, who }: { what: string; who: string }) => `${who} ${what}`)).toEqual([
      "local released",
      "local engaged",
    ]);
    expect(lines[1].facts).toEqual({ scope: "*", reason: "stop it" });
  });

  test("L35: submitters, operators and workers can neither engage nor release it", async () => {
    gateway = await openTestGateway();
    await gateway.keyOf("*", "admin");
    for (const role of ["viewer", "submitter", "operator", "worker"] as const) {
      const { key } = await gateway.keyOf("acme", role);
      for (const url of [KILL, `${KILL}/release`]) {
        const body = url === KILL ? { reason: "x" } : {};
        expect((await post(url, body, key)).json(), `${role} ${url}`).toMatchObject({ status: 403, code: "forbidden" });
      }
    }
  });

  test("administrators control the switch of their tenant; the switch for all requires a key of `*`", async () => {
    gateway = await openTestGateway();
    const [root, acme, other] = await Promise.all([
      gateway.keyOf("*", "admin"),
      gateway.keyOf("acme", "admin"),
      gateway.keyOf("other", "admin"),
    ]);
    expect((await post(KILL, { reason: "mine" }, acme.key)).json()).toMatchObject({ scope: "acme" });
    for (const scope of ["*", "acme"]) {
      for (const [url, body] of [
        [KILL, { scope, reason: "x" }],
        [`${KILL}/release`, { scope }],
      ] as const) {
        expect((await post(url, body, other.key)).json()).toMatchObject({ status: 403, code: "tenant_forbidden" });
      }
    }
    expect((await get(KILL, other.key)).json().items).toEqual([]);
    expect((await get("/api/v1/status", other.key)).json().kill).toEqual([]);
    expect((await get("/api/v1/pools", root.key)).json().items).toEqual([]);
    await post(KILL, { scope: "*", reason: "all" }, root.key);
    expect((await get(KILL, other.key)).json().items).toMatchObject([{ scope: "*" }]);
    expect((await get(KILL, root.key)).json().items).toHaveLength(2);
    expect((await get("/api/v1/status", acme.key)).json().kill).toHaveLength(2);
  });

  test.each([{}, { reason: "" }, { reason: " " }, { reason: "x".repeat(501) }, { reason: "x", scope: "a b" }])(
    "rejects %o",
    async (body) => {
      gateway = await openTestGateway();
      expect((await post(KILL, body)).json()).toMatchObject({ status: 400, code: "invalid_request" });
      expect((await get(KILL)).json().items).toEqual([]);
    },
  );
});
