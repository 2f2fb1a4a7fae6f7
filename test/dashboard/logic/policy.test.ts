import { describe, expect, test } from "vitest";
import { problemsOf } from "../../../dashboard/src/pages/policy/problems.ts";
import {
  explainArguments,
  FIELDS,
  fieldsOf,
  readRequests,
  withField,
} from "../../../dashboard/src/pages/policy/try-request.ts";

const REQUEST = {
  topic: "pay.refund",
  risk_tags: ["payment", "pii"],
  labels: { env: "prod", note: "" },
  mcp: { tool: "rm" },
  input: { amount: 1 },
};

describe("a request as a form", () => {
  test("shows the fields of the request", () => {
    const fields = fieldsOf(REQUEST);
    expect(fields).toMatchObject({
      topic: "pay.refund",
      risk_tags: "payment, pii",
      labels: "env=prod, note=",
      "mcp.tool": "rm",
    });
    expect(Object.keys(fields)).toEqual(FIELDS.map(({ name }) => name));
  });

  test("a field that is written back as it was read changes nothing", () => {
    const fields = fieldsOf(REQUEST);
    for (const { name } of FIELDS) expect(withField(REQUEST, name, fields[name] ?? ""), name).toEqual(REQUEST);
  });

  test("an emptied field is left out, also the last member of an object", () => {
    const { mcp: _, risk_tags: __, ...rest } = REQUEST;
    expect(withField(withField(REQUEST, "mcp.tool", " "), "risk_tags", "")).toEqual(rest);
  });
});

test("reads requests as an array or one per line, and names the line that it cannot read", () => {
  const two = { kind: "ok", requests: [{ topic: "a" }, { topic: "b" }] };
  expect(readRequests('[{"topic":"a"},{"topic":"b"}]')).toEqual(two);
  expect(readRequests('{"topic":"a"}\n\n{"topic":"b"}\n')).toEqual(two);
  expect(readRequests(" \n")).toEqual({ kind: "ok", requests: [] });
  expect(readRequests('{"topic":"a"}\n{"topic":')).toMatchObject({
    kind: "bad",
    why: expect.stringMatching(/^line 2: /),
  });
});

test("gives the command of the same request", () => {
  expect(explainArguments(REQUEST).join(" ")).toBe(
    'policy explain pay.refund {"amount":1} --label env=prod --label note= --risk-tag payment --risk-tag pii --mcp tool=rm',
  );
});

test("finds the line of each problem", () => {
  expect(problemsOf(["policy:12: unknown key: `x`", "policy: too long", "policy:3: a"])).toEqual([
    { line: null, text: "policy: too long" },
    { line: 3, text: "a" },
    { line: 12, text: "unknown key: `x`" },
  ]);
  expect(problemsOf(undefined)).toEqual([]);
});
