/** The rules in force, in the order in which they are tried; the first that matches decides. */
import { useEffect, useRef } from "preact/hooks";
import type { PolicyRule, PolicyRules } from "../../../../src/client/schema.ts";
import { href, hrefWith, param } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Filters, SelectFilter, TextFilter } from "../../kit/filters.tsx";
import { Facts, Section } from "../../kit/layout.tsx";
import { count, counted } from "../../kit/numbers.ts";
import { EffectBadge, matchParts, RuleFacts } from "../../kit/rule.tsx";
import { Empty, Show } from "../../kit/state.tsx";

export function RulesView() {
  const rules = useResource("policy rules", (signal) => api.value.request("GET /policy/rules", {}, { signal }), {
    refreshMs: REFRESH_MS,
  });
  return (
    <Show of={rules} what="the policy">
      {(value) => (
        <>
          <InForce rules={value} />
          <Filters names={["rule", "decision", "text"]}>
            <TextFilter name="text" label="Rules with" placeholder="id, topic, reason …" />
            <SelectFilter name="decision" label="Decision" options={EFFECTS} />
          </Filters>
          <RuleList rules={value} />
        </>
      )}
    </Show>
  );
}

function InForce({ rules: { source, version, snapshot, default_decision, items } }: { readonly rules: PolicyRules }) {
  return (
    <Section title="In force" about={`${counted(items.length, "rule")}, tried from the first to the last`}>
      <div class="fact-columns">
        <Facts
          of={[
            ["source", source],
            ["version", version],
          ]}
        />
        <Facts
          of={[
            ["snapshot", <code key="snapshot">{snapshot}</code>],
            ["if no rule matches", <EffectBadge key="default" effect={default_decision} />],
          ]}
        />
      </div>
    </Section>
  );
}

function RuleList({ rules: { items } }: { readonly rules: PolicyRules }) {
  const chosen = param("rule");
  const [text, decision] = [param("text").toLowerCase(), param("decision")];
  const shown = items.filter((rule) => (decision === "" || rule.decision === decision) && mentions(rule, text));
  const chosenAt = shown.findIndex(({ id }) => id === chosen);
  const pages = Math.max(1, Math.ceil(shown.length / PAGE));
  const asked = param("page") === "" && chosenAt >= 0 ? Math.floor(chosenAt / PAGE) + 1 : Number(param("page"));
  const page = Math.min(pages, Math.max(1, Math.floor(asked) || 1));
  if (items.length === 0)
    return <Empty title="the policy has no rules">The default decides about every request.</Empty>;
  if (shown.length === 0) return <Empty title="no rules match the filter" />;
  return (
    <>
      <ol class="rule-list" aria-label="rules">
        {shown.slice((page - 1) * PAGE, page * PAGE).map((rule) => (
          <RuleCard key={rule.id} rule={rule} isChosen={rule.id === chosen} />
        ))}
      </ol>
      {pages > 1 && (
        <nav class="buttons" aria-label="pages of rules">
          {page > 1 && (
            <a class="button" href={hrefWith({ page: String(page - 1) })}>
              Earlier rules
            </a>
          )}
          <span class="soft pages-text">
            page {count(page)} of {count(pages)}
          </span>
          {page < pages && (
            <a class="button" href={hrefWith({ page: String(page + 1) })}>
              Later rules
            </a>
          )}
        </nav>
      )}
    </>
  );
}

function RuleCard({ rule, isChosen }: { readonly rule: PolicyRule; readonly isChosen: boolean }) {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isChosen) element.current?.scrollIntoView({ block: "center" });
  }, [isChosen]);
  return (
    <li class={isChosen ? "rule is-chosen" : "rule"} ref={element} aria-current={isChosen ? "true" : undefined}>
      <div class="rule-head">
        <span class="soft">{count(rule.position)}</span>
        <h2 class="mono">
          <a href={href("/policy", { rule: rule.id })}>{rule.id}</a>
        </h2>
        <EffectBadge effect={rule.decision} />
        <a class="button small ghost rule-try" href={tryHref(rule)}>
          Try a request
        </a>
      </div>
      <RuleFacts rule={rule} />
    </li>
  );
}

/** A request that the names of the rule match: the reader changes the rest. */
function tryHref({ match }: PolicyRule): string {
  const first = (names: readonly string[] | undefined) => names?.[0];
  const request = {
    topic: first(match.topics)?.replace(/[*>]+/g, "x") ?? "demo.echo",
    tenant_id: first(match.tenants),
    risk_tags: match.risk_tags?.slice(0, 1),
    capability: first(match.capabilities),
    labels: match.labels,
  };
  return href("/policy", { view: "try", request: JSON.stringify(request) });
}

function mentions({ id, reason, match }: PolicyRule, text: string): boolean {
  if (text === "") return true;
  return [id, reason, ...matchParts(match).flat()].some((part) => part.toLowerCase().includes(text));
}

const EFFECTS = ["allow", "allow_with_constraints", "require_approval", "throttle", "deny"];
const PAGE = 50;
const REFRESH_MS = 15_000;
