// The size of what a browser loads before the first page, compressed.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { build } from "../../scripts/build.mjs";

const FIRST_LOAD_BYTES_MAX = 90_000;
const folder = join(import.meta.dirname, "..", "..", "dist", "dashboard");

/** The page, what it names, and what that imports before it runs. */
function firstLoad(): string[] {
  const page = readFileSync(join(folder, "index.html"), "utf8");
  const open = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map(([, name = ""]) => name);
  const seen = new Set(["index.html"]);
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (seen.has(name)) continue;
    seen.add(name);
    const text = readFileSync(join(folder, name), "utf8");
    if (name.endsWith(".js")) {
      open.push(
        ...[...text.matchAll(/\bfrom"\.\/([^"]+)"|import"\.\/([^"]+)"/g)].map(([, a, b]) => `assets/${a ?? b}`),
      );
    }
  }
  return [...seen];
}

test("the first load is at most 90 kB, without charts and graphs", async () => {
  await build({ quiet: true });
  const sizes = firstLoad().map((name) => [name, gzipSync(readFileSync(join(folder, name))).length] as const);
  expect(sizes.length).toBeGreaterThan(3);
  expect(sizes.reduce((sum, [, size]) => sum + size, 0)).toBeLessThan(FIRST_LOAD_BYTES_MAX);
  expect(sizes.map(([name]) => name).filter((name) => /chart-plot|plan-graph|editor/.test(name))).toEqual([]);
});

test("the page has nothing inline and names no other host", async () => {
  await build({ quiet: true });
  const page = readFileSync(join(folder, "index.html"), "utf8");
  expect(page).not.toMatch(/<style|\son\w+=|style=|https?:\/\//);
  expect(page.match(/<script\b[^>]*>/g)).toHaveLength(1);
  expect(page).toMatch(/<script type="module"[^>]* src="\/assets\/[^"]+"><\/script>/);
});
