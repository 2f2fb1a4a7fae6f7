// `npm run bench`: the benchmarks, against real servers and real peers. Arguments are passed on.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { build } from "./build.mjs";
import { ensureInstalled } from "./install.mjs";
import { root, run, runAsMain } from "./run.mjs";
import { ensureServers } from "./servers.mjs";

await runAsMain(async () => {
  const entry = join("bench", "main.ts");
  if (!existsSync(join(root, entry))) throw new Error(`\`${entry}\` is missing: there are no benchmarks to run`);
  await ensureInstalled();
  const { missing, advice } = await ensureServers();
  if (missing.length > 0) throw new Error(`the benchmarks need real servers; ${advice}`);
  await build();
  const { code } = await run(process.execPath, ["--import", "tsx", entry, ...process.argv.slice(2)]);
  process.exitCode = code;
});
