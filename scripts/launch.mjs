// From a checkout to the running program: install, build, run, each only if needed.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "./build.mjs";
import { ensureInstalled } from "./install.mjs";
import { root, runAsMain } from "./run.mjs";

/** Runs the program in this process with these arguments, as if it had been started as `node dist/main.js …`. */
export async function launch(args, { quiet = false } = {}) {
  const main = join(root, "dist", "main.js");
  await runAsMain(async () => {
    await ensureInstalled();
    await build({ quiet });
    if (!existsSync(main)) throw new Error("`src/main.ts` is missing: the program has no entry point");
  });
  if (process.exitCode) return;
  process.setSourceMapsEnabled(true);
  process.argv = [process.execPath, main, ...args];
  // Outside runAsMain: an error in the program itself keeps its stack.
  await import(pathToFileURL(main).href);
}
