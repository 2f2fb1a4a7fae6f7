/** Routes that evaluate text of a client, times the texts that are expensive to evaluate (L60). */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { threadEvaluator } from "../../src/adapters/node/thread-evaluator.ts";
import { StepBudget } from "../../src/core/expression/budget.ts";
import { PATTERN_STATES_MAX, readPattern, statesAtMost } from "../../src/core/expression/patterns.ts";
import { RUNS } from "../../src/core/model/run.ts";
import { builtInKernel, DEMO_POLICY } from "../../src/core/policy/kernel.ts";
import { ROUTES } from "../../src/gateway/server.ts";
import { startWorker } from "../../src/worker/worker.ts";
import { REQUEST } from "../core/policy/samples.ts";
import { openTestGateway, type TestGateway, type TestGatewayOptions } from "../gateway/test-gateway.ts";
import { applied, cel, runUntil, started } from "../gateway/workflow-fixtures.ts";

/** The largest budget of one request, and the steps by which its last check may exceed it. */
const STEPS_MAX = 5_000_000 + 400_000;
const CHECK_STEPS_MAX = 100_000;

const open = (options: TestGatewayOptions = {}) =>
  openTestGateway({ limits: { bodyBytesMax: 2 * 1024 * 1024 }, ...options });

let gateway: TestGateway;
let steps = 0;

