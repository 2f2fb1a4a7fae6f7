// Runs a TypeScript program of the project that needs real servers; arguments are passed on.

import { ensureInstalled } from "./install.mjs";
import { run, runAsMain } from "./run.mjs";
import { ensureServers } from "./servers.mjs";

export function runWithServers(program, what) {
  return runAsMain(async () => {
    await ensureInstalled();
    const { missing, advice } = await ensureServers();
    if (missing.length > 0) throw new Error(`${what} need real servers; ${advice}`);
    const { code } = await run(process.execPath, ["--import", "tsx", program, ...process.argv.slice(2)]);
    process.exitCode = code;
  });
}
