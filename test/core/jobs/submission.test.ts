import { describe, expect, test } from "vitest";
import { fingerprintOf, reservationId } from "../../../src/core/jobs/idempotency.ts";
import { checkSubmission, type Submission } from "../../../src/core/jobs/submission.ts";

const good = (raw: Record<string, unknown>): Submission => {
  const checked = checkSubmission(raw);
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
};

describe("a submission", () => {
  test("requires only a topic", () => {
    expect(good({ topic: "demo.echo" })).toMatchObject({ org: "default", priority: "batch", input: null, labels: {} });
  });

  test("reports all problems at once", () => {
    const checked = checkSubmission({ topic: "a..b", priority: "soon", labels: [1], org: "a b", riskTags: [1] });
    expect(checked.kind === "bad" && checked.problems.length).toBe(5);
    expect(JSON.stringify(checked)).toContain("`interactive`, `batch`, `critical`");
  });

  test.each(["", ".a", "a.", "a b", "a.*", "a.>", "x".repeat(129), "$SYS.a"])("topic %j is refused", (topic) => {
    expect(checkSubmission({ topic }).kind).toBe("bad");
  });

  const texts = (count: number) => Array.from({ length: count }, (_, index) => `k${index}`);
  const limits: readonly { field: string; good: unknown; bad: unknown }[] = [
    ...["riskTags", "requires"].flatMap((field) => [
      { field, good: texts(64), bad: texts(65) },
      { field, good: ["x".repeat(256)], bad: ["x".repeat(257)] },
      { field, good: ["a", "1"], bad: ["a", 1] },
      { field, good: ["1"], bad: [1, 2] },
      { field, good: [], bad: "a" },
    ]),
    {
      field: "labels",
      good: Object.fromEntries(texts(64).map((key) => [key, "v"])),
      bad: Object.fromEntries(texts(65).map((key) => [key, "v"])),
    },
    { field: "labels", good: { a: "x".repeat(256) }, bad: { a: "x".repeat(257) } },
    { field: "labels", good: { ["x".repeat(256)]: "a" }, bad: { ["x".repeat(257)]: "a" } },
    { field: "labels", good: { a: "1" }, bad: { a: 1 } },
    { field: "labels", good: {}, bad: ["a"] },
    { field: "idempotencyKey", good: "x".repeat(256), bad: "x".repeat(257) },
    { field: "idempotencyKey", good: "x", bad: "" },
    ...["org", "jobId", "traceId", "capability", "actorId", "packId", "submittedBy"].flatMap((field) => [
      { field, good: "x".repeat(256), bad: "x".repeat(257) },
      { field, good: "a.b:c@d-e_1", bad: "a b" },
      { field, good: "x", bad: "" },
    ]),
    { field: "topic", good: "x".repeat(128), bad: "x".repeat(129) },
    { field: "actorType", good: "human", bad: "robot" },
  ];

  test.each(limits)("accepts $field $good and refuses $bad", ({ field, good: accepted, bad }) => {
    expect(good({ topic: "a", [field]: accepted })).toMatchObject({ [field]: accepted });
    const refused = checkSubmission({ topic: "a", [field]: bad });
    expect(refused.kind === "bad" && refused.problems).toEqual([expect.any(String)]);
  });
});

test("clients cannot set reserved labels", () => {
  for (const label of ["safety_bypassed", "safety_bypass_reason", "workflow_id", "run_id", "step_id"]) {
    const checked = checkSubmission({ topic: "a", labels: { [label]: "false" } });
    expect(checked).toMatchObject({ kind: "bad", problems: [expect.stringContaining(label)] });
  }
});

describe("the fingerprint of a submission", () => {
  const one = good({ topic: "a", input: { x: 1, y: [1, { b: 2, a: 1 }] }, idempotencyKey: "k", traceId: "t1" });

  test("does not depend on the order of fields, the key or the trace", () => {
    const two = good({ traceId: "t2", input: { y: [1, { a: 1, b: 2 }], x: 1 }, topic: "a", idempotencyKey: "other" });
    expect(fingerprintOf(two)).toBe(fingerprintOf(one));
  });

  test("depends on everything else", () => {
    for (const change of [
      { input: { x: 2 } },
      { topic: "b" },
      { priority: "critical" },
      { labels: { a: "b" } },
      { org: "o" },
    ]) {
      expect(fingerprintOf(good({ topic: "a", input: one.input, ...change }))).not.toBe(fingerprintOf(one));
    }
  });

  test("L22: a key is scoped by its org", () => {
    expect(reservationId("a", "k")).not.toBe(reservationId("b", "k"));
  });
});
