/** Policies of the pictures. Demo jobs are decided as by the demo policy. */
import type { Client } from "../../../src/client/client.ts";

const POLICY = `# Safety policy of the support agents.
version: "2026-11"
default_decision: deny

rules:
  - id: no-personal-data
    match: {risk_tags: [pii], labels: {env: prod}}
    decision: deny
    reason: personal data stays inside; use the redacted copy

  - id: large-refunds
    match:
      topics: ["refund.>", demo.approve]
      when: input.amount > 1000.0
    decision: require_approval
    reason: refunds above 1,000 EUR need a person
    approval: {expires: 4h, by_submitter: true}

  - id: shell-sandbox
    match:
      mcp: {servers: [shell], tools: ["run_*"]}
    decision: allow_with_constraints
    reason: commands run in a sandbox without network
    constraints:
      budgets: {max_runtime_ms: 60000, max_retries: 1}
      sandbox: {isolated: true, fs_read_write: [/work]}

  - id: refund-rate
    match: {topics: ["refund.>"]}
    decision: throttle
    reason: refunds of one caller are spread out
    throttle: {rate: 100/1m, by: caller}

  - id: approve-demo
    match: {topics: [demo.approve]}
    decision: require_approval
    reason: the demo asks for an approval
    approval: {by_submitter: true}

  - id: allow-the-rest
    match: {}
    decision: allow
    reason: everything else may run
`;

/** A stricter limit, and a rule more. */
export const DRAFT = POLICY.replace("amount > 1000.0", "amount > 100.0").replace(
  "  - id: allow-the-rest",
  `  - id: no-deploys-at-night
    match: {topics: ["deploy.>"]}
    decision: deny
    reason: deployments wait for the morning

  - id: allow-the-rest`,
);

export const REQUESTS = [
  { topic: "refund.order", input: { amount: 250 } },
  { topic: "refund.order", input: { amount: 80 } },
  { topic: "deploy.web" },
  { topic: "deploy.api", labels: { env: "prod" } },
]
  .map((request) => JSON.stringify(request))
  .join("\n");

export async function publishPolicies(api: Client): Promise<void> {
  const earlier = POLICY.replace("amount > 1000.0", "amount > 5000.0").replace("2026-11", "2026-10");
  await api.request("POST /policy/publish", { body: { policy: earlier, name: "October review", note: "CHG-12" } });
  const note = "lower limit for refunds, agreed with finance; CHG-31";
  await api.request("POST /policy/publish", { body: { policy: POLICY, name: "November review", note } });
}
