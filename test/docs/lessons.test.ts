import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const TESTS = new URL("../", import.meta.url);
const text = readFileSync(new URL("../../docs/lessons.md", import.meta.url), "utf8");
const citations = citationsIn(TESTS);

/** The lists of tests are generated from test names that cite a lesson; `npx vitest run test/docs -u` rewrites them. */
test("docs/lessons.md lists the tests that cite each lesson", async () => {
  const fresh = text.replace(
    /^(\*\*L(\d+)\..*\n\n)Covered by:(?:\n\n- .*(?:\n- .*)*)?/gm,
    (_, head: string, number: string) => `${head}Covered by:\n\n${listOf(Number(number))}`,
  );
  await expect(fresh).toMatchFileSnapshot("../../docs/lessons.md");
});

test("every lesson is covered by a test or says that it is not", () => {
  const numbers = [...text.matchAll(/^\*\*L(\d+)\./gm)].map(([, number]) => Number(number));
  expect(numbers).toEqual(Array.from({ length: 62 }, (_, at) => at + 1));
  const claimed = [...text.matchAll(/^\*\*L(\d+)\..*\n\nCovered by:/gm)].map(([, number]) => Number(number));
  expect(claimed.filter((number) => !citations.has(number))).toEqual([]);
  expect([...citations.keys()].filter((number) => !claimed.includes(number))).toEqual([]);
});

function listOf(lesson: number): string {
  return (citations.get(lesson) ?? []).map((citation) => `- \`\` ${citation} \`\``).join("\n");
}

/** Lesson → `test/file.ts › name`, in the order of files and lines. A comment in the first line cites the whole file. */
function citationsIn(folder: URL): ReadonlyMap<number, readonly string[]> {
  const found = new Map<number, string[]>();
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  for (const file of files.map((name) => name.replaceAll("\\", "/")).sort()) {
    for (const [at, line] of readFileSync(new URL(file, folder), "utf8").split("\n").entries()) {
      const name = at === 0 && line.startsWith("// L") ? line : nameIn(line);
      const citation = `test/${file}${name === line ? "" : ` › ${withoutTags(name)}`}`;
      for (const [, number] of name.matchAll(/\bL(\d+)\b/g)) {
        const list = found.get(Number(number)) ?? [];
        if (!list.includes(citation)) found.set(Number(number), [...list, citation]);
      }
    }
  }
  return found;
}

/** The string of the line that begins or ends with a tag, such as `"L12: …"` or `"… (L12, L13)"`. */
function nameIn(line: string): string {
  if (/^\s*(\/\/|\*|\/\*)/.test(line)) return "";
  const strings = [...line.matchAll(/"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g)].map(
    ([, one, other]) => one ?? other ?? "",
  );
  return strings.find((name) => /^L\d+(, L\d+)*: |\bL\d+(, L\d+)*: |\(L\d+(, L\d+)*\)$/.test(name)) ?? "";
}

function withoutTags(name: string): string {
  return name.replace(/\bL\d+(, L\d+)*: /g, "").replace(/ \(L\d+(, L\d+)*\)$/, "");
}
