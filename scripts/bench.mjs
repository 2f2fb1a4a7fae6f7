// `npm run bench`: the benchmarks, against real servers and real peers. Arguments are passed on; `bench/main.ts` makes
// the bundle that it measures.

import { ensureInstalled } from "./install.mjs";
import { run, runAsMain } from "./run.mjs";
import { ensureServers } from "./servers.mjs";

await runAsMain(async () => {
  await ensureInstalled();
  const { missing, advice } = await ensureServers();
  if (missing.length > 0) throw new Error(`the benchmarks need real servers; ${advice}`);
  const { code } = await run(process.execPath, ["--import", "tsx", "bench/main.ts", ...process.argv.slice(2)]);
  process.exitCode = code;
});
