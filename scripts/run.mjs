// What every script needs: where the project is, how to talk, how to run a command.
// Talk goes to stderr, so that the data a command prints on stdout stays clean.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

export function say(line) {
  process.stderr.write(`cordum: ${line}\n`);
}

/** Runs a command in the project's folder. With `show: false` its output is kept and returned instead of shown. */
export function run(command, args, { show = true, env = {} } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ["ignore", show ? "inherit" : "pipe", show ? "inherit" : "pipe"],
      // On Windows `npm` and the tools in node_modules/.bin are .cmd files, which only a shell can start.
      shell: process.platform === "win32",
    });
    let output = "";
    child.stdout?.on("data", (chunk) => {
      output += chunk;
    });
    child.stderr?.on("data", (chunk) => {
      output += chunk;
    });
    child.on("error", (error) => resolve({ code: 127, output: `${output}${error.message}\n` }));
    child.on("close", (code, signal) => resolve({ code: signal === null ? code : 1, output }));
  });
}

/** Runs a tool that is installed with the project (tsc, biome, vitest, …). */
export function runTool(name, args, options) {
  return run(join(root, "node_modules", ".bin", name), args, options);
}

/** For a script that is started directly: an error is one clear line and exit code 1, not a stack. */
export async function runAsMain(main) {
  try {
    await main();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
    process.exitCode = 1;
  }
}
