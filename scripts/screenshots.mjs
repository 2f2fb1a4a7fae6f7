// `npm run screenshots [-- NAME…]`: takes the pictures of docs/dashboard/ from a control plane of its own.

import { runAsMain, runTool } from "./run.mjs";

await runAsMain(async () => {
  const { code } = await runTool("tsx", ["test/dashboard/screenshots.ts", ...process.argv.slice(2)]);
  process.exitCode = code;
});
