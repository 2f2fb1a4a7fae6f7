import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultSettings } from "../../src/config/config.ts";
import { JOBS } from "../../src/core/model/job.ts";
import { wireJobId } from "../../src/core/model/job-id.ts";
import { around } from "../../src/sim/mutants/decorators.ts";
import { startWorker } from "../../src/worker/worker.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";
import {
  attackByName,
  expectDamageIsFound,
  expectUnchanged,
  MARK,
  namesIn,
  storeEveryKind,
  type Target,
  type Victims,
  viewsOf,
} from "./payload-names.ts";

let gateway: TestGateway;
let target: Target;
let stop: () => Promise<void>;
const keys = new Set<string>();

beforeAll(async () => {
  const defaults = defaultSettings();
  const settings = { ...defaults, limits: { ...defaults.limits, inlineBytesMax: 1_000 } };
  gateway = await openTestGateway({ settings });
  const { blobs } = gateway.world;
  const put: typeof blobs.put = (key, ...rest) => {
    keys.add(key);
    return blobs.put(key, ...rest);
  };
  Object.assign(gateway.world, { blobs: around(blobs, { put }) });
  const handle = async () => ({ secret: MARK, text: "y".repeat(300_000) });
  stop = await startWorker(gateway.world, { id: "w", topics: ["demo.large"], concurrency: 4, handle });
  target = targetOf(gateway);
});

afterAll(async () => {
  await stop();
  await gateway.close();
});

function targetOf({ call, world, engine }: TestGateway): Target {
  return {
    async call(method, path, { tenant, body }) {
      const { statusCode: status, body: text } = await call(method, `/api/v1${path}`, { tenant, body });
      return { status, text };
    },
    async payloads() {
      const found = await Promise.all([...keys].map(async (key) => [key, await world.blobs.get(key)] as const));
      return new Map(found.flatMap(([key, bytes]) => (bytes ? [[key, Buffer.from(bytes).toString("base64")]] : [])));
    },
    async replace(key, bytes) {
      await world.blobs.delete(key);
      await world.blobs.put(key, bytes, world.clock.now() + 1e9);
    },
    reached: (tenant, jobId, state) =>
      new Promise((resolve) => {
        const id = wireJobId(tenant, jobId);
        const check = async () => {
          if ((await world.store.load(JOBS, id))?.value.state === state) resolve();
        };
        engine.events.subscribe((update) => {
          if (update.jobId === id) void check();
        });
        void check();
      }),
  };
}

describe("L59: no id that a client chooses names a stored payload", () => {
  let victims: Victims;
  let before: ReadonlyMap<string, string>;

  beforeAll(async () => {
    victims = await storeEveryKind(target);
    before = await target.payloads();
  });

  test("payloads are stored under their tenant and record", () => {
    expect(before.size).toBeGreaterThanOrEqual(8);
    for (const key of before.keys()) expect(key).toMatch(/^cordum:payload:acme\/(job|run)\/[^/]+\/[0-9a-f]{64}$/);
  });

  test("no view contains a key", async () => {
    for (const text of await viewsOf(target, victims)) expect(text).not.toContain("cordum:payload:");
  });

  test("every stored key and its parts, as job id, key, trace id, label and pointer, in every tenant", async () => {
    for (const [index, name] of namesIn(before, victims).entries()) await attackByName(target, name, index);
    expectUnchanged(before, await target.payloads());
  });

  test("what is approved afterwards is what was submitted", async () => {
    const approved = await target.call("POST", `/approvals/${victims.waiting}/approve`, { tenant: "acme", body: {} });
    expect(approved.status).toBe(200);
    const body = { worker_id: "w1", topics: ["demo.approve"], max: 100 };
    const { text } = await target.call("POST", "/worker/lease", { tenant: "acme", body });
    const jobs = JSON.parse(text).jobs as readonly { job_id: string; input: { secret?: string } }[];
    expect(jobs.find(({ job_id }) => job_id === victims.waiting)?.input.secret).toBe(MARK);
  });
});

