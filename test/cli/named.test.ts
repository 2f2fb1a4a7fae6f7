// Checks that every command named in messages and docs exists.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { placesIn } from "../../src/cli/commands/completion.ts";
import { newContext } from "../../src/cli/context.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { ioFor } from "./run.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const places = new Map(
  placesIn(buildProgram(newContext(ioFor({}).io, "1.2.3", () => {}))).map((place) => [place.path, place]),
);

/** A quoted command, or a command on its own line. */
const NAMED = [
  /[`"'](?:npx )?cordum ([a-z]+(?: [a-z][a-z|-]*)?)([^`"'\n]*)/g,
  /^(?:npx )?cordum ([a-z]+(?: [a-z][a-z|-]*)?)([^#\n]*)/gm,
];
/** The initial text of the audit chain and the headers of files; not commands. */
const NO_COMMANDS = ["audit of", "journal"];

function unknownIn(text: string): readonly string[] {
  const unknown: string[] = [];
  for (const [, words = "", rest = ""] of NAMED.flatMap((pattern) => [...text.matchAll(pattern)])) {
    if (!NO_COMMANDS.includes(words) && !isKnown(words, rest)) unknown.push(`${words}${rest}`);
  }
  return unknown;
}

function isKnown(words: string, rest: string): boolean {
  const [first = "", second] = words.split(" ");
  const isGroup = (places.get(first)?.commands.length ?? 0) > 0;
  const paths = isGroup && second !== undefined ? second.split("|").map((name) => `${first} ${name}`) : [first];
  const flags = [...rest.matchAll(/(?<= )--[a-z-]+/g)].map(([flag]) => flag);
  return paths.every((path) => {
    const known = places.get(path)?.options.map(({ long }) => long);
    return known !== undefined && flags.every((flag) => flag === "--help" || known.includes(flag));
  });
}

function textsIn(folder: string, ends: string): readonly string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ends))
    .map((name) => join(folder, name));
}

test("the pattern finds commands", () => {
  const wrong = "`cordum job sumbit`, `cordum dlq list|eat`, `npx cordum sings`, `cordum job get x --jsn`";
  expect(unknownIn(wrong)).toEqual(["job sumbit", "dlq list|eat", "sings", "job get x --jsn"]);
  expect(unknownIn("run\nnpx cordum job get 'x' --jsn\n")).toEqual(["job get 'x' --jsn"]);
  const right =
    "is it a cordum gateway? `cordum status`, 'cordum up --data x', `cordum backup there`, `cordum job list|get`";
  expect(unknownIn(right)).toEqual([]);
});

test("every named command exists", () => {
  const files = [...textsIn("src", ".ts"), ...textsIn("docs", ".md"), "README.md"];
  const found = files.flatMap((file) =>
    unknownIn(readFileSync(join(ROOT, file), "utf8")).map((text) => `${file}: ${text}`),
  );
  expect(found).toEqual([]);
});
