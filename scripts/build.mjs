// Bundles src/ to dist/, and dashboard/ to dist/dashboard/, each if its sources have changed since its last build.
//
// 1. Files are replaced atomically, shared chunks before the entry points that import them, so that concurrent `cordum`
//    commands in a fresh checkout never load a partial build.
// 2. Code shared by entry points is in one chunk, so that classes keep their identity.
// 3. With `--declarations` the type declarations are written too: `npm pack` needs them, a checkout does not.
// 4. Packages stay imports, except those that are hundreds of files: loading these takes a quarter of the time of a start.
// 5. The stamp is computed before the build; edits during the build trigger the next one.
// 6. Builds in one checkout run one after another, so that none removes or mixes the files of another.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { writeDeclarations } from "./declarations.mjs";
import { entryPointsIn } from "./entry-points.mjs";
import { ensureInstalled } from "./install.mjs";
import { log, root, runAsMain } from "./run.mjs";

const dist = join(root, "dist");
const BUILT_BY = ["package.json", "scripts/build.mjs", "scripts/entry-points.mjs"];
const DASHBOARD_BUILT_BY = ["package-lock.json", "scripts/build.mjs", "scripts/build-dashboard.mjs"];
const LOCK_POLL_MS = 50;
const BUILD_MS_MAX = 120_000;

/** Returns true if it built. Throws the compiler output on errors. */
export async function build({ quiet = false } = {}) {
  const isBuilt = await stamped(".built", ["src"], BUILT_BY, () => buildProgram(quiet));
  const isPageBuilt = await stamped(".built-dashboard", ["dashboard", "src/client"], DASHBOARD_BUILT_BY, async () => {
    if (!existsSync(join(root, "dashboard"))) return;
    if (!quiet) log("building the dashboard …");
    const { bundleDashboard } = await import("./build-dashboard.mjs");
    writeDashboard(await bundleDashboard());
  });
  return isBuilt || isPageBuilt;
}

/** Runs `work` unless the stamp says that the sources are those of the last time. */
async function stamped(name, folders, files, work) {
  const stamp = join(dist, name);
  const isCurrent = (state) => existsSync(stamp) && readFileSync(stamp, "utf8") === state;
  if (isCurrent(sourceState(folders, files))) return false;
  return oneAtATime(async () => {
    const state = sourceState(folders, files);
    if (isCurrent(state)) return false;
    await work();
    replaceFile(stamp, state);
    return true;
  });
}

/** Waits for the build of another process. A lock whose process has ended, or that is older than any build, is taken over. */
async function oneAtATime(work) {
  mkdirSync(dist, { recursive: true });
  const lock = join(dist, ".building");
  while (!wrote(lock)) {
    if (isAbandoned(lock)) rmSync(lock, { force: true });
    else await delay(LOCK_POLL_MS);
  }
  try {
    return await work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function wrote(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

function isAbandoned(lock) {
  try {
    const ageMs = Date.now() - statSync(lock).mtimeMs;
    if (ageMs > BUILD_MS_MAX) return true;
    const pid = Number(readFileSync(lock, "utf8"));
    // Empty while its process writes it.
    if (pid > 0) process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

async function buildProgram(quiet) {
  const entryPoints = Object.fromEntries(entryPointsIn(root).map(({ name, source }) => [name, source]));
  if (Object.keys(entryPoints).length === 0) {
    throw new Error("no entry points found; check that the checkout is complete with `git status`");
  }
  if (!quiet) log("building …");
  const files = await bundle(entryPoints);
  const isEntry = (file) => Object.hasOwn(entryPoints, basename(file.path, ".js"));
  for (const file of files.toSorted((a, b) => Number(isEntry(a)) - Number(isEntry(b)))) {
    replaceFile(join(dist, basename(file.path)), file.contents);
  }
  const current = new Set(files.map((file) => basename(file.path)));
  for (const name of readdirSync(dist)) {
    if (/\.js(\.map)?$/.test(name) && !current.has(name)) rmSync(join(dist, name), { force: true });
  }
}

/** Assets first, the page that names them last; then assets that no page names are removed. */
function writeDashboard(files) {
  const folder = join(dist, "dashboard");
  mkdirSync(join(folder, "assets"), { recursive: true });
  for (const [name, contents] of files) replaceFile(join(folder, name), contents);
  for (const name of readdirSync(join(folder, "assets"))) {
    if (!files.has(`assets/${name}`)) rmSync(join(folder, "assets", name), { force: true });
  }
}

async function bundle(entryPoints) {
  // Loaded on demand to keep starts without a build fast.
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
      plugins: [INLINED],
      sourcemap: true,
      write: false,
      logLevel: "silent",
    });
    return result.outputFiles;
  } catch (error) {
    const messages = await esbuild.formatMessages(error.errors ?? [], { kind: "error", color: process.stderr.isTTY });
    throw new Error(`build failed\n${messages.join("") || error.message}`);
  } finally {
    await esbuild.stop();
  }
}

const INLINED = {
  name: "inlined",
  setup({ onResolve }) {
    onResolve({ filter: /^typebox(\/|$)/ }, ({ path }) => ({ path: fileURLToPath(import.meta.resolve(path)) }));
  },
};

/** Hash of the path, size and mtime of every source. */
function sourceState(folders, builtBy) {
  const files = folders
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"))
    .map((entry) => join(entry.parentPath, entry.name));
  const hash = createHash("sha256");
  for (const file of [...files, ...builtBy.map((file) => join(root, file))].sort()) {
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
    if (!(await build())) log("dist/ is up to date");
    if (!process.argv.includes("--declarations")) return;
    const exported = entryPointsIn(root).filter(({ specifier }) => specifier !== undefined);
    await oneAtATime(() => writeDeclarations(exported.map(({ source }) => source)));
  });
}
