/** The rule that decided, with what accompanies its decision. */
import type { PolicyDecision } from "../../../../src/client/schema.ts";
import { href } from "../../data/location.ts";
import { Facts } from "../../kit/layout.tsx";
import { decimal, duration } from "../../kit/numbers.ts";
import { shadowFacts } from "../../kit/rule.tsx";
import { Time } from "../../kit/time.tsx";

export function DecisionFacts({ decision }: { readonly decision: PolicyDecision }) {
  const { rule_id: rule, snapshot, approval, constraints, remediations, until, limits = [] } = decision;
  return (
    <Facts
      of={[
        [
          "rule",
          rule === null ? (
            "none matches: the default decides"
          ) : (
            <a key="rule" class="mono" href={href("/policy", { rule })}>
              {rule}
            </a>
          ),
        ],
        ["next slot", until && <Time key="until" at={until} both />],
        ["approval expires", approval?.expires_ms != null && duration(approval.expires_ms)],
        ["submitter approves", approval && (approval.by_submitter ? "allowed" : "refused")],
        ["constraints", constraints && <code key="constraints">{JSON.stringify(constraints)}</code>],
        ["remediations", remediations?.map(({ title }) => title).join("; ")],
        ...limits.map(
          ({ rule_id, kind, by, key, used, max, within_ms, amount }) =>
            [
              `${kind} of ${rule_id}`,
              `${used === undefined ? "" : `${decimal(used)} used of `}${decimal(max)} in ${duration(within_ms)} by ${by} ${key}; this request adds ${decimal(amount)}`,
            ] as const,
        ),
        ...shadowFacts(decision),
        ["snapshot", <code key="snapshot">{snapshot}</code>],
      ]}
    />
  );
}
