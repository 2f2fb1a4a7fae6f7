import type { Checker } from "../checks/violations.ts";
import type { WorldMutation } from "../simulate.ts";
import { BUS_MUTANTS } from "./bus-mutants.ts";
import { CLOCK_MUTANTS } from "./clock-mutants.ts";
import { COMPENSATION_MUTANTS } from "./compensation-mutants.ts";
import { EVENT_MUTANTS } from "./event-mutants.ts";
import { LIMIT_MUTANTS } from "./limit-mutants.ts";
import { ROLLOUT_MUTANTS } from "./rollout-mutants.ts";
import { RUN_MUTANTS } from "./run-mutants.ts";
import { SAFETY_MUTANTS } from "./safety-mutants.ts";
import { SCHEDULE_MUTANTS } from "./schedule-mutants.ts";
import { STORE_MUTANTS } from "./store-mutants.ts";

/** A known bug that removes one guarantee of a port or one rule of the engine. One of the named checkers must catch it. */
export interface Mutant extends WorldMutation {
  readonly about: string;
  readonly caughtBy: readonly Checker[];
}

export const MUTANTS: readonly Mutant[] = [
  ...STORE_MUTANTS,
  ...BUS_MUTANTS,
  ...SAFETY_MUTANTS,
  ...RUN_MUTANTS,
  ...COMPENSATION_MUTANTS,
  ...EVENT_MUTANTS,
  ...CLOCK_MUTANTS,
  ...ROLLOUT_MUTANTS,
  ...LIMIT_MUTANTS,
  ...SCHEDULE_MUTANTS,
];

export function mutantNamed(name: string): Mutant | undefined {
  return MUTANTS.find((mutant) => mutant.name === name);
}
