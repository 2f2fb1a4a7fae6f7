import { describe, expect, it } from "vitest";
import type { Outcome, Summary } from "../../src/lab/experiment.ts";
import { runExperiment } from "../../src/lab/experiment.ts";
import { EXPERIMENTS } from "../../src/lab/experiments.ts";
import { OCC } from "../../src/lab/occ/experiment.ts";
import { flagOf } from "../../src/lab/params.ts";
import { describePolicy, formatMs, formatNumber, formatShort } from "../../src/lab/report/format.ts";
import { commandFor, reportFiles } from "../../src/lab/report/page.ts";
import type { TableSpec } from "../../src/lab/report/tables.ts";
import { tablesText } from "../../src/lab/report/tables.ts";
import { readXml } from "./svg-reader.ts";

const summary = (policy: string, drainMs: number, tries: number, isSpread = false): Summary => {
  const figures = { drain_ms: drainMs, tries, wait_ms: { p95: drainMs === 5 ? null : 7.25 } };
  const spread = isSpread ? { min: { ...figures, drain_ms: 1 }, max: { ...figures, drain_ms: 12_345 } } : null;
  return { key: { policy, of: drainMs > 100 ? "many" : "few" }, figures, spread, series: {} };
};

const outcomeOf = (rows: readonly Summary[], seeds = 1): Outcome => ({
  experiment: "fake",
  seed: 1,
  seeds,
  centre: "median",
  params: {},
  rows,
});

const COLUMNS = [
  { path: "drain_ms", header: "drain", unit: "ms", best: "least" },
  { path: "tries", header: "tries", unit: "", best: "most" },
  { path: "wait_ms.p95", header: "wait p95", unit: "ms", best: "least" },
  { path: "never", header: "never measured", unit: "", best: "least" },
] as const;
const ROWS: TableSpec = { kind: "rows", title: "all", keys: [{ key: "policy", header: "policy" }], columns: COLUMNS };
const LOOK = { width: null, color: false };

describe("tablesText", () => {
  it("prints units, marks the best of each column and omits columns without figures", () => {
    const text = tablesText([ROWS], outcomeOf([summary("a", 1_234, 1.08), summary("bounded", 5, 2)]), LOOK);
    expect(`\n${text}`).toBe(`
all
policy    drain (ms)   tries   wait p95 (ms)
a              1,234    1.08            7.25
bounded            5*      2*              –

* best of its column
`);
  });

  it("marks the best of each group", () => {
    const rows = [summary("a", 200, 1), summary("b", 300, 1), summary("c", 5, 1), summary("d", 6, 1)];
    const text = tablesText([{ ...ROWS, groupBy: "of" }], outcomeOf(rows), LOOK);
    expect(text.split("\n").filter((line) => line.includes("*") && !line.startsWith("*"))).toEqual([
      expect.stringMatching(/^a /),
      expect.stringMatching(/^c /),
    ]);
  });

  it("prints the spread of several seeds, or a note where it does not fit", () => {
    const outcome = outcomeOf([summary("a", 10, 1, true), summary("b", 20, 1, true)], 3);
    const wide = tablesText([ROWS], outcome, LOOK);
    expect(wide).toContain("10 (1–12,345)*");
    expect(wide).toContain("figures are the median of 3 seeds (min–max)");
    const narrow = tablesText([ROWS], outcome, { width: 50, color: false });
    expect(narrow).toContain("min–max is in --json and --out");
    expect(
      Math.max(
        ...narrow
          .split("\n")
          .slice(0, 4)
          .map((line) => line.length),
      ),
    ).toBeLessThanOrEqual(50);
  });

  it("prints a pivot table", () => {
    const spec: TableSpec = {
      kind: "pivot",
      title: "drain",
      down: { key: "of", header: "how many" },
      across: "policy",
      column: COLUMNS[0],
    };
    const text = tablesText([spec], outcomeOf([summary("a", 1, 1), summary("b", 2, 1), summary("a", 101, 1)]), LOOK);
    expect(`\n${text}`).toBe(`
drain (ms)
how many     a   b
few          1*  2
many       101   –

* best of its line
`);
  });

  it("uses colors only when enabled", () => {
    const outcome = outcomeOf([summary("a", 1, 1), summary("b", 2, 1)]);
    expect(tablesText([ROWS], outcome, { width: null, color: true })).toContain("\u001b[1;32m");
    expect(tablesText([ROWS], outcome, LOOK)).not.toContain("\u001b");
  });
});

