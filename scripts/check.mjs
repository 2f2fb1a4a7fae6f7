// `npm run check`: types, lint, and the fast tests without servers and sockets, with few simulator seeds. `npm test` runs
// everything. Arguments are passed to vitest.

import { FAST_ENV, FAST_TESTS } from "./fast-tests.mjs";
import { ensureInstalled } from "./install.mjs";
import { Parts } from "./parts.mjs";

const parts = new Parts();
const args = process.argv.slice(2);

const installed = await parts.run("install", async () => {
  await ensureInstalled();
  return true;
});
if (installed) {
  await Promise.all([
    parts.runTool("types", "tsc", ["-p", "."]),
    parts.runTool("types of the dashboard", "tsc", ["-p", "dashboard"]),
    parts.runTool("lint", "biome", ["check", "."]),
  ]);
  const tests = args.length > 0 ? args : FAST_TESTS.map((name) => `test/${name}/`);
  const env = args.length > 0 ? { ...FAST_ENV, CORDUM_LEAVE_OUT: "" } : FAST_ENV;
  await parts.runVitest("tests", ["--project=pure", "--maxWorkers=2", ...tests], env);
}
parts.finish();
