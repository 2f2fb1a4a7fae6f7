import { afterEach, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;
afterEach(() => gateway.close());

const POLICY = `rules:
  - {id: fast, match: {topics: [fast]}, decision: deny, reason: too fast, velocity: {max: 1, within: 10m}}
  - id: llm
    match: {topics: [llm]}
    decision: allow
    reason: metered
    budget: [{tokens: 1000, usd: 5, per: day, reserve_usd: 1}, {tokens: 800, per: label:team}]
  - {id: rest, match: {}, decision: allow, reason: fine}
`;

type Body = Record<string, unknown>;
const post = async (path: string, body: object, key?: string) => {
  const answer = await gateway.call("POST", `/api/v1/${path}`, { body, key });
  return { status: answer.statusCode, body: answer.json<Body>() };
};
const get = async (path: string, key?: string) => (await gateway.call("GET", `/api/v1/${path}`, { key })).json<Body>();

async function open() {
  gateway = await openTestGateway();
  expect((await post("policy/publish", { policy: POLICY })).status).toBe(200);
}

async function lease(topic: string): Promise<{ readonly job_id: string; readonly lease_id: string }> {
  const { body } = await post("worker/lease", { worker_id: "w", topics: [topic], wait_ms: 5_000 });
  const [leased] = body.jobs as [{ job_id: string; lease_id: string }];
  return leased;
}

test("a submission without room is refused with 402 and says what is left; usage settles the budget", async () => {
  await open();
  const submit = (max_total_tokens: number, team = "a") =>
    post("jobs", { topic: "llm", labels: { team }, budget: { max_total_tokens } });
  const { body: job } = await submit(700);
  const leased = await lease("llm");
  expect(leased.job_id).toBe(job.job_id);
  expect(await submit(200)).toMatchObject({
    status: 402,
    body: {
      code: "budget_exhausted",
      retryable: false,
      detail: "budget of rule `llm` per label:team `a` exhausted: 200 tokens needed, 100 tokens left of 800 tokens",
      rule_id: "llm",
      per: "label:team",
      remaining: 100,
    },
  });
  expect(await get(`jobs/${job.job_id}`)).toMatchObject({
    budgets: [
      { rule_id: "llm", per: "day", tokens: { limit: 1_000, reserved: 700, spent: 0 }, usd: { limit: 5, reserved: 1 } },
      { rule_id: "llm", per: "label:team", key: "a", tokens: { limit: 800, reserved: 700, spent: 0 } },
    ],
  });
  const usage = { input_tokens: 100, output_tokens: 50, cost_usd: 0.25 };
  expect((await post(`worker/jobs/${job.job_id}/complete`, { lease_id: leased.lease_id, usage })).status).toBe(200);
  expect(await get(`jobs/${job.job_id}`)).toMatchObject({
    usage,
    budgets: [{ tokens: { reserved: 0, spent: 150 }, usd: { spent: 0.25 } }, { tokens: { reserved: 0, spent: 150 } }],
  });
  const metrics = (await gateway.call("GET", "/metrics")).body.split("\n");
  expect(metrics).toContain('cordum_budget_used_ratio{tenant="default",rule="llm"} 0.1875');
  expect(metrics).toContain('cordum_budget_exhausted_total{unit="tokens"} 1');
  const expected = [
    {
      tenant: "default",
      rule_id: "llm",
      per: "label:team",
      key: "a",
      tokens: { limit: 800, used: 150, remaining: 650 },
      share: 0.1875,
    },
    { per: "day", tokens: { limit: 1_000, used: 150, remaining: 850 }, usd: { limit: 5, used: 0.25, remaining: 4.75 } },
  ];
  expect(await get("status")).toMatchObject({ budgets: expected });
  expect(await get("overview")).toMatchObject({ budgets: expected });
  expect((await get(`jobs/${job.job_id}/explain`)).budgets).toMatchObject([
    { per: "day" },
    { per: "label:team", key: "a" },
  ]);
  expect((await submit(650)).status).toBe(200);
});

test("a tenant sees only its own budgets", async () => {
  await open();
  await post("jobs", { topic: "llm", budget: { max_total_tokens: 10 } });
  await lease("llm");
  // Before a key exists: the start-up token is void then.
  expect((await get("status")).budgets).toHaveLength(2);
  const { key } = await gateway.keyOf("acme", "admin");
  expect(await get("status", key)).toMatchObject({ budgets: [] });
});

test("evaluate and explain apply the limits as they are now, without counting", async () => {
  await open();
  const evaluate = () => post("policy/evaluate", { topic: "fast" });
  for (let at = 0; at < 3; at++) {
    expect((await evaluate()).body).toMatchObject({
      decision: "ALLOW",
      limits: [{ rule_id: "fast", used: 0, max: 1 }],
    });
  }
  expect((await post("jobs", { topic: "fast" })).status).toBe(200);
  expect((await evaluate()).body).toMatchObject({
    decision: "DENY",
    rule_id: "fast",
    reason: expect.stringContaining("2 of 1 in the last 10 min"),
    limits: [{ kind: "velocity", by: "tenant", used: 1 }],
  });
  expect((await post("policy/explain", { topic: "fast" })).body).toMatchObject({ decision: "DENY", tried: [] });
  expect((await post("policy/simulate", { requests: [{ topic: "fast" }] })).body).toMatchObject({
    decisions: [{ decision: "ALLOW", limits: [{ rule_id: "fast" }] }],
  });
  expect((await post("jobs", { topic: "fast" })).status).toBe(403);
  expect(await get("policy/rules")).toMatchObject({
    items: [
      { id: "fast", velocity: { max: 1, within: "10m", by: "tenant" } },
      {
        id: "llm",
        budget: [
          { tokens: 1_000, usd: 5, per: "day", reserve_usd: 1 },
          { tokens: 800, per: "label:team" },
        ],
      },
      { id: "rest" },
    ],
  });
});
