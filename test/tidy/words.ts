// Words that must not occur: paths of one machine, addresses of a package registry, pronouns for code objects.

import type { Violation } from "./source.ts";

const BEFORE = "(?:^|[\\s\"'`(=:,]|file://)";

const FORBIDDEN: readonly { readonly pattern: RegExp; readonly message: string }[] = [
  {
    pattern: new RegExp(`${BEFORE}/(?:home|root|Users)/`),
    message: "a path of one machine: write it relative to the project, or make it a setting",
  },
  {
    pattern: /"resolved": *"http/,
    message: "the address of a package registry: run `npm install --omit-lockfile-registry-resolved` to leave it out",
  },
  {
    pattern: /https?:\/\/(?:registry|npm)\./,
    message: "the address of a package registry: leave it to the reader's own npm configuration",
  },
];

/** Indefinite persons: the subject of a sentence about code is a code object. Composed, so that this file passes. */
const PERSONS = [...["no", "some", "any", "every"].map((first) => `${first}body`), `who${"ever"}`, `whom${"ever"}`];
const PERSON = new RegExp(`\\b(?:${PERSONS.join("|")})\\b`, "i");
const READ = /^(?:src|test|docs|bench|scripts|examples|\.github)\/|^[A-Z]+\.md$/;

export function checkPersons(files: readonly TextFile[]): Violation[] {
  return files
    .filter(({ path }) => READ.test(path) && !path.startsWith("bench/results/"))
    .flatMap(({ path, text }) =>
      text.split("\n").flatMap((line, index) => {
        const word = line.match(PERSON)?.[0];
        if (word === undefined) return [];
        return [{ path, line: index + 1, message: `\`${word}\`: name the code object that acts (docs/style.md)` }];
      }),
    );
}

export interface TextFile {
  readonly path: string;
  readonly text: string;
}

/** `root`: the path of this checkout, which must not occur either. */
export function checkWords(files: readonly TextFile[], root: string): Violation[] {
  const violations: Violation[] = [];
  for (const { path, text } of files) {
    for (const [index, line] of text.split("\n").entries()) {
      for (const { pattern, message } of FORBIDDEN) {
        if (pattern.test(line)) violations.push({ path, line: index + 1, message });
      }
      if (line.includes(root)) {
        violations.push({ path, line: index + 1, message: `names this checkout (\`${root}\`): write it relative` });
      }
    }
  }
  return violations;
}
