import { compile } from "../../../src/core/policy/compile.ts";
import type { Decision, PolicyRequest } from "../../../src/core/policy/decision.ts";
import type { DefaultEffect, PolicyDocument, Rule } from "../../../src/core/policy/document.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";

export const REQUEST: PolicyRequest = {
  jobId: "job-1",
  org: "default",
  topic: "demo.echo",
  priority: "batch",
  capability: null,
  riskTags: [],
  requires: [],
  labels: {},
  actorId: null,
  actorType: null,
  packId: null,
  input: null,
};

/** Allow-all rules with overrides. */
export function policy(rules: readonly Partial<Rule>[], defaultDecision: DefaultEffect = "deny"): PolicyDocument {
  return {
    version: null,
    defaultDecision,
    rules: rules.map((rule, index) => ({ id: `r${index}`, match: {}, decision: "allow", reason: "because", ...rule })),
  };
}

export const decide = (document: PolicyDocument, request: Partial<PolicyRequest> = {}): Decision =>
  evaluate(compile(document), { ...REQUEST, ...request });
