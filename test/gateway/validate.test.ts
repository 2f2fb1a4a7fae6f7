import { Type } from "typebox";
import { describe, expect, test } from "vitest";
import type { Problem } from "../../src/gateway/problem.ts";
import { createValidator } from "../../src/gateway/validate.ts";

const validate = createValidator({
  query: Type.Object({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200 })),
    deep: Type.Optional(Type.Boolean()),
    tag: Type.Optional(Type.Array(Type.String())),
  }),
  body: Type.Object({
    topic: Type.String({ minLength: 1, maxLength: 20 }),
    priority: Type.Optional(Type.Union([Type.Literal("batch"), Type.Literal("critical")])),
    role: Type.Optional(Type.Enum(["viewer", "worker"])),
    input: Type.Optional(Type.Unknown()),
    labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    mcp: Type.Optional(Type.Object({ server: Type.String(), tool: Type.Optional(Type.String()) })),
    requests: Type.Optional(Type.Array(Type.Object({ topic: Type.String() }))),
    tags: Type.Optional(Type.Array(Type.String(), { maxItems: 2 })),
    note: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  }),
});

type Texts = Readonly<Record<string, string | readonly string[]>>;

function problemsOf(
  body: unknown,
  query: Texts = {},
  params: Readonly<Record<string, string>> = {},
): readonly string[] {
  try {
    validate({ body, query, params });
    return [];
  } catch (error) {
    const { code, message, facts } = error as Problem;
    const problems = facts.problems as readonly string[];
    expect(code).toBe("invalid_request");
    expect(message).toBe(problems.join("; "));
    return problems;
  }
}

describe("accepts", () => {
  test.each<[string, unknown, Texts]>([
    ["the required fields", { topic: "a" }, {}],
    ["all fields", { topic: "a", priority: "batch", labels: { any: "thing" }, mcp: { server: "s" }, note: null }, {}],
    ["an input of any shape", { topic: "a", input: { whatever: [{ deep: 1 }] } }, {}],
    ["numbers and booleans in a query", { topic: "a" }, { limit: "20", deep: "false", tag: "x" }],
    ["an array in a query", { topic: "a" }, { tag: ["x", "y"] }],
  ])("%s", (_, body, query) => {
    expect(problemsOf(body, query)).toEqual([]);
  });

  test("no body for a route without a body schema", () => {
    expect(() => createValidator({})({ body: undefined, query: {}, params: { id: "job-1" } })).not.toThrow();
    expect(() => createValidator({})({ body: {}, query: {}, params: {} })).not.toThrow();
  });
});

describe("names the field, the expected and the received value for", () => {
  test.each<[string, unknown, Texts, readonly string[]]>([
    ["a missing field", {}, {}, ["`topic` is missing; it must be a string of 1 to 20 characters"]],
    ["no body", undefined, {}, ["`topic` is missing; it must be a string of 1 to 20 characters"]],
    ["an array as body", [1], {}, ["the body must be a JSON object, not an array"]],
    ["a wrong type", { topic: 1 }, {}, ["`topic` must be a string of 1 to 20 characters, not `1`"]],
    [
      "a union of literals",
      { topic: "a", priority: "hgih" },
      {},
      ["`priority` must be one of `batch`, `critical`, not `hgih`"],
    ],
    ["an enum", { topic: "a", role: "boss" }, {}, ["`role` must be one of `viewer`, `worker`, not `boss`"]],
    ["a record value", { topic: "a", labels: { n: 1 } }, {}, ["`labels.n` must be a string, not `1`"]],
    ["a nested field", { topic: "a", mcp: {} }, {}, ["`mcp.server` is missing; it must be a string"]],
    [
      "an array item",
      { topic: "a", requests: [{ topic: "a" }, {}] },
      {},
      ["`requests[1].topic` is missing; it must be a string"],
    ],
    [
      "too many items",
      { topic: "a", tags: ["a", "b", "c"] },
      {},
      ["`tags` must be an array of at most 2 items, each a string, not an array"],
    ],
    ["a nullable field", { topic: "a", note: 5 }, {}, ["`note` must be a string, or `null`, not `5`"]],
    [
      "an out-of-range number in a query",
      { topic: "a" },
      { limit: "0" },
      ["`limit` must be an integer from 1 to 200, not `0`"],
    ],
    [
      "text in place of a number in a query",
      { topic: "a" },
      { limit: "many" },
      ["`limit` must be an integer from 1 to 200, not `many`"],
    ],
    [
      "a repeated query parameter",
      { topic: "a" },
      { limit: ["1", "2"] },
      ["`limit` must be an integer from 1 to 200, not an array"],
    ],
  ])("%s", (_, body, query, expected) => {
    expect(problemsOf(body, query)).toEqual(expected);
  });
});

describe("rejects an unknown field", () => {
  test.each<[string, unknown, Texts, string]>([
    ["with swapped letters", { topic: "a", inptu: 1 }, {}, "unknown field `inptu`; did you mean `input`?"],
    ["misspelt", { topic: "a", prioritty: "batch" }, {}, "unknown field `prioritty`; did you mean `priority`?"],
    [
      "misspelt in a nested object",
      { topic: "a", mcp: { server: "s", tol: "t" } },
      {},
      "unknown field `mcp.tol`; did you mean `tool`?",
    ],
    ["in a query", { topic: "a" }, { limits: "1" }, "unknown query parameter `limits`; did you mean `limit`?"],
    ["without a similar name", { topic: "a", zzzzzz: 1 }, {}, "unknown field `zzzzzz`; known are `topic`, `priority`"],
    [
      "named like a property of `Object.prototype`",
      JSON.parse('{"topic":"a","__proto__":1,"constructor":2}'),
      {},
      "unknown field `constructor`",
    ],
  ])("%s", (_, body, query, expected) => {
    expect(problemsOf(body, query).join("\n")).toContain(expected);
  });

  test("on a route without a body schema", () => {
    expect(() => createValidator({})({ body: { force: true }, query: {}, params: {} })).toThrow("this route has none");
  });
});

test("reports all problems at once, in bounded length", () => {
  const problems = problemsOf({ labels: 5, prioritty: 1, mcp: { tol: 1 } }, { limit: "0", x: "1" }, { id: "a b" });
  expect(problems).toHaveLength(8);
  const wrong = { topic: 1, priority: 1, role: 1, labels: 1, mcp: 1, requests: 1, tags: 1, note: 1 };
  expect(problemsOf(wrong)).toHaveLength(8);
  expect(problemsOf({ topic: "x".repeat(10_000) }).join().length).toBeLessThan(200);
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`zzzz${at}`, at]));
  expect(problemsOf({ topic: "a", ...many }).length).toBeLessThanOrEqual(20);
});

test("restricts path parameters to printable ASCII", () => {
  for (const id of ["a b", "", "a\u0000", "é", "x".repeat(301)])
    expect(problemsOf({ topic: "a" }, {}, { id })).toHaveLength(1);
  expect(problemsOf({ topic: "a" }, {}, { id: "job:1.2_3-4@x" })).toEqual([]);
});
