/** Bodies and queries with hostile values in every field of every route: no answer is a server error. */
import type { LightMyRequestResponse } from "fastify";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Route } from "../../src/gateway/route.ts";
import { ROUTES } from "../../src/gateway/server.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly minLength?: number;
  readonly pattern?: string;
  readonly format?: string;
}

const JSON_VALUES: readonly string[] = [
  ...["null", "true", "-1", "0", "1e308", "-1e400", "9007199254740993", "0.1", '""', "[]", "{}", "[[]]"],
  ...[
    '"__proto__"',
    '"constructor"',
    '"hasOwnProperty"',
    '"toString"',
    '"\\u0000"',
    '"\\u001b[2J"',
    '"\\ud800"',
    '"a\\nb"',
  ],
  ...[
    '"*"',
    '"a/b"',
    '"../x"',
    '"job.job.x"',
    '"2026-13-45T99:99:99Z"',
    '"+275760-09-14T00:00:00Z"',
    '"1e9h"',
    '"%00"',
  ],
  ...['{"__proto__": {"a": 1}}', '{"constructor": "x"}', '{"__proto__": "x"}', '["__proto__"]', "[null]"],
  ...[`"${"x".repeat(3_000)}"`, `[${"1,".repeat(1_500)}1]`],
];

const WORKFLOW = {
  id: "w",
  steps: {
    first: { topic: "demo.none", compensate: { topic: "demo.undo" } },
    answer: { type: "wait", event: "answer", timeout_sec: 3600 },
  },
};

let gateway: TestGateway;
const ids = new Map<string, string>();

beforeAll(async () => {
  gateway = await openTestGateway({ ratePerS: 1e6 });
  const post = async (path: string, body: object) => (await gateway.call("POST", `/api/v1/${path}`, { body })).json();
  ids.set("jobs", (await post("jobs", { topic: "demo.none" })).job_id);
  ids.set("approvals", (await post("jobs", { topic: "demo.approve" })).job_id);
  const applied = await post("workflows", WORKFLOW);
  expect(applied).not.toHaveProperty("code");
  ids.set("workflows", "w");
  ids.set("workflow-runs", (await post("workflows/w/runs", {})).run_id);
  expect(await post("schedules", { id: "s", workflow_id: "w", every: "1h" })).not.toHaveProperty("code");
  ids.set("schedules", "s");
});
afterAll(() => gateway.close());

const pathOf = (path: string): string =>
  path.replace(/\/([\w-]+)\/:\w+/g, (_, kind: string) => `/${kind}/${ids.get(kind) ?? "x"}`);

/** The smallest value that a schema accepts, as far as it says. */
function exampleOf(schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return exampleOf(schema.anyOf[0] ?? {});
  switch (schema.type) {
    case "object":
      return Object.fromEntries(
        (schema.required ?? []).map((name) => [name, exampleOf(schema.properties?.[name] ?? {})]),
      );
    case "array":
      return [exampleOf(schema.items ?? {})];
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    case "boolean":
      return false;
    default:
      return schema.format === "date-time" ? "2026-01-01T00:00:00Z" : "w".repeat(Math.max(1, schema.minLength ?? 1));
  }
}

/** Each field of a body with each value; bodies are text, because `__proto__` is no key of a literal. */
function* hostile(schema: Schema): Generator<string> {
  const fields = exampleOf(schema) as Readonly<Record<string, unknown>>;
  for (const name of [...Object.keys(schema.properties ?? {}), "__proto__", "constructor"]) {
    const others = Object.entries(fields).filter(([other]) => other !== name);
    for (const value of JSON_VALUES) {
      const parts = [
        ...others.map(([other, one]) => `${JSON.stringify(other)}:${JSON.stringify(one)}`),
        `"${name}":${value}`,
      ];
      yield `{${parts.join(",")}}`;
    }
  }
}

const ENDS_OTHERS = ["/api/v1/keys", "/api/v1/kill", "/api/v1/session", "/api/v1/demo", "/api/v1/lab"];
const isTried = ({ path, longLived }: Route): boolean =>
  !longLived && !ENDS_OTHERS.some((start) => path.startsWith(start));

function expectNoError({ statusCode, body }: LightMyRequestResponse, what: string): void {
  if (statusCode >= 500 && statusCode !== 503)
    throw new Error(`${what.slice(0, 300)}: ${statusCode} ${body.slice(0, 300)}`);
  expect(Object.hasOwn(Object.prototype, "a")).toBe(false);
}

const withBody = ROUTES.filter((route) => route.body !== undefined && isTried(route));
test.each(withBody.map((route) => [`${route.method} ${route.path}`, route] as const))(
  "%s",
  async (_, { method, path, body }) => {
    const headers = { "content-type": "application/json" };
    for (const payload of hostile(body as Schema)) {
      const url = pathOf(path);
      expectNoError(await gateway.app.inject({ method, url, payload, headers }), `${method} ${url} ${payload}`);
    }
  },
);

test("bodies of other content types", async () => {
  const types = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "application/yaml",
    "image/png",
    ";",
  ];
  for (const { method, path } of withBody) {
    for (const type of types) {
      const url = pathOf(path);
      const answer = await gateway.app.inject({ method, url, payload: "a=b", headers: { "content-type": type } });
      expectNoError(answer, `${method} ${url} ${type}`);
      expect(answer.statusCode).toBeGreaterThanOrEqual(400);
    }
  }
});

const withQuery = ROUTES.filter((route) => route.query !== undefined && isTried(route));
test.each(withQuery.map((route) => [`${route.method} ${route.path}`, route] as const))(
  "%s?",
  async (_, { method, path, query }) => {
    for (const name of [...Object.keys((query as Schema).properties ?? {}), "__proto__"]) {
      for (const value of JSON_VALUES) {
        const text = value.startsWith('"') ? String(JSON.parse(value)) : value;
        const url = `${pathOf(path)}?${name}=${encodeURIComponent(text.replace(/[\ud800-\udfff]/g, "?"))}`;
        expectNoError(await gateway.app.inject({ method, url }), `${method} ${url}`);
      }
    }
  },
);