beforeAll(async () => {
  gateway = await open();
  await publish(gateway);
  await applied(gateway, COSTLY);
  await applied(gateway, { id: "plain", steps: { a: { topic: "demo.unserved" } } });
});
afterAll(() => gateway.close());
beforeEach(() => {
  steps = 0;
  const spend = StepBudget.prototype.spend;
  vi.spyOn(StepBudget.prototype, "spend").mockImplementation(function (this: StepBudget, count: number) {
    steps += count;
    spend.call(this, count);
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  expect(steps).toBeLessThanOrEqual(STEPS_MAX);
});

/** Compares every pair of `input.items`. */
const PAIRS = "input.items.exists(a, input.items.exists(b, a + b == -1.0))";
const ITEMS = Array.from({ length: 500 }, (_, at) => at);

const rules = (conditions: readonly string[]) =>
  JSON.stringify({
    default_decision: "allow",
    rules: conditions.map((when, at) => ({ id: `r${at}`, match: { when }, decision: "deny", reason: "no" })),
  });

async function publish(to: TestGateway): Promise<void> {
  const { statusCode } = await to.call("POST", "/api/v1/policy/publish", { body: { policy: rules([PAIRS]) } });
  expect(statusCode).toBe(200);
}

/** Each step alone is within the limit of an expression. */
const COSTLY = {
  id: "costly",
  steps: Object.fromEntries(
    Array.from({ length: 64 }, (_, at) => [`s${at}`, { topic: "demo.unserved", input: { found: cel(PAIRS) } }]),
  ),
};

const post = async (path: string, body: object | string, key?: string) => {
  const headers = { "content-type": "application/json", ...(key === undefined ? {} : { "x-api-key": key }) };
  const answer = await gateway.app.inject({ method: "POST", url: `/api/v1/${path}`, headers, payload: body });
  return { status: answer.statusCode, body: answer.json() as { detail: string; code: string } };
};

describe("YAML", () => {
  const BOMBS: readonly (readonly [string, string, RegExp])[] = [
    ["tags", `rules: [${"!a 1,".repeat(200_000)}]`, /tags, anchors, aliases or directives.* not supported/],
    ["anchors", `rules: [${"&a 1,".repeat(200_000)}]`, /tags, anchors, aliases or directives.* not supported/],
    ["aliases", `rules: [&a 1,${"*a ,".repeat(200_000)}]`, /tags, anchors, aliases or directives.* not supported/],
    ["directives", `${"%A b\n".repeat(100_000)}---\nrules: []`, /tags, anchors, aliases or directives.* not supported/],
    ["depth", "[".repeat(500_000), /nested too deeply/],
    ["indicators", "- ".repeat(500_000), /nested too deeply/],
    ["a wide list", `rules: [${"1,".repeat(550_000)}]`, /has more than [\d]+ tokens|larger than 1 MiB/],
    ["a long string", `rules: [{id: ${"a".repeat(1_000_000)}}]`, /1 to 256 characters|unknown key/],
  ];
  const READERS = [
    ["policy/simulate", (policy: string) => ({ policy, requests: [{ topic: "demo.echo" }] })],
    ["policy/diff", (policy: string) => ({ policy })],
    ["policy/publish", (policy: string) => ({ policy })],
    ["workflows", (source: string) => ({ source })],
  ] as const;
  const cases = READERS.flatMap(([path, body]) => BOMBS.map((bomb) => [path, ...bomb, body] as const));

  test.each(cases)("L60: %s refuses %s", async (path, _bomb, text, problem, body) => {
    const { status, body: answer } = await post(path, body(text));
    expect(status).toBe(400);
    expect(answer.detail).toMatch(problem);
  });
});

describe("expressions", () => {
  const BIG = "x{1000}y{1000}z{1000}";
  /** One state, but the compiler visits every character. */
  const FOLDED = "(?i)[\u0080-\u{1ffff}]";
  const many = (count: number, one: (at: number) => string) => Array.from({ length: count }, (_, at) => one(at));
  const chain = (at: number) => many(40, (part) => `input.a${at}_${part} > ${part}`).join(" && ");
  const BOMBS: readonly (readonly [string, readonly string[], RegExp])[] = [
    ["a counted repetition", [`re2(topic, '${BIG}')`], /expand to more than 2000 states/],
    ["many patterns", many(100, (at) => `re2(topic, '${at}x{900}')`), /all patterns together expand to more than/],
    ["many in one condition", [many(62, (at) => `re2(topic,'${at}x{900}')`).join("||")], /all patterns together/],
    ["a large class without case", [`re2(topic, '${FOLDED.repeat(3)}')`], /classes are too large to ignore case/],
    ["many of them", many(80, (at) => `re2(topic, '${at}${FOLDED}')`), /all patterns together expand to more than/],
    ["many operations", many(800, chain), /all expressions together have more than/],
    ["a long condition", [`topic == "${"a".repeat(3_000)}"`], /1 to 2048 characters/],
    ["a wide literal", [`"a" in [${many(300, (at) => `"${at}"`).join()}]`], /exceeded max/],
  ];
  const cases = ["policy/simulate", "policy/diff", "policy/publish"].flatMap((path) =>
    BOMBS.map((bomb) => [path, ...bomb] as const),
  );

  test.each(cases)("L60: %s refuses %s", async (path, _bomb, conditions, problem) => {
    const requests = path === "policy/simulate" ? { requests: [{ topic: "demo.echo" }] } : {};
    const { status, body } = await post(path, { policy: rules(conditions), ...requests });
    expect(status).toBe(400);
    expect(body.detail).toMatch(problem);
  });

  const schema = (pattern: string, count: number) => ({
    type: "object",
    properties: Object.fromEntries(many(count, (at) => `p${at}`).map((name) => [name, { pattern }])),
  });
  test.each<[string, object, RegExp]>([
    ["a condition", { steps: { a: { topic: "t", condition: `re2("a", "${BIG}")` } } }, /2000 states/],
    ["a template", { steps: { a: { topic: "t", input: cel(`re2("a", "${BIG}")`) } } }, /2000 states/],
    ["a schema", { input_schema: schema(BIG, 1), steps: { a: { topic: "t" } } }, /2000 states/],
    ["many patterns", { input_schema: schema("x{900}", 100), steps: { a: { topic: "t" } } }, /all patterns together/],
    ["a large class", { input_schema: schema(FOLDED.repeat(3), 1), steps: { a: { topic: "t" } } }, /to ignore case/],
    ["many classes", { input_schema: schema(FOLDED, 40), steps: { a: { topic: "t" } } }, /all patterns together/],
    [
      "more operations than the event loop compiles in a moment",
      {
        steps: Object.fromEntries(
          many(200, (at) => `s${at}`).map((id, at) => [id, { topic: "t", input: cel(chain(at)) }]),
        ),
      },
      /all expressions together have more than 25000/,
    ],
    [
      "many operations",
      {
        steps: Object.fromEntries(
          many(250, (at) => `s${at}`).map((id, at) => [
            id,
            { topic: "t", input: many(6, (part) => cel(chain(at * 6 + part))) },
          ]),
        ),
      },
      /all expressions together|larger than 1 MiB/,
    ],
  ])("L60: workflows refuses %s", async (_, document, problem) => {
    const { status, body } = await post("workflows", { id: "bomb", ...document });
    expect(status).toBe(400);
    expect(body.detail).toMatch(problem);
  });

  test("the bound on the states of a pattern holds", () => {
    for (const pattern of [
      ...["a", "[a-z]{64}", "(a{10}b){10}", "a{2,}", "(?i)a{1,100}", "\\pL{50}", "(?:x?){100}", "\\Qa{9}\\E", "x|y|z"],
      ...["(a|b){30}", "[]a]{10}", "\\x{41}{5}", "^(ab+c*)?$", "(?P<n>a{3}){3}", "((a{3}){3}){3}", "[[:alpha:]]{20}"],
    ]) {
      const read = readPattern(pattern);
      if (read.kind === "bad") throw new Error(`${pattern}: ${read.problem}`);
      expect(statesAtMost(pattern) + 2, pattern).toBeGreaterThanOrEqual(read.pattern.programSize());
      expect(read.pattern.programSize()).toBeLessThanOrEqual(PATTERN_STATES_MAX);
    }
  });
});

describe("evaluation", () => {
  const request = { topic: "demo.echo", input: { items: ITEMS } };

  test("L60: 1,000 requests share one budget, by a policy in force and by a sent one", async () => {
    const requests = Array.from({ length: 1_000 }, () => ({
      topic: "demo.echo",
      input: { items: ITEMS.slice(0, 200) },
    }));
    for (const body of [{ requests }, { requests, policy: rules([PAIRS]) }]) {
      steps = 0;
      const answer = await post("policy/simulate", body);
      expect(answer).toMatchObject({ status: 422, body: { code: "evaluation_limit" } });
      expect(answer.body.detail).toMatch(
        /the simulation exceeded the limit of \d+ evaluation steps; send less at once/,
      );
    }
  });

  test.each(["jobs", "policy/evaluate", "policy/explain"])(
    "L60: one check of %s is bounded and fails closed",
    async (path) => {
      const { status, body } = await post(path, request);
      expect([status, body]).toMatchObject(path === "jobs" ? [403, { code: "denied" }] : [200, { decision: "DENY" }]);
      expect(gateway.engine.kernel.stepsOfLast).toBeLessThan(2 * CHECK_STEPS_MAX);
    },
  );

  test("L60: the steps of a dry run share one budget", async () => {
    const answer = await post("workflows/costly/dry-run", { input: { items: ITEMS.slice(0, 250) } });
    expect(answer).toMatchObject({ status: 422, body: { code: "evaluation_limit" } });
    expect(answer.body.detail).toMatch(/the dry run exceeded the limit of \d+ evaluation steps/);
  });

  test("L60: the steps that one commit of a run starts share one budget; so do those of a dry rerun", async () => {
    const runId = await started(gateway, "costly", { input: { items: ITEMS.slice(0, 250) } });
    const run = await runUntil(gateway, runId, ({ state }) => state === "FAILED");
    expect(run.error).toMatchObject({ message: expect.stringMatching(/exceeded the limit of \d+ evaluation steps/) });
    expect((await gateway.world.store.load(RUNS, runId))?.value.state).toBe("FAILED");
    steps = 0;
    const answer = await post(`workflow-runs/${runId}/rerun`, { from_step: "s0", dry_run: true });
    expect(answer).toMatchObject({ status: 422, body: { code: "evaluation_limit" } });
  });
});

test("L60: the outputs of a list that one commit validates share one budget", async () => {
  const other = await open();
  const stop = await startWorker(other.world, { id: "w", topics: ["t"], concurrency: 8, handle: async () => "x" });
  try {
    const deeper = (at: number) => ({ allOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] });
    const $defs = { ...Object.fromEntries(Array.from({ length: 15 }, (_, at) => [`d${at}`, deeper(at)])), d15: {} };
    const each = { topic: "t", for_each: cel("input.items"), output_schema: { $ref: "#/$defs/d0", $defs } };
    const last = { type: "transform", input: cel("steps.each.output"), depends_on: ["each"] };
    await applied(other, { id: "list", steps: { each, last } });
    const runId = await started(other, "list", { input: { items: ITEMS.slice(0, 100) } });
    const run = await runUntil(other, runId, ({ state }) => state === "FAILED" || state === "SUCCEEDED");
    expect(run.error).toMatchObject({ message: expect.stringMatching(/exceeded the limit of \d+ evaluation steps/) });
  } finally {
    await stop();
    await other.close();
    steps = 0; // Of many commits.
  }
});

describe("requests", () => {
  const DEEP = `${"[".repeat(5_000)}${"]".repeat(5_000)}`;
  const withBody = ROUTES.filter(({ body }) => body !== undefined);
  test.each(withBody.map(({ method, path }) => [method, path] as const))(
    "%s %s refuses deep JSON",
    async (method, url) => {
      for (const payload of [DEEP, `{"input": ${DEEP}}`, `{"text": "\\"[", "input": ${DEEP}}`]) {
        const headers = { "content-type": "application/json" };
        const answer = await gateway.app.inject({ method: method as "POST", url, headers, payload });
        expect(answer.statusCode).toBe(400);
        expect(answer.json().detail).toContain("nested deeper than");
      }
    },
  );

  const withQuery = ROUTES.filter(({ query }) => query !== undefined);
  test.each(withQuery.map(({ method, path }) => [method, path] as const))(
    "%s %s refuses a long query",
    async (method, path) => {
      const url = `${path}?${"state=x&".repeat(20_000)}`;
      expect((await gateway.app.inject({ method: method as "GET", url })).statusCode).toBe(414);
    },
  );

  const labels = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`l${at}`, "1"]));
  const BOMBS = [
    ["wide labels", { labels }],
    ["a long label", { labels: { a: "x".repeat(1_000_000) } }],
    ["wide risk tags", { risk_tags: Array.from({ length: 100_000 }, () => "r") }],
    ["a long id", { actor_id: "x".repeat(1_000_000) }],
  ] as const;
  const TARGETS = [
    ["jobs", (fields: object) => ({ topic: "demo.echo", ...fields })],
    ["policy/evaluate", (fields: object) => ({ topic: "demo.echo", ...fields })],
    ["policy/explain", (fields: object) => ({ topic: "demo.echo", ...fields })],
    ["policy/simulate", (fields: object) => ({ requests: [{ topic: "demo.echo", ...fields }] })],
    ["workflows/plain/runs", (fields: object) => fields],
    ["workflows/plain/dry-run", (fields: object) => fields],
  ] as const;
  const cases = TARGETS.flatMap(([path, body]) => BOMBS.map(([bomb, fields]) => [path, bomb, body(fields)] as const));

  test.each(cases)("%s refuses %s", async (path, _bomb, body) => {
    expect((await post(path, body)).status).toBe(400);
  });
});