it("formats numbers and durations", () => {
  expect([62_391.4, 37.46, 1.084, 0, -1_234.5].map((value) => formatNumber(value))).toEqual([
    "62,391",
    "37.5",
    "1.08",
    "0",
    "−1,235",
  ]);
  expect([0, 250, 1_500, 119_000, 600_000, 7_200_000].map(formatMs)).toEqual([
    "0 ms",
    "250 ms",
    "1.5 s",
    "119 s",
    "10 min",
    "2 h",
  ]);
  expect([0.05, 1_234.5, 20].map(formatShort)).toEqual(["0.05", "1,235", "20"]);
});

describe("reportFiles", async () => {
  const params = OCC.readParams({ clients: "10,20", policies: ["none", "full"] });
  const outcome = await runExperiment(OCC, { seed: 3, seeds: 2, params });
  const files = reportFiles(OCC, outcome, { versions: { cordum: "1.2.3", node: "20.0.0" } });
  const page = files[0]!.text;

  it("returns a page, the document and a file per chart", () => {
    expect(files.map(({ name }) => name)).toEqual([
      "occ.html",
      "occ.json",
      "occ-arrivals.svg",
      "occ-waits.svg",
      "occ-time.svg",
      "occ-calls.svg",
    ]);
    expect(JSON.parse(files[1]!.text)).toMatchObject({ experiment: "occ", seed: 3 });
    for (const { text } of files.slice(2)) expect(readXml(text)[0]?.name).toBe("svg");
  });

  it("loads no external resource and runs no script", () => {
    for (const { text } of files) {
      const outside = text.replaceAll('xmlns="http://www.w3.org/2000/svg"', "");
      expect(outside).not.toMatch(/https?:|url\(|@import|<script|<link|<img|<iframe|\son\w+=/);
    }
  });

  it("prints the command, the seeds, the versions and the parameters", () => {
    expect(page).toContain("cordum lab occ --seed 3 --seeds 2 --clients 10,20 --policy none --policy full");
    expect(page).toContain("3 to 4");
    for (const version of ["1.2.3", "20.0.0"]) expect(page).toContain(version);
    for (const [name, param] of Object.entries(OCC.params))
      expect(page).toContain(`<code>${flagOf(name, param)}</code>`);
    expect(commandFor(OCC, { ...outcome, seed: 1, seeds: 20, params: OCC.readParams({}) })).toBe(
      "cordum lab occ --seed 1 --seeds 20",
    );
  });

  it("is well-formed, with a dark theme and a caption per chart", () => {
    expect(page).toContain("prefers-color-scheme:dark");
    const body = page.slice(page.indexOf("<body>"), page.indexOf("</html>"));
    const names = readXml(body).map(({ name }) => name);
    expect(names.filter((name) => name === "svg")).toHaveLength(4);
    expect(names.filter((name) => name === "figcaption")).toHaveLength(4);
  });

  it("returns equal files for equal outcomes", async () => {
    const again = await runExperiment(OCC, { seed: 3, seeds: 2, params });
    expect(reportFiles(OCC, again, { versions: { cordum: "1.2.3", node: "20.0.0" } })).toEqual(files);
  });
});

it("every experiment has a name, a description and distinct flags", () => {
  const names = EXPERIMENTS.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const { description: story, params } of EXPERIMENTS) {
    expect(story.length).toBeGreaterThan(80);
    const flags = Object.entries(params).map(([name, param]) => flagOf(name, param));
    expect(new Set([...flags, "--seed", "--seeds", "--json", "--out"]).size).toBe(flags.length + 4);
  }
});

it.each([
  ["fixed:500ms", "retries after 500 ms"],
  ["bounded:500ms:0.3", "retries after 350 ms to 650 ms, random"],
  ["full:1s:30s", "retries after up to 2 s, later up to 30 s, random"],
  ["capped_exponential:1s:30s:500ms", "retries after 2 s to 2.5 s, random; later after 30 s"],
  ["decorrelated:1s:30s", "retries after 1 s to 3 s, later 1 s to 30 s, random"],
  ["atomic", ""],
])("describes the policy %s", (policy, description) => {
  expect(describePolicy(policy)).toBe(description);
});
