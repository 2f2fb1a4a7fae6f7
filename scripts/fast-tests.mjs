// The tests of `npm run check` and `npm run mutate`: without servers and sockets, with few simulator seeds.

export const FAST_TESTS = [
  "adapters",
  "config",
  "contract",
  "core",
  "docs",
  "engine",
  "ports",
  "protocol",
  "sim",
  "tidy",
];

// Slow tests, run by `npm test` only.
const LEFT_OUT = [
  "test/sim/mutants.test.ts",
  "test/sim/admission.test.ts",
  "test/core/workflow/all-dags.test.ts",
  "test/engine/safety/outage-burst.test.ts",
  "test/engine/runs/steps/cancelled-steps.test.ts",
  "test/contract/store/store.checkpoint.test.ts",
];

export const FAST_ENV = { CORDUM_SIM_SEEDS: "25", CORDUM_LEAVE_OUT: LEFT_OUT.join(",") };