describe("a policy text", () => {
  test.each([
    ["viewer", "*"],
    ["submitter", "default"],
    ["operator", "*"],
    ["admin", "default"],
  ] as const)("is not evaluated for %s of tenant %s", async (role, tenant) => {
    const other = await open();
    try {
      const { key } = await other.keyOf(tenant, role);
      for (const [path, body] of [
        ["simulate", { policy: rules([PAIRS]), requests: [{ topic: "demo.echo" }] }],
        ["diff", { policy: rules([PAIRS]) }],
        ["publish", { policy: rules([PAIRS]) }],
      ] as const) {
        const answer = await other.call("POST", `/api/v1/policy/${path}`, { key, body });
        expect(answer.statusCode).toBe(403);
      }
      const allowed = { requests: [{ topic: "demo.echo" }] };
      expect((await other.call("POST", "/api/v1/policy/simulate", { key, body: allowed })).statusCode).toBe(200);
    } finally {
      await other.close();
    }
  });
});

describe("the thread", () => {
  const { document } = builtInKernel(DEMO_POLICY).inForce.snapshot;
  const long = {
    text: rules([PAIRS]),
    inForce: document,
    requests: Array.from({ length: 40 }, () => ({ ...REQUEST, input: { items: ITEMS.slice(0, 90) } })),
  };

  test("health is answered while an evaluation runs", async () => {
    const threaded = await open({ evaluatesInThread: true });
    try {
      const answered: string[] = [];
      const note = (name: string) => (answer: { statusCode: number }) => answered.push(`${name} ${answer.statusCode}`);
      const requests = long.requests.map(({ input }) => ({ topic: "demo.echo", input }));
      const body = { policy: long.text, requests };
      const evaluating = threaded.call("POST", "/api/v1/policy/simulate", { body }).then(note("simulate"));
      await threaded.call("GET", "/healthz").then(note("health"));
      await threaded.call("GET", "/api/v1/policy/rules").then(note("rules"));
      await evaluating;
      expect(answered).toEqual(["health 200", "rules 200", "simulate 200"]);
    } finally {
      await threaded.close();
    }
  });

  test("health is answered while a dry run is evaluated", async () => {
    const threaded = await open({ evaluatesInThread: true });
    try {
      await applied(threaded, COSTLY);
      const answered: string[] = [];
      const note = (name: string) => (answer: { statusCode: number }) => answered.push(`${name} ${answer.statusCode}`);
      const body = { input: { items: ITEMS.slice(0, 250) } };
      const dry = threaded.call("POST", "/api/v1/workflows/costly/dry-run", { body }).then(note("dry run"));
      await threaded.call("GET", "/healthz").then(note("health"));
      await threaded.call("GET", "/api/v1/policy/rules").then(note("rules"));
      await dry;
      expect(answered).toEqual(["health 200", "rules 200", "dry run 422"]);
      expect(steps).toBe(0);
    } finally {
      await threaded.close();
    }
  });

  test("a task beyond its time ends; the next one gets a new thread", async () => {
    const evaluator = threadEvaluator(10);
    const outcome = await evaluator.run("default", "simulatePolicy", long);
    expect(outcome).toEqual({ kind: "over", why: "evaluation exceeded 10 ms" });
    await evaluator.close();
    const patient = threadEvaluator();
    const first = patient.run("default", "readPolicy", { name: "p", text: "rules: []" });
    expect(await first).toMatchObject({ kind: "answered", answer: { kind: "ok" } });
    await patient.close();
  });

  test("tenants take turns, and a tenant with few tasks enters a full queue", async () => {
    const evaluator = threadEvaluator();
    const answered: string[] = [];
    const read = async (org: string) => {
      const { kind } = await evaluator.run(org, "readPolicy", { name: "p", text: "rules: []" });
      answered.push(kind === "answered" ? org : `${org} ${kind}`);
    };
    const repeat = (org: string) => Array.from({ length: 8 }, () => read(org));
    await Promise.all([..."abcd"].flatMap(repeat).concat(read("e"), read("f")));
    await evaluator.close();
    // Two of the 32 tasks gave way.
    const done = answered.filter((name) => !name.endsWith("busy"));
    expect([answered.length, done.length]).toEqual([34, 32]);
    // The first task was running already.
    expect(done.slice(1, 7).sort()).toEqual([..."abcdef"]);
  });

  test("the tasks of one tenant leave room for those of others", async () => {
    const evaluator = threadEvaluator();
    const read = (org: string) => evaluator.run(org, "readPolicy", { name: "p", text: "rules: []" });
    const outcomes = await Promise.all([...Array.from({ length: 10 }, () => read("acme")), read("other")]);
    expect(outcomes.map(({ kind }) => kind)).toEqual([
      ...Array.from({ length: 8 }, () => "answered"),
      ...["busy", "busy", "answered"],
    ]);
    await evaluator.close();
  });
});
