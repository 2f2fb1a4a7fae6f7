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

/** For `--demo`: one topic is forbidden, so that a denial can be seen. */
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
    { id: "allow-the-rest", match: {}, decision: "allow", reason: "the demo policy allows everything else" },
  ],
};
