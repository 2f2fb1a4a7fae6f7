// `npm ci` rejects a lock file without the optional packages of other platforms, and a registry address in it would bind
// every checkout to that registry.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

interface Package {
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly optional?: boolean;
  /** A workspace. */
  readonly link?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const root = new URL("../../", import.meta.url);
const lock = JSON.parse(readFileSync(new URL("package-lock.json", root), "utf8")) as {
  readonly packages: Readonly<Record<string, Package>>;
};
/** Without this package and its workspace. */
const packages = Object.entries(lock.packages).filter(([path, { link }]) => path.includes("node_modules/") && !link);

test("every package has a checksum and no address", () => {
  expect(packages.length).toBeGreaterThan(100);
  expect(packages.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path)).toEqual([]);
  expect(packages.filter(([, { integrity }]) => integrity === undefined).map(([path]) => path)).toEqual([]);
  expect(readFileSync(new URL(".npmrc", root), "utf8")).toContain("omit-lockfile-registry-resolved=true");
});

/** If a release lacks packages of a platform in the registry, lock the newest release that has all. */
test("every optional package is locked", () => {
  const missing = packages.flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies)
      .filter((name) => find(path, name) === undefined)
      .map((name) => `${path}: ${name}`),
  );
  expect(missing).toEqual([]);
});

test.each([
  ["linux", "x64"],
  ["linux", "arm64"],
  ["darwin", "x64"],
  ["darwin", "arm64"],
  ["win32", "x64"],
])("the binaries of the tools for %s-%s are locked", (os, cpu) => {
  for (const tool of ["@biomejs/biome", "esbuild", "rolldown", "typescript", "lightningcss"]) {
    const { optionalDependencies = {} } = lock.packages[`node_modules/${tool}`] ?? {};
    const fitting = Object.keys(optionalDependencies).filter((name) => {
      const found = find(`node_modules/${tool}`, name);
      return found?.os?.includes(os) && found.cpu?.includes(cpu);
    });
    expect(fitting, tool).not.toEqual([]);
  }
});

/** As npm resolves: in the package's own folder, then in those of its parents. */
function find(path: string, name: string): Package | undefined {
  const parts = path.split("/node_modules/");
  for (let count = parts.length; count > 0; count--) {
    const found = lock.packages[`${parts.slice(0, count).join("/node_modules/")}/node_modules/${name}`];
    if (found !== undefined) return found;
  }
  return lock.packages[`node_modules/${name}`];
}
