// Installs and builds if needed, then runs the program.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "./build.mjs";
import { ensureInstalled } from "./install.mjs";
import { root, runAsMain } from "./run.mjs";

/** Runs the program in this process, like `node dist/main.js …`. */
export async function launch(args, { quiet = false } = {}) {
  const main = join(root, "dist", "main.js");
  await runAsMain(async () => {
    await ensureInstalled();
    await build({ quiet });
    if (!existsSync(main))
      throw new Error("`src/main.ts` is missing; check that the checkout is complete with `git status`");
  });
  if (process.exitCode) return;
  process.setSourceMapsEnabled(true);
  process.argv = [process.execPath, main, ...args];
  // Outside runAsMain, so that errors of the program keep their stack.
  await import(pathToFileURL(main).href);
}
