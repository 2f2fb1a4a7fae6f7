/** What changes between two policies: rules added, removed, changed and moved, each with its text before and after. */
import type { PolicyDiff, PolicyRuleTerms } from "../../../../src/client/schema.ts";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { counted } from "../../kit/numbers.ts";
import { EffectBadge, RuleFacts } from "../../kit/rule.tsx";
import { Empty } from "../../kit/state.tsx";

type Change = PolicyDiff["rules"][number];

const TONES: Readonly<Record<Change["kind"], Tone>> = {
  added: "good",
  removed: "bad",
  changed: "warn",
  moved: "busy",
};

export function Difference({ diff }: { readonly diff: PolicyDiff }) {
  const { before, after, version, default_decision: byDefault, rules } = diff;
  if (before === after) return <Empty title="no difference">It decides exactly like the policy in force.</Empty>;
  return (
    <div class="difference">
      <p>{summaryOf(rules)}</p>
      {version !== null && (
        <p>
          version: <del>{version.before ?? "none"}</del> → <ins>{version.after ?? "none"}</ins>
        </p>
      )}
      {byDefault !== null && (
        <p>
          if no rule matches: <EffectBadge effect={byDefault.before} /> → <EffectBadge effect={byDefault.after} />
        </p>
      )}
      <ul class="changes" aria-label="changes">
        {rules.slice(0, SHOWN_MAX).map((change) => (
          <ChangeRow key={`${change.kind} ${change.rule_id}`} change={change} />
        ))}
      </ul>
      {rules.length > SHOWN_MAX && <p class="soft">and {counted(rules.length - SHOWN_MAX, "further change")}</p>}
    </div>
  );
}

function ChangeRow({ change }: { readonly change: Change }) {
  const { kind, rule_id: id, before, after } = change;
  return (
    <li class={`change ${kind}`}>
      <details open={kind === "changed"}>
        <summary>
          <Badge tone={TONES[kind]}>{kind}</Badge> <span class="mono">{id}</span>{" "}
          <span class="soft">{detailOf(change)}</span>
        </summary>
        <div class="sides">
          {before !== undefined && <Side title="before" rule={before} parts={change.parts} />}
          {after !== undefined && <Side title="after" rule={after} parts={change.parts} />}
        </div>
      </details>
    </li>
  );
}

interface SideProps {
  readonly title: string;
  readonly rule: PolicyRuleTerms;
  /** Of a changed rule: only these are shown. */
  readonly parts: readonly string[] | undefined;
}

function Side({ title, rule, parts }: SideProps) {
  return (
    <section aria-label={`${rule.id}, ${title}`}>
      <h3 class="soft">{title}</h3>
      {parts === undefined ? <RuleFacts rule={rule} /> : <Parts rule={rule} parts={parts} />}
    </section>
  );
}

function Parts({ rule, parts }: { readonly rule: PolicyRuleTerms; readonly parts: readonly string[] }) {
  return (
    <dl class="facts">
      {parts.map((part) => (
        <div key={part}>
          <dt>{part.replaceAll("_", " ")}</dt>
          <dd>{valueText(rule, part)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** `match.risk_tags` of the rule. */
function valueText(rule: PolicyRuleTerms, part: string) {
  const value = part
    .split(".")
    .reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], rule);
  if (value === undefined) return <span class="soft">none</span>;
  if (part === "decision") return <EffectBadge effect={String(value)} />;
  return typeof value === "string" ? value : <code>{JSON.stringify(value)}</code>;
}

function detailOf({ kind, position, parts, from, to }: Change): string {
  if (kind === "moved") return `from position ${from} to ${to}`;
  if (kind === "changed") return (parts ?? []).join(", ").replaceAll("_", " ");
  return `at position ${position}`;
}

function summaryOf(rules: readonly Change[]): string {
  const kinds = Object.keys(TONES) as Change["kind"][];
  const parts = kinds.flatMap((kind) => {
    const found = rules.filter((change) => change.kind === kind).length;
    return found === 0 ? [] : [`${counted(found, "rule")} ${kind}`];
  });
  return parts.length === 0 ? "No rule changes." : `${parts.join(", ")}.`;
}

const SHOWN_MAX = 200;
