/** A rule of the policy: what it matches and what it decides. */
import type { ComponentChildren } from "preact";
import type { JobSafety, PolicyRuleTerms } from "../../../src/client/schema.ts";
import { Badge, type Tone } from "./badge.tsx";
import { Facts } from "./layout.tsx";
import { duration } from "./numbers.ts";

const TONES: Readonly<Record<string, Tone>> = {
  allow: "good",
  allow_with_constraints: "busy",
  require_approval: "warn",
  throttle: "wait",
  deny: "bad",
};

/** `require_approval` or `REQUIRE_APPROVAL`. */
export function EffectBadge({ effect }: { readonly effect: string }) {
  const name = effect.toLowerCase();
  return <Badge tone={TONES[name] ?? "quiet"}>{name.replaceAll("_", " ")}</Badge>;
}

const asText = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value) : String(value));

/** The parts of `match`, or of the terms, as lines: `topics: pay.>`. */
export function matchParts(match: object): readonly (readonly [string, string])[] {
  return Object.entries(match).flatMap(([part, value]) => {
    const name = part.replaceAll("_", " ");
    if (Array.isArray(value)) return value.length === 0 ? [] : [[name, value.map(asText).join(", ")] as const];
    if (typeof value !== "object" || value === null) return [[name, String(value)] as const];
    return Object.entries(value).map(
      ([key, inner]) => [`${name} ${key}`, Array.isArray(inner) ? inner.join(", ") : String(inner)] as const,
    );
  });
}

/** What shadow rules would have decided about a job. */
export function shadowFacts({
  shadow = [],
}: Pick<JobSafety, "shadow">): readonly (readonly [string, ComponentChildren])[] {
  if (shadow.length === 0) return [];
  return [
    [
      "shadow rules",
      <ul key="shadow">
        {shadow.map(({ rule_id, decision, fault }) => (
          <li key={rule_id}>
            <code>{rule_id}</code> would decide <EffectBadge effect={decision} />
            {fault !== undefined && <span> – its condition failed: {fault}</span>}
          </li>
        ))}
      </ul>,
    ],
  ];
}

export function RuleFacts({ rule }: { readonly rule: PolicyRuleTerms & { readonly position?: number } }) {
  const { id: _, position: __, match, decision, reason, approval, constraints, remediations, shadow, ...terms } = rule;
  const parts = matchParts(match);
  const asCode = ([name, text]: readonly [string, string]) => [name, <code key={name}>{text}</code>] as const;
  return (
    <Facts
      of={[
        ["decision", <EffectBadge key="effect" effect={decision} />],
        ["reason", reason],
        ["shadow", shadow && "evaluated and recorded, not enforced"],
        ...parts.map(asCode),
        ["matches", parts.length === 0 && "every request"],
        ...matchParts(terms).map(asCode),
        ["approval expires", approval?.expires_ms != null && duration(approval.expires_ms)],
        ["submitter approves", approval && (approval.by_submitter ? "allowed" : "refused")],
        ["constraints", constraints && <code>{JSON.stringify(constraints)}</code>],
        ["remediations", remediations?.map(({ title }) => title).join("; ")],
      ]}
    />
  );
}
