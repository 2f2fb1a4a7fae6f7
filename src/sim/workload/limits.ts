import type { Rule } from "../../core/policy/document.ts";

/** Limits and budgets of the simulated policies; every edition has them, so that their counts continue. */
export const METERED_TOPIC = "metered.epsilon";
const BRISK_TOPIC = "brisk.zeta";
const PACED_TOPIC = "paced.eta";
export const LIMITED_TOPICS: readonly string[] = [METERED_TOPIC, BRISK_TOPIC, BRISK_TOPIC, PACED_TOPIC];

/** Two reservations have room. */
export const METERED_TOKENS = 10_000;
export const RATE = { kind: "throttle", ruleId: "rate", by: "tenant", max: 2, withinMs: 10_000 } as const;
export const VELOCITY = { kind: "velocity", ruleId: "velocity", by: "tenant", max: 2, withinMs: 20_000 } as const;

export const LIMIT_RULES: readonly Rule[] = [
  {
    id: RATE.ruleId,
    match: { topics: [PACED_TOPIC] },
    decision: "throttle",
    reason: "two in ten seconds",
    throttle: { rate: "2/10s", by: RATE.by },
  },
  {
    id: VELOCITY.ruleId,
    match: { topics: [BRISK_TOPIC] },
    decision: "throttle",
    reason: "two in twenty seconds",
    velocity: { max: VELOCITY.max, within: "20s", by: VELOCITY.by },
  },
  {
    id: "metered",
    match: { topics: [METERED_TOPIC] },
    decision: "allow",
    reason: "metered",
    budget: [{ tokens: METERED_TOKENS, per: "day", reserveTokens: 4_000 }],
  },
];
