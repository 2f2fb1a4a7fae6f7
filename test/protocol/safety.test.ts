import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Constraints, Decision, PolicyRequest, Remediation } from "../../src/core/policy/decision.ts";
import { MalformedError } from "../../src/protocol/bytes.ts";
import { decodeCheck, decodeDecision, encodeCheck, encodeDecision, explanationIn } from "../../src/protocol/safety.ts";
import { decideFrame, decodeDecisionFrame, encodeCheckFrame } from "../../src/protocol/safety-frame.ts";
import { json, text } from "./arbitraries.ts";
import { peerDecode, peerEncode } from "./peer.ts";

const texts = () => fc.array(text(), { minLength: 1, maxLength: 4 });
const filled = () => fc.string({ minLength: 1, maxLength: 30 });
const orNull = <T>(one: fc.Arbitrary<T>) => fc.option(one, { nil: null });
const limit = () => fc.nat({ max: Number.MAX_SAFE_INTEGER });

const anonymous = fc.record({
  jobId: text(),
  org: filled(),
  topic: filled(),
  priority: fc.constantFrom("interactive", "batch", "critical"),
  capability: orNull(text()),
  riskTags: fc.array(text(), { maxLength: 3 }),
  requires: fc.array(text(), { maxLength: 3 }),
  labels: fc.dictionary(text(), text(), { maxKeys: 4 }).map((labels) => ({ ...labels })),
  actorId: orNull(text()),
  actorType: orNull(fc.constantFrom("human" as const, "service" as const)),
  packId: orNull(text()),
  input: json(),
});

const caller = fc.record({ role: filled(), name: filled(), tenant: filled() }, { requiredKeys: [] });
const request: fc.Arbitrary<PolicyRequest> = fc
  .tuple(anonymous, fc.option(fc.record({ callerKey: filled(), caller }), { nil: {} }))
  .map(([fields, by]) => ({ ...fields, ...by }));

const optional = <T>(fields: { [K in keyof T]: fc.Arbitrary<NonNullable<T[K]>> }) =>
  fc.record(fields as Record<string, fc.Arbitrary<unknown>>, { requiredKeys: [] });

const constraints = optional<Constraints>({
  budgets: optional({
    maxRuntimeMs: limit(),
    maxRetries: fc.nat(),
    maxArtifactBytes: limit(),
    maxConcurrentJobs: fc.nat(),
  }),
  sandbox: optional({ isolated: fc.boolean(), networkAllowlist: texts(), fsReadOnly: texts(), fsReadWrite: texts() }),
  toolchain: optional({ allowedTools: texts(), allowedCommands: texts() }),
  diff: optional({ maxFiles: limit(), maxLines: limit(), denyPathGlobs: texts() }),
  redactionLevel: text(),
}) as fc.Arbitrary<Constraints>;

const remediation = fc.record(
  {
    id: text(),
    title: text(),
    summary: text(),
    replacementTopic: text(),
    replacementCapability: text(),
    addLabels: fc.dictionary(text(), text(), { minKeys: 1, maxKeys: 3 }).map((labels) => ({ ...labels })),
    removeLabels: texts(),
  },
  { requiredKeys: ["id", "title"] },
) as fc.Arbitrary<Remediation>;

const basic = { ruleId: orNull(filled()), reason: text(), snapshot: text() };
const remedied = { ...basic, remediations: fc.array(remediation, { minLength: 1, maxLength: 3 }) };
const decision: fc.Arbitrary<Decision> = fc.oneof(
  fc.record({ ...basic, effect: fc.constant("allow" as const) }),
  fc.record({ ...remedied, effect: fc.constantFrom("deny" as const, "throttle" as const) }),
  fc.record({ ...remedied, effect: fc.constant("allow_with_constraints" as const), constraints }),
  fc.record({
    ...basic,
    effect: fc.constant("require_approval" as const),
    approval: fc.record({ expiresMs: orNull(limit()), bySubmitter: fc.boolean() }),
  }),
);