test("L59: a payload that was changed after the decision is not leased", () => expectDamageIsFound(target));

test.each([
  ["cordum:payload:acme/job/x/0"],
  ["redis://cordum:payload:acme/job/x/0"],
  ["redis://redis://cordum:payload:acme/job/x/0"],
  ["REDIS://cordum:payload:acme/job/x/0"],
  ["redis://127.0.0.1:6379/0/cordum:payload:acme/job/x/0"],
  ["ctx:acme~x"],
  ["res/acme~x"],
  ["ctx:r1:step@1"],
])("L59: a compensation of another tenant cannot point at `%s`", async (context_ptr) => {
  const body = { topic: "demo.far", compensation: { topic: "demo.undo", context_ptr } };
  const { status, text } = await target.call("POST", "/jobs", { tenant: "intruder", body });
  expect(status, text).toBe(400);
  expect(text).toContain("must name an input or result of the tenant");
});

describe("job ids are scoped by tenant", () => {
  const submit = (tenant: string, body: object) =>
    target.call("POST", "/jobs", { tenant, body: { topic: "demo.far", ...body } });
  const get = (tenant: string, id: string) => target.call("GET", `/jobs/${encodeURIComponent(id)}`, { tenant });

  test("an id that another tenant uses is free, and shows nothing of it", async () => {
    const first = await submit("acme", { job_id: "shared", input: { of: "acme" } });
    const second = await submit("intruder", { job_id: "shared", input: { of: "intruder" } });
    const third = await submit("default", { job_id: "shared", input: { of: "default" } });
    for (const { status, text } of [first, second, third]) {
      expect(status, text).toBe(200);
      expect(JSON.parse(text)).toMatchObject({ job_id: "shared", trace_id: "shared", replayed: false });
    }
    for (const tenant of ["acme", "intruder", "default"]) {
      const { text } = await get(tenant, "shared");
      expect(JSON.parse(text)).toMatchObject({ job_id: "shared", tenant_id: tenant, input: { of: tenant } });
      expect(JSON.parse((await submit(tenant, { job_id: "shared", input: { of: tenant } })).text)).toMatchObject({
        replayed: true,
      });
      expect((await submit(tenant, { job_id: "shared", input: { of: "other" } })).status).toBe(422);
    }
  });

  test("an id of another tenant is answered like an absent one, on every route", async () => {
    await submit("acme", { job_id: "present" });
    const routes = ["", "/explain", "/decisions", "/cancel", "/remediate"].map(
      (end) => (id: string) => `/jobs/${id}${end}`,
    );
    const all = [
      ...routes,
      (id: string) => `/memory?ptr=ctx:${id}`,
      (id: string) => `/traces/${id}`,
      (id: string) => `/dlq/${id}`,
      (id: string) => `/approvals/${id}/approve`,
      (id: string) => `/approvals/${id}/reject`,
      (id: string) => `/failopen/bypassed/${id}/review`,
      (id: string) => `/worker/jobs/${id}/extend`,
    ];
    for (const id of ["present", "acme~present"]) {
      for (const route of all) {
        for (const method of ["GET", "POST"] as const) {
          const body = method === "GET" ? undefined : { reason: "r", lease_id: "l" };
          const read = async (name: string) => {
            const { status, text } = await target.call(method, route(name), {
              tenant: "intruder",
              ...(body && { body }),
            });
            return { status, text: text.replaceAll(name, "ID").replace(/"(instance|request_id)":"[^"]*"/g, "") };
          };
          const answer = await read(id);
          if (answer.text.includes("route_not_found")) continue;
          expect(answer, `${method} ${route(id)}`).toEqual(await read(id.replace("present", "missing")));
        }
      }
    }
  });

  test("an id with the separator cannot be chosen", async () => {
    for (const tenant of ["default", "acme", "intruder"]) {
      expect((await submit(tenant, { job_id: "acme~present" })).status).toBe(400);
    }
  });
});
