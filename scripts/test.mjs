// `npm test`: everything. Installs and builds what is missing, then types, lint and all tests, also those that need
// real servers. All parts run, the run fails at the end if one did, and what could not run is named there.
// Arguments are passed to vitest (`npm test -- test/flow`).
//
// Without the servers the run fails, because it did not test what it claims to. `CORDUM_TEST_WITHOUT_SERVERS=1`
// accepts that, by hand only: where `CI` is set it has no effect.

import { build } from "./build.mjs";
import { ensureInstalled } from "./install.mjs";
import { Parts } from "./parts.mjs";
import { runTool } from "./run.mjs";
import { ensureServers } from "./servers.mjs";

const mayMissServers = !process.env.CI && process.env.CORDUM_TEST_WITHOUT_SERVERS === "1";
const parts = new Parts();

const installed = await parts.run("install", async () => {
  await ensureInstalled();
  return true;
});
if (installed) await runAll(process.argv.slice(2));
parts.finish();

async function runAll(args) {
  let servers = { missing: [], advice: "" };
  await parts.run("servers", async () => {
    servers = await ensureServers();
    return servers.missing.length === 0 || mayMissServers;
  });
  await parts.run("build", async () => {
    await build();
    return true;
  });
  await Promise.all([parts.runTool("types", "tsc", ["-p", "."]), parts.runTool("lint", "biome", ["check", "."])]);
  if (servers.missing.length === 0) {
    await parts.runVitest("tests", args);
    return;
  }
  await parts.runVitest("tests", ["--project=pure", ...args]);
  const notRun = await runTool("vitest", ["list", "--filesOnly", "--project=servers"], { show: false });
  const mayAccept = !mayMissServers && !process.env.CI;
  const accept = mayAccept ? "\nTo accept a run without them: CORDUM_TEST_WITHOUT_SERVERS=1 npm test" : "";
  parts.note(`NOT RUN, because servers are missing:\n${notRun.output.trimEnd()}\n\n${servers.advice}${accept}`);
}
