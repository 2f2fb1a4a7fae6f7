/** Reference evaluation: rules in order, without index and CEL. */
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import type { Match, PolicyDocument, Rule } from "../../../src/core/policy/document.ts";

/** Conditions and their meaning; null if they fail. */
export const CONDITIONS: Readonly<Record<string, (request: PolicyRequest) => boolean | null>> = {
  "input.n > 1": ({ input }) => {
    const n = (input as { readonly n?: unknown } | null)?.n;
    return typeof n === "number" ? n > 1 : null;
  },
  'tenant == "acme" || "money" in risk_tags': ({ org, riskTags }) => org === "acme" || riskTags.includes("money"),
  'labels.env == "prod"': ({ labels }) => (labels.env === undefined ? null : labels.env === "prod"),
};

export function referenceDecision(
  document: PolicyDocument,
  request: PolicyRequest,
): { readonly ruleId: string | null; readonly effect: string } {
  for (const rule of document.rules) {
    const effect = plainlyMatches(rule.match, request) ? effectOf(rule, request) : null;
    if (effect !== null) return { ruleId: rule.id, effect };
  }
  return { ruleId: null, effect: document.defaultDecision };
}

function effectOf({ match, decision }: Rule, request: PolicyRequest): string | null {
  const answer = match.when === undefined ? true : (CONDITIONS[match.when]?.(request) ?? null);
  if (answer !== null) return answer ? decision : null;
  if (decision === "allow") return null;
  return decision === "allow_with_constraints" ? "deny" : decision;
}

function plainlyMatches(match: Match, request: PolicyRequest): boolean {
  const among = (wanted: readonly string[] | undefined, have: readonly (string | null)[]) =>
    wanted === undefined || have.some((name) => name !== null && wanted.includes(name));
  const like = (wanted: readonly string[] | undefined, label: string) =>
    wanted === undefined ||
    wanted.some((pattern) => {
      const value = request.labels[label];
      return (
        value !== undefined && (pattern.endsWith("*") ? value.startsWith(pattern.slice(0, -1)) : value === pattern)
      );
    });
  return (
    among(match.tenants, [request.org]) &&
    among(match.capabilities, [request.capability]) &&
    among(match.actorIds, [request.actorId]) &&
    among(match.actorTypes, [request.actorType]) &&
    among(match.packIds, [request.packId]) &&
    among(match.riskTags, request.riskTags) &&
    among(match.requires, request.requires) &&
    (match.topics?.some((pattern) => regularExpression(pattern).test(withoutPrefix(request.topic))) ?? true) &&
    Object.entries(match.labels ?? {}).every(
      ([key, value]) => key in request.labels && (value === "*" || request.labels[key] === value),
    ) &&
    like(match.mcp?.servers, "mcp.server") &&
    like(match.mcp?.tools, "mcp.tool")
  );
}

function regularExpression(pattern: string): RegExp {
  const parts = withoutPrefix(pattern)
    .split(".")
    .map((part) => (part === "*" ? "[^.]+" : part === ">" || part === "**" ? ".+" : part));
  return new RegExp(`^${parts.join("\\.")}$`);
}

function withoutPrefix(topic: string): string {
  return topic.startsWith("job.") ? topic.slice(4) : topic;
}
