import { AUDIT_MUTANTS } from "../checks/audit-check.ts";
import type { Checker } from "../checks/violations.ts";
import type { WorldMutation } from "../simulate.ts";
import { BUS_MUTANTS } from "./bus-mutants.ts";
import { RUN_MUTANTS } from "./run-mutants.ts";
import { SAFETY_MUTANTS } from "./safety-mutants.ts";
import { STORE_MUTANTS } from "./store-mutants.ts";

/**
 * Bugs to put in. A simulator that never caught one proves nothing: each of these takes away one promise of a port, or
 * one rule of the flow, and names the checkers of which one must find it.
 */
export interface Mutant extends WorldMutation {
  readonly about: string;
  readonly caughtBy: readonly Checker[];
}

export const MUTANTS: readonly Mutant[] = [
  ...STORE_MUTANTS,
  ...BUS_MUTANTS,
  ...SAFETY_MUTANTS,
  ...AUDIT_MUTANTS,
  ...RUN_MUTANTS,
];

export function mutantNamed(name: string): Mutant | undefined {
  return MUTANTS.find((mutant) => mutant.name === name);
}
