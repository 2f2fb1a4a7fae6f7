/**
 * One policy for both engines. Of ten rules, eight match a topic of a tenant, one a topic suffix, one has a condition. Each
 * topic matches one rule, because Cedar has no first match: a `forbid` wins over any `permit`.
 */
import type { PolicyRequest } from "../../src/core/policy/decision.ts";
import type { PolicyDocument, Rule } from "../../src/core/policy/document.ts";

export function policyOf(rules: number): PolicyDocument {
  return { version: null, defaultDecision: "deny", rules: Array.from({ length: rules }, (_, index) => ruleOf(index)) };
}

/** Three of four requests match a rule, in the proportion of the rule kinds. */
export function requestsOf(rules: number): readonly PolicyRequest[] {
  return Array.from({ length: REQUESTS }, (_, index) => {
    // A stride coprime to the number of rules visits all of them.
    const rule = (index * 7) % rules;
    return requestFor(rule, index % 4 === 3);
  });
}

export function cedarOf({ rules }: PolicyDocument): string {
  return rules.map(cedarRule).join("\n");
}

const REQUESTS = 1_000;
const TENANTS = 20;
const tenantOf = (index: number) => `tenant-${index % TENANTS}`;

type Kind = "topic" | "ending" | "condition";

function kindOf(index: number): Kind {
  if (index % 10 === 8) return "ending";
  return index % 10 === 9 ? "condition" : "topic";
}

function ruleOf(index: number): Rule {
  const rule = { id: `rule-${index}`, decision: index % 3 === 0 ? "deny" : "allow", reason: "measured" } as const;
  switch (kindOf(index)) {
    case "topic":
      return { ...rule, match: { tenants: [tenantOf(index)], topics: [`service-${index}.run`] } };
    case "ending":
      return { ...rule, match: { topics: [`${index % 20 === 8 ? "*" : "**"}.delete-${index}`] } };
    case "condition":
      return {
        ...rule,
        match: { topics: [`pay-${index}.>`], when: `input.amount > ${1_000 + index} && labels.env == "prod"` },
      };
  }
}

function requestFor(index: number, matchesNone: boolean): PolicyRequest {
  const topics = { topic: `service-${index}.run`, ending: `table.delete-${index}`, condition: `pay-${index}.card.now` };
  return {
    jobId: `job-${index}`,
    org: tenantOf(index),
    topic: matchesNone ? `other-${index}.run` : topics[kindOf(index)],
    priority: "batch",
    capability: "write",
    riskTags: ["money"],
    requires: [],
    labels: { env: "prod", team: "billing" },
    actorId: "agent-1",
    actorType: "service",
    packId: null,
    input: { amount: index % 4 === 0 ? 500 : 5_000 },
  };
}

function cedarRule({ decision, match }: Rule): string {
  const effect = decision === "allow" ? "permit" : "forbid";
  const [topic = ""] = match.topics ?? [];
  const [tenant] = match.tenants ?? [];
  if (tenant !== undefined) {
    return `${effect}(principal == Tenant::"${tenant}", action == Action::"submit", resource == Topic::"${topic}");`;
  }
  const like = topic.replace("**", "*").replace(">", "*");
  const condition = match.when === undefined ? "" : ` && ${match.when.replaceAll(/input|labels/g, "context.$&")}`;
  return `${effect}(principal, action == Action::"submit", resource) when { context.topic like "${like}"${condition} };`;
}
