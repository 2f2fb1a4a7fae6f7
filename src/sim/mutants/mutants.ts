import { AUDIT_PLANTS } from "../checks/audit-check.ts";
import type { Checker } from "../checks/violations.ts";
import type { Plant } from "../simulate.ts";
import { BUS_PLANTS } from "./bus-mutants.ts";
import { RUN_PLANTS } from "./run-mutants.ts";
import { SAFETY_PLANTS } from "./safety-mutants.ts";
import { STORE_PLANTS } from "./store-mutants.ts";

/**
 * Bugs to put in. A simulator that never caught one proves nothing: each of these takes away one promise of a port, or
 * one rule of the flow, and names the checkers of which one must find it.
 */
export interface PlantedBug extends Plant {
  readonly about: string;
  readonly caughtBy: readonly Checker[];
}

export const PLANTS: readonly PlantedBug[] = [
  ...STORE_PLANTS,
  ...BUS_PLANTS,
  ...SAFETY_PLANTS,
  ...AUDIT_PLANTS,
  ...RUN_PLANTS,
];

export function plantNamed(name: string): PlantedBug | undefined {
  return PLANTS.find((plant) => plant.name === name);
}
