// `npm run check`: the inner loop. Types, lint, and the tests that need neither servers nor sockets, with few
// simulator seeds; the rest is left to `npm test`. Arguments are passed to vitest.

import { ensureInstalled } from "./install.mjs";
import { Parts } from "./parts.mjs";

const TESTS = [
  "retry",
  "model",
  "jobs",
  "docs",
  "policy",
  "wire",
  "flow",
  "config",
  "tidy",
  "contract",
  "worlds",
  "sim",
];
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
  await parts.runVitest("tests", ["--project=pure", ...tests], { CORDUM_SIM_SEEDS: SIM_SEEDS });
}
parts.finish();
