/**
 * The difference between two policies. Rules are identified by id. `moved` contains the fewest rules that explain the
 * new order: a rule that shifts because another was added above has not moved.
 */
import { canonicalText } from "../model/json.ts";
import type { Snapshot } from "./compile.ts";
import type { DefaultEffect, Rule } from "./document.ts";

export interface PolicyDiff {
  /** Hashes. */
  readonly before: string;
  readonly after: string;
  readonly version: { readonly before: string | null; readonly after: string | null } | null;
  readonly defaultDecision: { readonly before: DefaultEffect; readonly after: DefaultEffect } | null;
  /** Removed rules in the old order, then the rest in the new order. A rule may be changed and moved. */
  readonly rules: readonly RuleChange[];
}

/** Positions count from 1. */
export type RuleChange =
  | { readonly kind: "removed"; readonly ruleId: string; readonly position: number; readonly before: Rule }
  | { readonly kind: "added"; readonly ruleId: string; readonly position: number; readonly after: Rule }
  | ChangedRule
  | { readonly kind: "moved"; readonly ruleId: string; readonly from: number; readonly to: number };

export interface ChangedRule {
  readonly kind: "changed";
  readonly ruleId: string;
  /** Names as in the file: `decision`, `match.risk_tags`. */
  readonly parts: readonly string[];
  readonly before: Rule;
  readonly after: Rule;
}

export function diff(before: Snapshot, after: Snapshot): PolicyDiff {
  const [old, now] = [before.document, after.document];
  return {
    before: before.hash,
    after: after.hash,
    version: old.version === now.version ? null : { before: old.version, after: now.version },
    defaultDecision:
      old.defaultDecision === now.defaultDecision ? null : { before: old.defaultDecision, after: now.defaultDecision },
    rules: changesOf(old.rules, now.rules),
  };
}

function changesOf(before: readonly Rule[], after: readonly Rule[]): readonly RuleChange[] {
  const places = new Map(before.map((rule, index) => [rule.id, { rule, index }]));
  const kept = new Set(after.map(({ id }) => id));
  const changes: RuleChange[] = [...places.values()]
    .filter(({ rule }) => !kept.has(rule.id))
    .map(({ rule, index }) => ({ kind: "removed", ruleId: rule.id, position: index + 1, before: rule }));
  const inPlace = longestAscending(after.flatMap(({ id }) => places.get(id)?.index ?? []));
  for (const [index, rule] of after.entries()) {
    const ruleId = rule.id;
    const place = places.get(ruleId);
    if (place === undefined) {
      changes.push({ kind: "added", ruleId, position: index + 1, after: rule });
      continue;
    }
    const parts = [
      ...changedParts(place.rule.match, rule.match, "match."),
      ...changedParts({ ...place.rule, match: null }, { ...rule, match: null }, ""),
    ];
    if (parts.length > 0) changes.push({ kind: "changed", ruleId, parts, before: place.rule, after: rule });
    if (!inPlace.has(place.index)) changes.push({ kind: "moved", ruleId, from: place.index + 1, to: index + 1 });
  }
  return changes;
}

function changedParts(before: object, after: object, prefix: string): readonly string[] {
  const old = new Map(Object.entries(before));
  const now = new Map(Object.entries(after));
  return [...new Set([...old.keys(), ...now.keys()])]
    .filter((key) => canonicalText(old.get(key)) !== canonicalText(now.get(key)))
    .map((key) => `${prefix}${key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`);
}

function longestAscending(numbers: readonly number[]): ReadonlySet<number> {
  // `tails[n]` is the smallest end of a subsequence of length n + 1; `previous` links each number to its predecessor.
  const tails: number[] = [];
  const previous = new Map<number, number | undefined>();
  for (const number of numbers) {
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((tails[middle] ?? 0) < number) low = middle + 1;
      else high = middle;
    }
    previous.set(number, tails[low - 1]);
    tails[low] = number;
  }
  const members = new Set<number>();
  for (let number = tails.at(-1); number !== undefined; number = previous.get(number)) members.add(number);
  return members;
}
