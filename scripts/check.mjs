// `npm run check`: types, lint, and the fast tests without servers and sockets, with few simulator seeds. `npm test` runs
// everything. Arguments are passed to vitest.

import { ensureInstalled } from "./install.mjs";
import { Parts } from "./parts.mjs";

const TESTS = ["adapters", "config", "contract", "core", "docs", "engine", "ports", "protocol", "sim", "tidy"];
// Slow tests, run by `npm test` only.
const LEFT_OUT = [
  "test/sim/mutants.test.ts",
  "test/sim/admission.test.ts",
  "test/core/workflow/all-dags.test.ts",
  "test/engine/safety/outage-burst.test.ts",
  "test/engine/runs/steps/cancelled-steps.test.ts",
  "test/contract/store/store.checkpoint.test.ts",
].join(",");
const SIM_SEEDS = "25";

const parts = new Parts();
const args = process.argv.slice(2);

const installed = await parts.run("install", async () => {
  await ensureInstalled();
  return true;
});
if (installed) {
  await Promise.all([parts.runTool("types", "tsc", ["-p", "."]), parts.runTool("lint", "biome", ["check", "."])]);
  const tests = args.length > 0 ? args : TESTS.map((name) => `test/${name}/`);
  const env = { CORDUM_SIM_SEEDS: SIM_SEEDS, CORDUM_LEAVE_OUT: args.length > 0 ? "" : LEFT_OUT };
  await parts.runVitest("tests", ["--project=pure", "--maxWorkers=2", ...tests], env);
}
parts.finish();
