import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { TABLES } from "../../src/engine/tables.ts";

test("lists every table of the core", () => {
  const core = join(import.meta.dirname, "../../src/core");
  const files = readdirSync(core, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const declared = files.flatMap((name) => [
    ...readFileSync(join(core, name), "utf8").matchAll(/^export const \w+: Table</gm),
  ]);
  expect(declared.length).toBe(new Set(TABLES).size);
});
