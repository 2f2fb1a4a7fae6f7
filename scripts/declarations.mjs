// Writes the type declarations of the package to dist/types. Only `npm pack` and `npm publish` need them.
//
// 1. The compiler keeps `.ts` in the specifiers of declarations, which consumers cannot resolve; they become `.js`.
// 2. Only files that an exported declaration refers to are kept.
// 3. A declaration may refer to packages of `dependencies` only: a consumer has no others.

import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { root, runTool } from "./run.mjs";

const REFERENCE = /(\bfrom |\bimport\(|\bimport )"([^"]+)"/g;
const dist = join(root, "dist");

/** @param {readonly string[]} sources Paths of the exported modules, from the project directory. */
export async function writeDeclarations(sources) {
  mkdirSync(dist, { recursive: true });
  const compiled = mkdtempSync(join(dist, ".declarations-"));
  const fresh = mkdtempSync(join(dist, ".types-"));
  try {
    await compile(sources, compiled);
    const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const names = sources.map((source) => source.replace(/^src\//, ""));
    for (const [name, text] of reached(compiled, names, new Set(Object.keys(dependencies)))) {
      const file = join(fresh, declarationOf(name));
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
    rmSync(join(dist, "types"), { recursive: true, force: true });
    renameSync(fresh, join(dist, "types"));
  } finally {
    for (const folder of [compiled, fresh]) rmSync(folder, { recursive: true, force: true });
  }
}

async function compile(sources, outDir) {
  const config = join(outDir, "tsconfig.json");
  const files = sources.map((source) => join(root, source));
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    stripInternal: true,
    rootDir: join(root, "src"),
    outDir,
  };
  writeFileSync(config, JSON.stringify({ extends: join(root, "tsconfig.json"), compilerOptions, include: [], files }));
  const { code, output } = await runTool("tsc", ["-p", config], { show: false });
  if (code !== 0) throw new Error(`type declarations failed\n${output.trim()}`);
}

/** The declarations reachable from the given modules, with specifiers that consumers resolve. */
function reached(folder, names, packages) {
  const texts = new Map();
  const open = [...names];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (texts.has(name)) continue;
    const from = name;
    const text = readFileSync(join(folder, declarationOf(name)), "utf8");
    const rewritten = text.replace(REFERENCE, (_, before, to) => {
      if (!to.startsWith(".")) {
        if (!packages.has(packageOf(to)))
          throw new Error(`the declarations of src/${from} need \`${to}\`, which is not in \`dependencies\``);
        return `${before}"${to}"`;
      }
      open.push(posix.join(posix.dirname(from), to));
      return `${before}"${to.replace(/\.ts$/, ".js")}"`;
    });
    texts.set(name, rewritten);
  }
  return texts;
}

function declarationOf(name) {
  return name.replace(/\.ts$/, ".d.ts");
}

/** `@scope/name/sub` → `@scope/name`. */
function packageOf(specifier) {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}