describe("a check", () => {
  it("survives encoding and decoding", () => {
    fc.assert(
      fc.property(request, (one) => {
        expect(decodeCheck(encodeCheck(one))).toEqual(one);
      }),
    );
  });

  it("is encoded with CAP's names and numbers", () => {
    const one: PolicyRequest = {
      jobId: "j",
      org: "acme",
      topic: "a.b",
      priority: "critical",
      capability: "cap",
      riskTags: ["r"],
      requires: ["q"],
      labels: { "mcp.tool": "rm" },
      actorId: "me",
      actorType: "service",
      packId: "p",
      input: { amount: 82_000 },
    };
    const content = '{"amount":82000}';
    expect(peerDecode("PolicyCheckRequest", encodeCheck(one))).toEqual({
      jobId: "j",
      topic: "a.b",
      tenant: "acme",
      priority: 3,
      principalId: "me",
      labels: { "mcp.tool": "rm" },
      meta: {
        tenantId: "acme",
        actorId: "me",
        actorType: 2,
        capability: "cap",
        riskTags: ["r"],
        requires: ["q"],
        packId: "p",
      },
      inputContent: Buffer.from(content),
      inputContentType: "application/json",
      inputSizeBytes: String(content.length),
    });
  });

  it("of third parties gets defaults for missing fields, and merges labels", () => {
    const bare = peerEncode("PolicyCheckRequest", { topic: "a.b", principalId: "me", estimatedCost: 1.5 });
    expect(decodeCheck(bare)).toMatchObject({ org: "default", priority: "batch", actorId: "me", input: null });
    const merged = peerEncode("PolicyCheckRequest", {
      topic: "a.b",
      labels: { a: "outer" },
      meta: { tenantId: "acme", labels: { a: "inner", b: "inner" } },
    });
    expect(decodeCheck(merged)).toMatchObject({ org: "acme", labels: { a: "outer", b: "inner" } });
  });

  it("decodes JSON and text inputs", () => {
    const withInput = (inputContent: Uint8Array, inputContentType: string) =>
      peerEncode("PolicyCheckRequest", { topic: "t", inputContent, inputContentType });
    expect(decodeCheck(withInput(Buffer.from("hi"), "text/plain; charset=utf-8")).input).toBe("hi");
    expect(decodeCheck(withInput(Buffer.from([1]), "application/octet-stream")).input).toBeNull();
    expect(decodeCheck(withInput(Buffer.from("[1]"), "")).input).toEqual([1]);
    expect(() => decodeCheck(withInput(Buffer.from("{"), "application/json"))).toThrow(MalformedError);
    expect(() => decodeCheck(withInput(Buffer.from([0xff]), "text/plain"))).toThrow(MalformedError);
  });

  it("distinguishes an omitted input from no input", () => {
    const bare = decodeCheck(peerEncode("PolicyCheckRequest", { topic: "t" }));
    expect(bare.inputOmitted).toBeUndefined();
    for (const bytes of [0, 60_000]) {
      const one: PolicyRequest = { ...bare, inputOmitted: { bytes } };
      expect(decodeCheck(encodeCheck(one))).toEqual(one);
    }
    const ours = peerDecode("PolicyCheckRequest", encodeCheck({ ...bare, inputOmitted: { bytes: 60_000 } }));
    expect(ours).toMatchObject({ inputSizeBytes: "60000", inputOmitted: true });
    const others = [
      { inputSizeBytes: 60_000 },
      { inputSizeBytes: 60_000, inputContent: Buffer.from("the beginn"), inputContentType: "text/plain" },
      { inputContent: Buffer.from([1]), inputContentType: "application/octet-stream" },
    ];
    for (const message of others) {
      const read = decodeCheck(peerEncode("PolicyCheckRequest", { topic: "t", ...message }));
      expect(read).toMatchObject({ input: null, inputOmitted: {} });
    }
  });

  it.each([
    ["no topic", peerEncode("PolicyCheckRequest", { tenant: "acme" })],
    ["invalid bytes", Uint8Array.of(0xff, 0xff)],
  ])("with %s is malformed", (_, bytes) => {
    expect(() => decodeCheck(bytes)).toThrow(MalformedError);
  });
});

