// What must not stand anywhere in the project: paths of one machine, addresses of one package registry.

import type { Violation } from "./source.ts";

const BEFORE = "(?:^|[\\s\"'`(=:,]|file://)";

const FORBIDDEN: readonly { readonly pattern: RegExp; readonly message: string }[] = [
  {
    pattern: new RegExp(`${BEFORE}/(?:home|root|Users)/`),
    message: "a path of somebody's machine: write it relative to the project, or make it a setting",
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

export interface TextFile {
  readonly path: string;
  readonly text: string;
}

/** `root` is where this checkout happens to lie; its name must not be in it either. */
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
