/** Every spelling of a value is one value to `match`, `when`, explanations, simulations, audit and dispatch. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkSubmission } from "../../src/core/jobs/submission.ts";
import { JOBS } from "../../src/core/model/job.ts";
import { compile } from "../../src/core/policy/compile.ts";
import type { PolicyRequest } from "../../src/core/policy/decision.ts";
import { type Match, readPolicy } from "../../src/core/policy/document.ts";
import { evaluate } from "../../src/core/policy/evaluate.ts";
import { explain } from "../../src/core/policy/explain.ts";
import { decisionLine } from "../../src/engine/audit/audit-log.ts";
import { handleSubmission } from "../../src/engine/delivery/index.ts";
import { openWorkPacket, workPacket } from "../../src/engine/packets.ts";
import { decodeCheck, encodeCheck } from "../../src/protocol/safety.ts";
import { workSubject } from "../../src/protocol/subjects.ts";
import { REQUEST } from "../core/policy/samples.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

const NAMES = ["pay", "Pay", "café", "cafe\u0301", "Å", "A\u030a", " pay", "pay ", "\u212b"] as const;
const TOPICS = ["pay.send", "job.pay.send", "Pay.send", "job.Pay.send", "pay", "job.pay"] as const;

/** Deny by `match`, and deny by the same value in `when`; the rest is allowed. */
function pairOf(match: Match, when: string) {
  const snapshot = (part: object) => {
    const rules = [
      { id: "deny", match: part, decision: "deny", reason: "no" },
      { id: "rest", match: {}, decision: "allow", reason: "yes" },
    ];
    // JSON is YAML: the file is read like any other.
    const read = readPolicy({ name: "policy", text: JSON.stringify({ version: "1", rules }) });
    if (read.kind === "bad") throw new Error(read.problems.join());
    return compile(read.document);
  };
  const toFile = { topics: match.topics, labels: match.labels, risk_tags: match.riskTags, requires: match.requires };
  return { byMatch: snapshot(toFile), byWhen: snapshot({ when }) };
}

/** The decisions by every way into the kernel. */
function decisionsOf(match: Match, when: string, part: Partial<PolicyRequest>): readonly string[] {
  const request = { ...REQUEST, ...part };
  const sent = decodeCheck(encodeCheck(request));
  const { byMatch, byWhen } = pairOf(match, when);
  return [byMatch, byWhen].flatMap((snapshot) => [
    evaluate(snapshot, request).effect,
    evaluate(snapshot, sent).effect,
    explain(snapshot, request).decision.effect,
  ]);
}

const text = (name: string) => JSON.stringify(name);

describe("L61: `match` and `when` agree", () => {
  test("about every spelling of a topic", () => {
    fc.assert(
      fc.property(fc.constantFrom(...TOPICS), fc.constantFrom(...TOPICS), (known, topic) => {
        const bare = known.replace(/^job\./, "");
        const expected = workSubject(known) === workSubject(topic) ? "deny" : "allow";
        const decisions = decisionsOf({ topics: [known] }, `topic == ${text(bare)}`, { topic });
        expect(new Set(decisions)).toEqual(new Set([expected]));
      }),
    );
  });

  test.each([
    ["label values", (name: string) => ({ labels: { env: name } }), (name: string) => `labels.env == ${text(name)}`],
    ["label keys", (name: string) => ({ labels: { [name]: "1" } }), (name: string) => `${text(name)} in labels`],
    ["risk tags", (name: string) => ({ riskTags: [name] }), (name: string) => `${text(name)} in risk_tags`],
    ["requirements", (name: string) => ({ requires: [name] }), (name: string) => `${text(name)} in requires`],
  ])("about every spelling of %s", (_, partOf, when) => {
    fc.assert(
      fc.property(fc.constantFrom(...NAMES), fc.constantFrom(...NAMES), (known, sent) => {
        const expected = known.normalize("NFC") === sent.normalize("NFC") ? "deny" : "allow";
        const decisions = decisionsOf(partOf(known), when(known.normalize("NFC")), partOf(sent));
        expect(new Set(decisions)).toEqual(new Set([expected]));
      }),
      { numRuns: NAMES.length ** 2 * 2 },
    );
  });
});