describe("a decision", () => {
  it("survives encoding and decoding", () => {
    fc.assert(
      fc.property(decision, (one) => {
        expect(decodeDecision(encodeDecision(one))).toEqual(one);
      }),
    );
  });

  it("is encoded with CAP's names and numbers", () => {
    const one: Decision = {
      effect: "require_approval",
      ruleId: "r",
      reason: "why",
      snapshot: "s",
      approval: { expiresMs: 5_000, bySubmitter: true },
    };
    expect(peerDecode("PolicyCheckResponse", encodeDecision(one, ["x"]))).toEqual({
      decision: 3,
      reason: "why",
      policySnapshot: "s",
      ruleId: "r",
      approvalRequired: true,
      approvalExpiresMs: "5000",
      approvalBySubmitter: true,
      explanation: Buffer.from('["x"]'),
    });
    expect(explanationIn(encodeDecision(one, ["x"]))).toEqual(["x"]);
    const numbers = ["allow", "deny", "throttle", "allow_with_constraints"] as const;
    const wire = numbers.map(
      (effect) => peerDecode("PolicyCheckResponse", encodeDecision({ ...one, effect })).decision,
    );
    expect(wire).toEqual([1, 2, 4, 5]);
  });

  it.each([
    ["quarantine", { decision: 6 }, "QUARANTINE"],
    ["redaction", { decision: 7 }, "REDACT"],
    ["a redacted input", { decision: 1, redactedContextPtr: "redis://x" }, "redacted input"],
  ])("of third parties with %s becomes a denial with that reason", (_, message, expected) => {
    const read = decodeDecision(
      peerEncode("PolicyCheckResponse", { ...message, reason: "secrets", policySnapshot: "s" }),
    );
    expect(read).toMatchObject({ effect: "deny", ruleId: null, snapshot: "s" });
    expect(read.reason).toContain(expected);
    expect(read.reason).toContain("secrets");
  });

  it("that allows and requires approval becomes require_approval", () => {
    const read = decodeDecision(peerEncode("PolicyCheckResponse", { decision: 1, approvalRequired: true }));
    expect(read).toEqual({ effect: "require_approval", ruleId: null, reason: "", snapshot: "" });
  });

  it("clamps limits beyond the safe integers", () => {
    const message = { decision: 5, constraints: { budgets: { maxRuntimeMs: "9223372036854775807" } } };
    const read = decodeDecision(peerEncode("PolicyCheckResponse", message));
    expect(read.constraints).toEqual({ budgets: { maxRuntimeMs: Number.MAX_SAFE_INTEGER } });
  });

  it("clamps limits that are 32-bit integers in CAP", () => {
    const constraints = { budgets: { maxRetries: 2 ** 40, maxRuntimeMs: 2 ** 40 } };
    const one = { effect: "allow_with_constraints", ruleId: null, reason: "", snapshot: "", constraints } as const;
    expect(decodeDecision(encodeDecision(one)).constraints?.budgets).toEqual({
      maxRetries: 2 ** 31 - 1,
      maxRuntimeMs: 2 ** 40,
    });
  });

  it.each([
    ["missing", {}],
    ["number 0", { decision: 0 }],
    ["of an unknown number", { decision: 99 }],
  ])("that is %s is malformed", (_, message) => {
    expect(() => decodeDecision(peerEncode("PolicyCheckResponse", message))).toThrow(MalformedError);
  });
});

describe("a frame", () => {
  it("decides each check on its own; a malformed check does not affect the others", () => {
    fc.assert(
      fc.property(fc.array(fc.option(decision, { nil: null }), { maxLength: 5 }), (decisions) => {
        const frame = encodeCheckFrame(decisions.map((_, at) => Uint8Array.of(at)));
        const answers = decideFrame(frame, ([at]) => {
          const one = decisions[at ?? 0];
          if (!one) throw new MalformedError("no");
          return encodeDecision(one);
        });
        expect(decodeDecisionFrame(answers, decisions.length)).toEqual(
          decisions.map((one) =>
            one ? { kind: "decided", decision: one } : { kind: "malformed", error: "INVALID_ARGUMENT: no" },
          ),
        );
      }),
    );
  });

  it("is malformed with fewer decisions than checks, and with a decision that is empty", () => {
    const answers = decideFrame(encodeCheckFrame([Uint8Array.of(1)]), () => Uint8Array.of());
    expect(decodeDecisionFrame(answers, 1)).toMatchObject([{ kind: "malformed" }]);
    expect(() => decodeDecisionFrame(answers, 2)).toThrow(MalformedError);
    expect(() => decideFrame(Uint8Array.of(0xff), () => Uint8Array.of())).toThrow(MalformedError);
  });
});
