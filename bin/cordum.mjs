#!/usr/bin/env node
// The `cordum` command. A checkout is built first if it has changed.

import { existsSync } from "node:fs";

const launcher = new URL("../scripts/launch.mjs", import.meta.url);

if (existsSync(launcher) && existsSync(new URL("../src", import.meta.url))) {
  const { launch } = await import(launcher.href);
  await launch(process.argv.slice(2), { quiet: true });
} else {
  await import(new URL("../dist/main.js", import.meta.url).href);
}
