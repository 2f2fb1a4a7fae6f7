import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runInThisContext } from "node:vm";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ANY_TEST, withProbes } from "../../scripts/probes.mjs";

const folder = mkdtempSync(join(tmpdir(), "cordum-probes-"));
const record = join(folder, "reach.txt");
beforeAll(() => writeFileSync(record, ""));
afterAll(() => {
  rmSync(folder, { recursive: true });
  Reflect.deleteProperty(globalThis, "__probe");
});

const reached = (): readonly string[] => readFileSync(record, "utf8").split("\n").filter(Boolean).sort();

test("records the functions that a test reaches", () => {
  const source = `(() => {
const twice = (n) => n * 2;
const list = (n) => ({ n: [n + 1] });
function both(n) { return [twice(n), n => n - 1]; }
class Box { get size() { return 1; } }
const limit = 3;
return { list, both, limit, box: new Box() };
})()`;
  const places = ["n * 2", "n + 1", "twice(n)", "n - 1", "1; }", "3;"].map((text): [number, string] => [
    source.indexOf(text),
    text.replaceAll(" ", ""),
  ]);
  const probed = withProbes(source, places, record);
  const { list, both, box } = runInThisContext(probed);
  const here = import.meta.filename;
  expect(reached()).toEqual([`3; ${here}`]);
  expect(list(1)).toEqual({ n: [2] });
  expect(box.size).toBe(1);
  both(1);
  both(1);
  expect(reached()).toEqual(["1;} ", "3; ", "n*2 ", "n+1 ", "twice(n) "].map((name) => name + here));
});

test("code outside functions belongs to any test", () => {
  const probed = withProbes("const a = 1;", [[10, "a"]], record);
  expect(probed).toMatch(/const a = 1;\nglobalThis\.__probe\?\.\("a"\);$/);
  expect(probed).toContain(JSON.stringify(ANY_TEST));
});