describe("L61: a submission is stored in canonical spelling", () => {
  test("of topic, labels, risk tags and requirements", () => {
    const nfd = "cafe\u0301";
    const checked = checkSubmission({ topic: "job.pay", labels: { [nfd]: nfd }, riskTags: [nfd], requires: [nfd] });
    expect(checked).toMatchObject({
      kind: "ok",
      submission: { topic: "pay", labels: { café: "café" }, riskTags: ["café"], requires: ["café"] },
    });
  });

  test.each([
    [{ topic: "job.job.pay" }, "`topic` must not start with `job.job.`"],
    [{ topic: "pay", labels: { café: "1", "cafe\u0301": "2" } }, "two spellings of one key"],
    [{ topic: "pay", input: Number.NEGATIVE_INFINITY }, "`input` is a number out of range"],
    [
      { topic: "pay", input: { items: [1, { amount: Number.NaN }] } },
      "`input.items[1].amount` is a number out of range",
    ],
  ])("%j is refused", (raw, problem) => {
    const checked = checkSubmission(raw);
    expect(checked.kind === "bad" && checked.problems.join()).toContain(problem);
  });
});

describe("over HTTP", () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openTestGateway();
    const policy = `
version: 1
default_decision: allow
rules:
  - {id: send, match: {when: topic == "pay.send"}, decision: deny, reason: no}
  - {id: small, match: {when: "input.amount < 100.0"}, decision: require_approval, reason: small}
`;
    expect((await gateway.call("POST", "/api/v1/policy/publish", { body: { policy } })).statusCode).toBe(200);
  });
  afterAll(() => gateway.close());

  const post = async (path: string, body: object | string) => {
    const headers = { "content-type": "application/json" };
    const answer = await gateway.app.inject({ method: "POST", url: `/api/v1/${path}`, headers, payload: body });
    return { status: answer.statusCode, body: answer.json() as Record<string, unknown> };
  };

  test.each(["pay.send", "job.pay.send"])("L61: `%s` is denied by a condition about `pay.send`", async (topic) => {
    expect(await post("jobs", { topic })).toMatchObject({ status: 403, body: { rule_id: "send" } });
    expect(await post("policy/evaluate", { topic })).toMatchObject({ body: { rule_id: "send" } });
    expect(await post("policy/explain", { topic })).toMatchObject({ body: { rule_id: "send" } });
    const simulated = await post("policy/simulate", { requests: [{ topic }] });
    expect(simulated.body.decisions).toMatchObject([{ rule_id: "send" }]);
  });

  test.each(["demo.echo", "job.demo.echo"])(
    "L61: `%s` is evaluated, audited and dispatched as one topic",
    async (topic) => {
      const { body } = await post("jobs", { topic, input: { amount: 1_000 } });
      const job = (await gateway.world.store.load(JOBS, String(body.job_id)))?.value;
      if (!job) throw new Error("no job");
      expect(job.topic).toBe("demo.echo");
      expect(workPacket("test", job).body).toMatchObject({ topic: "demo.echo" });
      // CAP workers name their handlers by subject.
      expect(openWorkPacket("test", job, "key").body).toMatchObject({ topic: workSubject("demo.echo") });
      expect(decisionLine(job).facts).toMatchObject({ topic: "demo.echo" });
    },
  );

  test("L61: so does a submission whose input is stored by the client", async () => {
    const { blobs, clock } = gateway.world;
    await blobs.put("ctx:stored", new TextEncoder().encode('{"amount": -1e400}'), clock.now() + 60_000);
    const body = {
      kind: "job_request",
      jobId: "stored",
      topic: "demo.echo",
      contextPtr: "redis://ctx:stored",
    } as const;
    const origin = { kind: "arrived", signedBy: null, text: new Uint8Array() } as never;
    const packet = { traceId: "t", senderId: "client", createdAtMs: 0, body, origin };
    await expect(handleSubmission(gateway.engine, packet)).rejects.toThrow("`input.amount` is a number out of range");
    expect(await gateway.world.store.load(JOBS, "stored")).toBeNull();
  });

  test.each([
    ["jobs", '{"topic": "demo.echo", "input": {"amount": -1e400}}'],
    ["policy/evaluate", '{"topic": "demo.echo", "input": {"amount": -1e400}}'],
    ["policy/explain", '{"topic": "demo.echo", "input": {"amount": 1e999}}'],
    ["policy/simulate", '{"requests": [{"topic": "demo.echo", "input": {"amount": -1e400}}]}'],
  ])("L61: %s refuses a number that JSON cannot represent", async (path, body) => {
    const answer = await post(path, body);
    expect(answer).toMatchObject({ status: 400 });
    expect(answer.body.detail).toContain("`input.amount` is a number out of range");
  });
});
