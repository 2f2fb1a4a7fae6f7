/** Policies and decisions as clients see them: in the names of the policy file, decisions in capitals as on jobs. */
import type { PolicyRelease } from "../../core/model/policy-release.ts";
import type { Decision } from "../../core/policy/decision.ts";
import type { PolicyDiff } from "../../core/policy/diff.ts";
import type { Rule } from "../../core/policy/document.ts";
import type { Simulation } from "../../core/policy/evaluate.ts";
import type { Explanation } from "../../core/policy/explain.ts";
import type { LiveKernel } from "../../core/policy/kernel.ts";

/** The policy in force in this process, for `/status`. */
export function inForceView({ inForce }: LiveKernel): object {
  const { document, hash } = inForce.snapshot;
  return {
    source: inForce.source,
    version: document.version,
    snapshot: hash,
    rules: document.rules.length,
    default_decision: document.defaultDecision,
    release_id: inForce.releaseId,
  };
}

export function decisionView({ effect, ruleId, ...rest }: Decision): Record<string, unknown> {
  return { decision: effect.toUpperCase(), rule_id: ruleId, ...(fileNames(rest) as object) };
}

/** `isVisible` says which rules the caller may know of. */
export function explanationView(explanation: Explanation, isVisible: (ruleId: string) => boolean): object {
  const tried = explanation.tried.filter(({ ruleId }) => isVisible(ruleId));
  return {
    ...decisionView(explanation.decision),
    tried: tried.map(({ ruleId, mismatches }) => ({ rule_id: ruleId, mismatches })),
    omitted: explanation.omitted + explanation.tried.length - tried.length,
  };
}

/** With `before`, what the policy in force decides beside it. */
export function simulationView(
  { snapshot, decisions, byEffect, byRule }: Simulation,
  before: Simulation | null,
  isVisible: (ruleId: string) => boolean,
): object {
  const was = (at: number) => before?.decisions[at];
  return {
    snapshot,
    decisions: decisions.map((decision, at) => ({
      ...decisionView(decision),
      ...(before === null ? {} : { in_force: was(at)?.effect.toUpperCase() }),
    })),
    by_decision: Object.fromEntries(Object.entries(byEffect).map(([effect, count]) => [effect.toUpperCase(), count])),
    by_rule: byRule
      .filter(({ ruleId, count }) => count > 0 || ruleId === null || isVisible(ruleId))
      .map(({ ruleId, count }) => ({ rule_id: ruleId, count })),
    ...(before === null
      ? {}
      : { changed: decisions.filter((decision, at) => decision.effect !== was(at)?.effect).length }),
  };
}

export function diffView({ before, after, version, defaultDecision, rules }: PolicyDiff): object {
  return { before, after, version, default_decision: defaultDecision, rules: rules.map(fileNames) };
}

export function ruleView(rule: Rule, position: number): object {
  return { position, ...(fileNames(rule) as object) };
}

export function releaseView(release: PolicyRelease, inForceId: string | null): object {
  const { id, snapshot, name, version, rules, by, atMs, note } = release;
  const at = new Date(atMs).toISOString();
  return { release_id: id, snapshot, name, version, rules, by, at, note, in_force: id === inForceId };
}

/** Labels are the author's own words; every other key is ours. */
function fileNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(fileNames);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key.replace(/[A-Z]/g, (deadLetter) => `_${deadLetter.toLowerCase()}`),
      key === "labels" || key === "addLabels" ? inner : fileNames(inner),
    ]),
  );
}
