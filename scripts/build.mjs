// Bundles src/ to dist/, when src/ has changed since the last build.
//
// 1. A reader never sees half a file: every file is written beside its name and renamed, shared parts before the
//    entry points that import them. So several `cordum` commands may be started in a fresh checkout at once.
// 2. Code shared by two entry points exists once (a chunk), so a class imported from two of them is one class.
// 3. The stamp is the state of the sources as they were before the build began: an edit during it is built next time.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { ensureInstalled } from "./install.mjs";
import { root, runAsMain, say } from "./run.mjs";

const ENTRY_POINTS = {
  main: "src/main.ts",
  index: "src/index.ts",
  worker: "src/worlds/worker-sdk.ts",
  sim: "src/sim/simulate.ts",
};
const dist = join(root, "dist");
const stamp = join(dist, ".built");

/** Builds if needed; true when it did. Throws with the compiler's own words when the sources do not build. */
export async function build({ quiet = false } = {}) {
  const state = sourceState();
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === state) return false;
  const entryPoints = Object.fromEntries(
    Object.entries(ENTRY_POINTS).filter(([, file]) => existsSync(join(root, file))),
  );
  if (Object.keys(entryPoints).length === 0) {
    throw new Error("nothing to build: none of the entry points exists; is this a whole checkout?");
  }
  if (!quiet) say("building …");
  const files = await bundle(entryPoints);
  mkdirSync(dist, { recursive: true });
  const isEntry = (file) => Object.hasOwn(entryPoints, basename(file.path, ".js"));
  for (const file of files.toSorted((a, b) => Number(isEntry(a)) - Number(isEntry(b)))) {
    replaceFile(join(dist, basename(file.path)), file.contents);
  }
  const current = new Set(files.map((file) => basename(file.path)));
  for (const name of readdirSync(dist)) {
    if (/\.js(\.map)?$/.test(name) && !current.has(name)) rmSync(join(dist, name), { force: true });
  }
  replaceFile(stamp, state);
  return true;
}

async function bundle(entryPoints) {
  // Imported only when there is something to build: a start with nothing to do should not pay for loading it.
  const esbuild = await import("esbuild");
  try {
    const result = await esbuild.build({
      absWorkingDir: root,
      entryPoints,
      outdir: "dist",
      chunkNames: "chunk-[hash]",
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      target: "node20",
      packages: "external",
      sourcemap: true,
      write: false,
      logLevel: "silent",
    });
    return result.outputFiles;
  } catch (error) {
    const messages = await esbuild.formatMessages(error.errors ?? [], { kind: "error", color: process.stderr.isTTY });
    throw new Error(`the sources do not build\n${messages.join("") || error.message}`);
  } finally {
    await esbuild.stop();
  }
}

/** One line per source with its size and time: differs after any edit, addition, removal or checkout. */
function sourceState() {
  const files = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const hash = createHash("sha256");
  for (const file of [...files, join(root, "package.json"), join(root, "scripts", "build.mjs")].sort()) {
    const { size, mtimeMs } = statSync(file);
    hash.update(`${file} ${size} ${mtimeMs}\n`);
  }
  return hash.digest("hex");
}

function replaceFile(path, contents) {
  const fresh = `${path}.${process.pid}.new`;
  writeFileSync(fresh, contents);
  renameSync(fresh, path);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  await runAsMain(async () => {
    await ensureInstalled();
    if (!(await build())) say("dist/ is up to date");
  });
}
