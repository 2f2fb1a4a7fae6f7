// Bundles src/ to dist/ if src/ has changed since the last build.
//
// 1. Files are replaced atomically, shared chunks before the entry points that import them, so that concurrent `cordum`
//    commands in a fresh checkout never load a partial build.
// 2. Code shared by entry points is in one chunk, so that classes keep their identity.
// 3. With `--declarations` the type declarations are written too: `npm pack` needs them, a checkout does not.
// 4. The stamp is computed before the build; edits during the build trigger the next one.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { writeDeclarations } from "./declarations.mjs";
import { entryPointsIn } from "./entry-points.mjs";
import { ensureInstalled } from "./install.mjs";
import { log, root, runAsMain } from "./run.mjs";

const dist = join(root, "dist");
const stamp = join(dist, ".built");
const BUILT_BY = ["package.json", "scripts/build.mjs", "scripts/entry-points.mjs"];

/** Returns true if it built. Throws the compiler output on errors. */
export async function build({ quiet = false } = {}) {
  const state = sourceState();
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === state) return false;
  const entryPoints = Object.fromEntries(entryPointsIn(root).map(({ name, source }) => [name, source]));
  if (Object.keys(entryPoints).length === 0) {
    throw new Error("no entry points found; check that the checkout is complete with `git status`");
  }
  if (!quiet) log("building …");
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

/** Hash of the path, size and mtime of every source. */
function sourceState() {
  const files = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const hash = createHash("sha256");
  for (const file of [...files, ...BUILT_BY.map((file) => join(root, file))].sort()) {
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
    await writeDeclarations(exported.map(({ source }) => source));
  });
}
