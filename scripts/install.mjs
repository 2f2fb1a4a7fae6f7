// Installs the packages of package-lock.json if they are missing.
//
// 1. Uses built-in modules only, because it runs before the installation.
// 2. node_modules/.package-lock.json is npm's record of the last complete install.
// 3. Install scripts are disabled; the packages contain prebuilt binaries.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { log, root, run } from "./run.mjs";

const NODE_MIN = [20, 19];

export async function ensureInstalled() {
  checkNode(process.versions.node);
  if (isInstalled()) return;
  log("installing packages …");
  const flags = ["--ignore-scripts", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"];
  const { code, output } = await run("npm", ["ci", ...flags], { show: false });
  if (code === 0) return;
  throw new Error(`package installation failed; run \`npm ci\` for details. Output of npm:\n${output.trim()}`);
}

export function checkNode(version) {
  const [major, minor] = version.split(".").map(Number);
  if (major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])) return;
  throw new Error(
    `Node ${version} is not supported; version ${NODE_MIN.join(".")} or newer is required. ` +
      "Install it from https://nodejs.org or with a version manager (`nvm install 20`)",
  );
}

/** True if every package required on this platform is installed in its locked version. */
export function isInstalled(folder = root) {
  const record = join(folder, "node_modules", ".package-lock.json");
  if (!existsSync(record)) return false;
  const locked = JSON.parse(readFileSync(join(folder, "package-lock.json"), "utf8")).packages;
  const present = JSON.parse(readFileSync(record, "utf8")).packages;
  return Object.entries(locked).every(([path, entry]) => {
    // The project itself and its workspaces are not installed.
    if (!path.includes("node_modules/")) return true;
    const installed = present[path];
    // Optional packages of other platforms may be absent.
    if (installed === undefined) return entry.optional === true || entry.devOptional === true;
    return installed.version === entry.version && existsSync(join(folder, path));
  });
}
