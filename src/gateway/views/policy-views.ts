/** Responses about policies and decisions, in the key names of the policy file; decisions are upper case. */
import type { PolicyRelease } from "../../core/model/policy-release.ts";
import type { Decision, ShadowVerdict } from "../../core/policy/decision.ts";
import type { PolicyDiff, RuleChange } from "../../core/policy/diff.ts";
import type { Rule } from "../../core/policy/document.ts";
import type { Simulation } from "../../core/policy/evaluate.ts";
import type { Explanation } from "../../core/policy/explain.ts";
import type { LiveKernel } from "../../core/policy/kernel.ts";
import type { Limit } from "../../core/policy/limits/limit.ts";
import { toFileKeys } from "../../core/policy/write-policy.ts";
import type { LimitPreview, LimitUse } from "../../engine/limits/index.ts";
import type { KeyNames } from "./key-names.ts";

export function inForceView({ inForce }: LiveKernel): object {
  const { document, hash } = inForce.snapshot;
  return {
    source: withoutDirectory(inForce.source),
    version: document.version,
    snapshot: hash,
    rules: document.rules.length,
    default_decision: document.defaultDecision,
    release_id: inForce.releaseId,
  };
}

/** `uses`: how much of the limits is used; absent where nothing is counted. */
export function decisionView(decision: Decision, uses?: readonly LimitUse[]): Record<string, unknown> {
  const { effect, ruleId, limits = [], untilMs, atMs, isTimed, shadow, ...rest } = decision;
  const shown = uses?.map(({ limit, used }) => ({ ...limitView(limit), used })) ?? limits.map(limitView);
  return {
    decision: effect.toUpperCase(),
    rule_id: ruleId,
    ...(toFileKeys(rest) as object),
    ...(untilMs === undefined ? {} : { until: new Date(untilMs).toISOString() }),
    ...(shown.length === 0 ? {} : { limits: shown }),
    ...evaluationView(decision),
  };
}

function limitView({ kind, ruleId, by, key, max, withinMs, amount }: Limit): object {
  return { rule_id: ruleId, kind, by, key, max, within_ms: withinMs, amount };
}

/** When a decision was made, and what shadow rules would have decided. */
export function evaluationView({ atMs, isTimed, shadow }: Decision): Record<string, unknown> {
  return {
    ...(atMs === undefined ? {} : { evaluated_at: new Date(atMs).toISOString() }),
    ...(isTimed === undefined ? {} : { time_dependent: true }),
    ...(shadow === undefined ? {} : { shadow: shadow.map(shadowView) }),
  };
}

const shadowView = ({ ruleId, effect, fault }: ShadowVerdict): object => ({
  rule_id: ruleId,
  decision: effect.toUpperCase(),
  ...(fault === undefined ? {} : { fault }),
});

/**
 * `preview`: the limits as they are counted now; one that is exceeded decides before later rules. Null: nothing is
 * counted. `isVisible` selects the rules that the caller can see.
 */
export function explanationView(
  explanation: Explanation,
  preview: LimitPreview | null,
  isVisible: (ruleId: string) => boolean,
): object {
  const decision = preview?.decision ?? explanation.decision;
  const end = explanation.tried.findIndex(({ ruleId }) => ruleId === decision.ruleId);
  const before = end === -1 ? explanation.tried : explanation.tried.slice(0, end);
  const tried = before.filter(({ ruleId }) => isVisible(ruleId));
  return {
    ...decisionView(decision, preview?.limits),
    tried: tried.map(({ ruleId, mismatches }) => ({ rule_id: ruleId, mismatches })),
    omitted: (end === -1 ? explanation.omitted : 0) + before.length - tried.length,
  };
}

/** With `before`, adds the decisions of the policy in force. */
export function simulationView(
  { snapshot, decisions, limits, byEffect, byRule }: Simulation,
  before: Simulation | null,
  isVisible: (ruleId: string) => boolean,
): object {
  const previous = (at: number) => before?.decisions[at];
  return {
    snapshot,
    decisions: decisions.map((decision, at) => ({
      ...decisionView(decision, limits[at]),
      ...(before === null ? {} : { in_force: previous(at)?.effect.toUpperCase() }),
    })),
    by_decision: Object.fromEntries(Object.entries(byEffect).map(([effect, count]) => [effect.toUpperCase(), count])),
    by_rule: byRule
      .filter(({ ruleId, count }) => count > 0 || ruleId === null || isVisible(ruleId))
      .map(({ ruleId, count }) => ({ rule_id: ruleId, count })),
    ...(before === null
      ? {}
      : { changed: decisions.filter((decision, at) => decision.effect !== previous(at)?.effect).length }),
  };
}

export function diffView({ before, after, version, defaultDecision, rules }: PolicyDiff): object {
  return { before, after, version, default_decision: defaultDecision, rules: rules.map(changeView) };
}

function changeView(change: RuleChange): object {
  const { before, after, ...rest } = { before: undefined, after: undefined, ...change };
  return {
    ...(toFileKeys(rest) as object),
    ...(before === undefined ? {} : { before: toFileKeys(before) }),
    ...(after === undefined ? {} : { after: toFileKeys(after) }),
  };
}

export function ruleView(rule: Rule, position: number): object {
  return { position, ...(toFileKeys(rule) as object) };
}

export function releaseView(release: PolicyRelease, inForceId: string | null, names: KeyNames): object {
  const { id, snapshot, name, version, rules, by, atMs, note } = release;
  const at = new Date(atMs).toISOString();
  const shown = {
    name: withoutDirectory(name),
    version,
    rules,
    by: withoutDirectory(by),
    by_name: names.get(by) ?? null,
  };
  return { release_id: id, snapshot, ...shown, at, note, in_force: id === inForceId };
}

/** `file /srv/policy.yaml` → `file policy.yaml`. Paths of the host are not shown to clients. */
export const withoutDirectory = (name: string): string => name.replace(/^(file )?[^\s`]*[\\/]/, "$1");
