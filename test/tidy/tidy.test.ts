// The rules, applied to the project. rules.test.ts tests each rule on small sources.

import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { checkDashboardLayers, checkLayers, checkPackages } from "./layers.ts";
import {
  checkBarrels,
  checkDeadFiles,
  checkDefaultExports,
  checkFileLength,
  checkFunctionLength,
  checkHiddenInputs,
  checkNames,
} from "./rules.ts";
import { parseSource, type Source, type Violation } from "./source.ts";
import { checkCycles, checkFolderSize, checkIndexImports, checkReferences } from "./structure.ts";
import { checkPersons, checkWords } from "./words.ts";

const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/[/\\]$/, "");
const NOT_OURS = new Set(["node_modules", "dist", "coverage", ".git", ".cordum"]);
const BINARY = /\.(png|jpg|ico|woff2|gz|db|log)$/;

const paths = pathsIn(root);
const sources: Source[] = paths
  .filter((path) => /^src\/.*\.ts$/.test(path))
  .map((path) => parseSource(path, readFileSync(join(root, path), "utf8")));

const dashboard: Source[] = paths
  .filter((path) => /^dashboard\/src\/.*\.tsx?$/.test(path))
  .map((path) => parseSource(path, readFileSync(join(root, path), "utf8")));

describe("tidy", () => {
  it("found the sources", () => {
    expect(sources.length).toBeGreaterThan(10);
    expect(dashboard.length).toBeGreaterThan(10);
  });

  it.each<[string, () => Violation[]]>([
    ["imports point inward", () => checkLayers(sources)],
    ["the dashboard: pages on kit, kit on data", () => checkDashboardLayers(dashboard)],
    ["packages and node: modules stay outside the core", () => checkPackages(sources)],
    ["no hidden time, randomness or environment in the core", () => checkHiddenInputs(sources)],
    ["files are short", () => checkFileLength([...sources, ...dashboard])],
    ["functions are short", () => checkFunctionLength([...sources, ...dashboard])],
    ["file names are nouns", () => checkNames(paths)],
    ["no barrels", () => checkBarrels([...sources, ...dashboard])],
    ["no default exports", () => checkDefaultExports([...sources, ...dashboard])],
    ["no dead files", () => checkDeadFiles(sources)],
    ["no value-import cycles", () => checkCycles([...sources, ...dashboard])],
    [
      "folders are small",
      () => checkFolderSize(paths.filter((path) => /^(src|test|bench|docs|dashboard)\//.test(path))),
    ],
    ["no imports past an index", () => checkIndexImports(sources)],
    ["references lead to files", () => checkReferences(texts(), paths)],
    ["no persons as subjects of code", () => checkPersons(texts())],
    ["no paths of a machine, no registry addresses", () => checkWords(texts(), root)],
  ])("%s", (_rule, check) => {
    expect(check().map(({ path, line, message }) => `${path}:${line} ${message}`)).toEqual([]);
  });
});

function pathsIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !NOT_OURS.has(entry.name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? pathsIn(path) : [relative(root, path).split(sep).join("/")];
    })
    .sort();
}

function texts(): { path: string; text: string }[] {
  return paths
    .filter((path) => !BINARY.test(path))
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}
