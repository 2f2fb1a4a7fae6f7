/** The policies in force when no file is given. They are documents like any other, so that operators can read them. */
import type { PolicyDocument } from "./document.ts";

/** Everything is allowed for the tenant that needs no header, and nothing for anybody else. */
export const DEFAULT_POLICY: PolicyDocument = {
  version: "built-in",
  defaultDecision: "deny",
  rules: [
    {
      id: "allow-tenant-default",
      match: { tenants: ["default"] },
      decision: "allow",
      reason: "the built-in policy allows everything for the tenant `default`",
    },
  ],
};

/** For `--demo`: a topic for every decision that can be seen. */
export const DEMO_POLICY: PolicyDocument = {
  version: "built-in-demo",
  defaultDecision: "deny",
  rules: [
    {
      id: "deny-demo-forbidden",
      match: { topics: ["demo.forbidden"] },
      decision: "deny",
      reason: "the demo policy forbids this topic, to show what a denial looks like",
    },
    {
      id: "approve-demo-approve",
      match: { topics: ["demo.approve"] },
      decision: "require_approval",
      reason: "the demo policy asks for approval of this topic, to show how one is given",
      // On one machine without keys whoever submits is also whoever approves.
      approval: { expiresMs: null, bySubmitter: true },
    },
    {
      id: "limit-demo-limited",
      match: { topics: ["demo.limited"] },
      decision: "allow_with_constraints",
      reason: "the demo policy limits this topic, to show what constraints look like",
      constraints: { budgets: { maxRuntimeMs: 10_000, maxRetries: 1 } },
    },
    { id: "allow-the-rest", match: {}, decision: "allow", reason: "the demo policy allows everything else" },
  ],
};
