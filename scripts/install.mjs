// Installs what package-lock.json names, when it is not there yet.
//
// 1. Node's built-in modules only: this runs before anything is installed.
// 2. What is installed is read from npm's own record of the last finished install (node_modules/.package-lock.json),
//    so an install by hand counts too, and one that was interrupted does not.
// 3. No install scripts: every binary we use lies ready inside its package.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root, run, say } from "./run.mjs";

const NODE_MIN = [20, 19];

export async function ensureInstalled() {
  checkNode(process.versions.node);
  if (isInstalled()) return;
  say("installing packages (the first start only) …");
  const flags = ["--ignore-scripts", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"];
  const clean = await run("npm", ["ci", ...flags], { show: false });
  if (clean.code === 0) return;
  // A lock that was made on one platform may lack the optional packages of another; `npm ci` refuses it,
  // `npm install` does not. `--no-save` keeps it from rewriting the lock in the user's checkout.
  const plain = await run("npm", ["install", "--no-save", ...flags], { show: false });
  if (plain.code === 0) return;
  throw new Error(`could not install the packages; run \`npm install\` to see why. npm said:\n${plain.output.trim()}`);
}

export function checkNode(version) {
  const [major, minor] = version.split(".").map(Number);
  if (major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])) return;
  throw new Error(
    `Node ${version} is too old: ${NODE_MIN.join(".")} or newer is needed. ` +
      "Install one from https://nodejs.org or with your version manager (`nvm install 20`), then try again",
  );
}

/** True when every package the lock requires on this platform is installed in the locked version. */
export function isInstalled(folder = root) {
  const record = join(folder, "node_modules", ".package-lock.json");
  if (!existsSync(record)) return false;
  const wanted = JSON.parse(readFileSync(join(folder, "package-lock.json"), "utf8")).packages;
  const present = JSON.parse(readFileSync(record, "utf8")).packages;
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === "") return true;
    const installed = present[path];
    // Optional packages are for one platform each: absent is fine, another version is not.
    if (installed === undefined) return entry.optional === true || entry.devOptional === true;
    return installed.version === entry.version && existsSync(join(folder, path));
  });
}
