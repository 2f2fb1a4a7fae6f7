import { afterEach, expect, test } from "vitest";
import { recordAudit } from "../../../src/engine/audit/audit-log.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";
import { applied } from "../workflow-fixtures.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

interface Listed {
  readonly items: readonly { readonly job_id: string }[];
  readonly next_cursor: string | null;
}

const get = async (url: string, tenant?: string) => (await gateway.call("GET", `/api/v1${url}`, { tenant })).json();
const submit = async (body: object, tenant?: string): Promise<string> =>
  (await gateway.call("POST", "/api/v1/jobs", { tenant, body: { topic: "demo.far", ...body } })).json().job_id;

test("pages through the jobs of a trace of the tenant; a job without a trace is its own trace", async () => {
  gateway = await openTestGateway();
  const ids: string[] = [];
  for (let at = 0; at < 5; at++) ids.push(await submit({ trace_id: "incident-7" }));
  const alone = await submit({});
  await submit({ trace_id: "incident-7", job_id: "theirs" }, "acme");
  const pages: string[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const page: Listed = await get(`/traces/incident-7?limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`);
    expect(page.items.length).toBeLessThanOrEqual(2);
    pages.push(...page.items.map(({ job_id }) => job_id));
    cursor = page.next_cursor;
  }
  expect([...pages].sort()).toEqual([...ids].sort());
  expect(await get("/traces/incident-7", "acme")).toMatchObject({ run: null, items: [{ job_id: "theirs" }] });
  expect(await get(`/traces/${alone}`)).toMatchObject({
    trace_id: alone,
    items: [{ job_id: alone, state: "SCHEDULED" }],
  });
  for (const [url, tenant] of [
    ["/traces/nothing", "default"],
    [`/traces/${alone}`, "acme"],
  ] as const) {
    expect(await get(url, tenant)).toMatchObject({ status: 404, code: "trace_not_found" });
  }
});

test("the trace of a run has the run and the jobs of its steps", async () => {
  gateway = await openTestGateway();
  await applied(gateway, { id: "two", steps: { a: { topic: "demo.far" }, b: { topic: "demo.far" } } });
  const { run_id } = (await gateway.call("POST", "/api/v1/workflows/two/runs", { body: {} })).json();
  const trace = await get(`/traces/${run_id}`);
  expect(trace).toMatchObject({ trace_id: run_id, run: { run_id, workflow_id: "two" }, next_cursor: null });
  expect(trace.items.map(({ job_id }: { job_id: string }) => job_id).sort()).toEqual([
    `${run_id}:a@1`,
    `${run_id}:b@1`,
  ]);
});

test("lists the schemas of workflows and steps, of the latest versions", async () => {
  gateway = await openTestGateway();
  const input_schema = { type: "object", required: ["id"] };
  await applied(gateway, { id: "old", steps: { a: { topic: "demo.far" } } });
  await applied(gateway, { id: "new", input_schema, steps: { a: { topic: "demo.far" } } });
  const output_schema = { type: "object" };
  await applied(gateway, {
    id: "new",
    input_schema,
    steps: { a: { topic: "demo.far", output_schema }, b: { topic: "demo.far" } },
  });
  expect(await get("/schemas")).toEqual({
    items: [
      { workflow_id: "new", version: 2, input_schema, steps: { a: { input_schema: null, output_schema } } },
      { workflow_id: "old", version: 1, input_schema: null, steps: {} },
    ],
    next_cursor: null,
  });
  expect((await get("/schemas?limit=1")).items).toHaveLength(1);
  expect((await get("/schemas", "acme")).items).toEqual([]);
});

test("L40: pages of the policy audit are full although other entries lie between", async () => {
  gateway = await openTestGateway();
  const note = (kind: "policy" | "breaker", what: string) =>
    recordAudit(gateway.engine, { org: "*", kind, who: "ann", what });
  for (let at = 0; at < 6; at++) {
    note("policy", `published ${at}`);
    for (let other = 0; other < 150; other++) note("breaker", "opened");
  }
  await gateway.engine.world.store.counts("audit_pending", 10); // After the commit of this tick.
  const seen: string[] = [];
  const lengths: number[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const page: { items: { what: string; kind: string }[]; next_cursor: string | null } = await get(
      `/policy/audit?limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`,
    );
    seen.push(...page.items.map(({ what, kind }) => `${kind} ${what}`));
    lengths.push(page.items.length);
    cursor = page.next_cursor;
  }
  expect(seen).toEqual([5, 4, 3, 2, 1, 0].map((at) => `policy published ${at}`));
  expect(lengths.slice(0, 3)).toEqual([2, 2, 2]);
  const { key } = await gateway.keyOf("acme", "admin");
  const refused = await gateway.call("GET", "/api/v1/policy/audit", { key });
  expect(refused.json()).toMatchObject({ status: 403, code: "forbidden" });
});
