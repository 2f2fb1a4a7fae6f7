/** What a rollout has decided or is about to decide, as text, and the actions that its state allows. */
import type { Rollout, RolloutDetail, RolloutGate } from "../../../../src/client/schema.ts";
import { counted, decimal, duration } from "../../kit/numbers.ts";

const ENDED = ["rolled_back", "ended"];

/** Units are enrolled or still judged. */
export const isActive = ({ state }: Pick<Rollout, "state">): boolean => !ENDED.includes(state) && state !== "promoted";

export type RolloutMove = "pause" | "resume" | "promote" | "rollback" | "end";

/** As `ROLLOUT_MOVES` of the control plane, which has the last word. */
const MOVES: Readonly<Record<string, readonly RolloutMove[]>> = {
  running: ["pause", "promote", "rollback", "end"],
  paused: ["resume", "promote", "rollback", "end"],
  proved: ["pause", "promote", "rollback", "end"],
  promoted: ["rollback"],
};

export const movesOf = (state: string): readonly RolloutMove[] => MOVES[state] ?? [];

export interface Verdict {
  readonly tone: "good" | "bad" | "warn" | undefined;
  readonly text: string;
}

export function verdictOf(rollout: RolloutDetail): Verdict {
  const { state, policy, control, setting, reason } = rollout;
  const by = rollout.updated_by_name ?? rollout.updated_by;
  const because = reason === "" ? "" : `: ${reason}`;
  switch (state) {
    case "proved":
      return { tone: "good", text: "Every gate is proved. Promotion is the decision of an operator." };
    case "promoted":
      return { tone: "good", text: `\`${setting}\` is \`${policy}\` for all units, promoted by ${by}${because}` };
    case "rolled_back":
      return { tone: "bad", text: `Rolled back to \`${control}\` by ${by}${because}` };
    case "ended":
      return { tone: undefined, text: `Ended without a promotion by ${by}${because}` };
    case "paused":
      return {
        tone: "warn",
        text: `Paused by ${by}${because}. No units are enrolled; enrolled ones are still judged.`,
      };
    default:
      return { tone: undefined, text: outlookOf(rollout) };
  }
}

/** Where the evidence stands, and when a decision is to be expected. */
export function outlookOf({
  judged_gates: gates,
  expected_decision: expected,
  arms,
  ...rollout
}: RolloutDetail): string {
  const proved = gates.filter(({ proved: isProved }) => isProved).length;
  const units = arms.control.units + arms.treatment.units;
  if (units === 0) {
    return `No unit is judged yet: the first one is ${duration(rollout.horizon_ms)} after its start, when its horizon ends.`;
  }
  const evidence = `${proved} of ${counted(gates.length, "gate")} proved; evidence for a breach ${decimal(rollout.e_value)} of ${decimal(rollout.e_value_limit)}.`;
  if (expected === null) return `${evidence} No decision is in sight.`;
  const what = expected.kind === "breach" ? "a rollback" : "a proof of all gates";
  return `${evidence} At this rate ${what} in about ${duration(expected.in_ms)}.`;
}

export type GateResult = "breached" | "proved" | "undecided";

export function gateResult(gate: RolloutGate, { state, e_value_limit: limit }: RolloutDetail): GateResult {
  if (state === "rolled_back" && gate.e_value >= limit) return "breached";
  return gate.proved ? "proved" : "undecided";
}

/** How far an e-value is on its way to the limit, on a logarithmic scale: 1 is no evidence, the limit is all of it. */
export const evidenceShare = (eValue: number, limit: number): number =>
  eValue <= 1 ? 0 : Math.min(1, Math.log(eValue) / Math.log(limit));

/** `run_lock_wait_p95<=1.2x` as `run lock wait p95 ≤ 1.2×`. */
export const gateText = (gate: string): string =>
  gate.replaceAll("_", " ").replace("<=", " ≤ ").replace(">=", " ≥ ").replace(/x$/, "×");

export const shareText = (share: number): string => `${Number((share * 100).toFixed(1))}\u00a0%`;

export const tenantsText = (orgs: readonly string[]): string => (orgs.length === 0 ? "all tenants" : orgs.join(", "));

/** Of `src/cli/rollout/rollout-view.ts`. */
export const INTERFERENCE =
  "Arms that share a lock, a queue or a safety kernel influence each other, which makes their figures more alike than the policies are: an effect may be missed. Separate tenants, or arms that alternate in time, reduce this.";
