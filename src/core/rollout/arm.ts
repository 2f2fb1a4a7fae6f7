export type Arm = "control" | "treatment";

/** The part of a rollout that decides arms. */
export interface ArmRule {
  readonly salt: string;
  /** Share of the treatment arm in the current stage, in (0, 1). */
  readonly share: number;
  /** Arms alternate in time blocks of this length; null: the arm depends on the unit only. */
  readonly switchMs: number | null;
}

/**
 * The arm of a unit that starts at `atMs`. It depends on nothing else, so every process computes the same arm. It is stored on
 * the unit's record when the unit is created: a changed share does not move a started unit.
 */
export function armOf({ salt, share, switchMs }: ArmRule, unit: string, atMs: number): Arm {
  const block = switchMs === null ? unit : `block ${Math.floor(atMs / switchMs)}`;
  return uniformOf(`${salt}/arm/${block}`) < share ? "treatment" : "control";
}

/** Whether a unit is measured, with a probability of `share`. Independent of the arm. */
export const isMeasured = ({ salt }: Pick<ArmRule, "salt">, unit: string, share: number): boolean =>
  share >= 1 || uniformOf(`${salt}/measured/${unit}`) < share;

/** A hash of the text as a number in [0, 1): two 32-bit multiply-rotate hashes with a final avalanche. Not cryptographic. */
export function uniformOf(text: string): number {
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 2_654_435_761);
    low = Math.imul(low ^ code, 1_597_334_677);
  }
  high = Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  low = Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  return ((low >>> 0) * 2 ** 21 + ((high >>> 0) >>> 11)) / 2 ** 53;
}
