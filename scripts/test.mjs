// `npm test`: installs and builds if needed, then checks types and lint and runs all tests, including those that require
// servers. Arguments are passed to vitest (`npm test -- test/engine`).
//
// The run fails if the servers are missing. `CORDUM_TEST_WITHOUT_SERVERS=1` accepts this, except where `CI` is set.

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
  await Promise.all([
    parts.runTool("types", "tsc", ["-p", "."]),
    parts.runTool("types of the dashboard", "tsc", ["-p", "dashboard"]),
    parts.runTool("lint", "biome", ["check", "."]),
  ]);
  if (servers.missing.length === 0) {
    await parts.runVitest("tests", args);
    return;
  }
  await parts.runVitest("tests", ["--project=pure", "--project=processes", ...args]);
  const projects = ["servers", "campaigns", "timed"].map((name) => `--project=${name}`);
  const notRun = await runTool("vitest", ["list", "--filesOnly", ...projects], { show: false });
  const mayAccept = !mayMissServers && !process.env.CI;
  const accept = mayAccept ? "\nTo accept a run without them: CORDUM_TEST_WITHOUT_SERVERS=1 npm test" : "";
  parts.note(`NOT RUN, servers are missing:\n${notRun.output.trimEnd()}\n\n${servers.advice}${accept}`);
}
