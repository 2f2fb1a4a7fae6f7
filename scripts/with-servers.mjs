// Runs a TypeScript program that requires servers, with the given arguments.

import { ensureInstalled } from "./install.mjs";
import { run, runAsMain } from "./run.mjs";
import { ensureServers } from "./servers.mjs";

export function runWithServers(program, what) {
  return runAsMain(async () => {
    await ensureInstalled();
    const { missing, advice } = await ensureServers();
    if (missing.length > 0) throw new Error(`${what} require servers; ${advice}`);
    const { code } = await run(process.execPath, ["--import", "tsx", program, ...process.argv.slice(2)]);
    process.exitCode = code;
  });
}
