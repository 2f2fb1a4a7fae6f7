import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { SETTINGS } from "../../src/config/table.ts";
import { CHAPTER_FILE, chapterFiles, optionsOf, PARTS, type Part, runPart, sectionOf } from "../../src/lab/chapter.ts";
import { verdictsOf } from "../../src/lab/chapter-verdicts.ts";
import type { Outcome } from "../../src/lab/experiment.ts";
import { LOCK_BUSY } from "../../src/lab/lock-busy/experiment.ts";
import { OCC } from "../../src/lab/occ/experiment.ts";
import { commandFor } from "../../src/lab/report/page.ts";
import { readXml } from "./svg-reader.ts";

const DOCS = new URL("../../docs/", import.meta.url);
const written = readFileSync(new URL(CHAPTER_FILE, DOCS), "utf8");

/** Only the cheapest part is run again. `npm run lab` generates the file. */
describe("docs/what-the-lab-says.md", () => {
  test("has the command, the description and the tables of each part", () => {
    for (const part of PARTS) {
      const { experiment: one } = part;
      const command = commandFor(one, { ...optionsOf(part), experiment: one.name, centre: one.centre, rows: [] });
      expect(written, one.name).toContain(`\n    ${command}\n`);
      if (part.heading === undefined) expect(written).toContain(one.description);
      for (const { title } of one.tables) expect(written).toContain(title.slice(1));
    }
  });

  test("equals the generated text of the cheapest part", async () => {
    const part = PARTS.find(({ experiment: one }) => one === OCC)!;
    const { lines, charts } = sectionOf(part, await runPart(part));
    expect(written).toContain(lines.join("\n"));
    for (const { name, text } of charts) expect(readFileSync(new URL(name, DOCS), "utf8")).toBe(text);
  });

  test("states the current defaults", () => {
    const rows = [...written.matchAll(/^\| `([a-z_.]+)` \| `([^`]+)` \| /gm)].map(([, name, value]) => [name, value]);
    expect(rows.length).toBeGreaterThan(5);
    const shipped = new Map<string, string>(SETTINGS.map(({ name, default: value }) => [name, String(value)]));
    for (const [name = "", value] of rows) expect(shipped.get(name), name).toBe(value);
  });

  test("and the page about rollouts reference every chart in docs/lab, each of them well-formed", () => {
    const pages = written + readFileSync(new URL("rollouts.md", DOCS), "utf8");
    const shown = [...pages.matchAll(/\]\((lab\/[^)]+\.svg)\)/g)].map(([, file = ""]) => file);
    expect(new Set(shown).size).toBe(5);
    for (const file of shown) {
      expect(existsSync(fileURLToPath(new URL(file, DOCS))), file).toBe(true);
      expect(readXml(readFileSync(new URL(file, DOCS), "utf8"))[0]?.name).toBe("svg");
    }
    expect(
      readdirSync(new URL("lab/", DOCS))
        .map((name) => `lab/${name}`)
        .sort(),
    ).toEqual(shown.sort());
  });
});

describe("verdicts", () => {
  const policies = ["baseline", "baseline_capped", "bounded:500ms:0.3", "hand_over", "hand_over_500ms", "default"];
  const part: Part = { experiment: LOCK_BUSY, params: { contenders: "60", policies }, seeds: 1 };

  test("are reproducible and follow from the figures", async () => {
    const outcome = await runPart(part);
    const [chapter] = chapterFiles([part], [outcome]);
    expect(chapterFiles([part], [await runPart(part)])).toEqual(chapterFiles([part], [outcome]));
    expect(chapter?.text).toContain("| `retry.lock_busy.policy` | `bounded:500ms:0.3` | confirmed |");
    expect(chapter?.text).not.toContain("not confirmed");

    const slow = changed(outcome, "bounded:500ms:0.3", { drain_ms: 25_000 });
    expect(verdictsOf([slow])).toContainEqual(
      expect.objectContaining({ setting: "retry.lock_busy.policy", isSupported: false }),
    );
    const wasteful = changed(outcome, "default", { drain_ms: 25_000, busy_retries: 3 });
    expect(verdictsOf([wasteful]).filter(({ isSupported }) => !isSupported)).toMatchObject([
      { setting: "run_lock.coalesce" },
      { setting: "run_lock.engine_wait_ms" },
    ]);
    expect(chapterFiles([part], [wasteful])[0]?.text).toContain("**not confirmed**");
  });
});

function changed(outcome: Outcome, policy: string, figures: Readonly<Record<string, number>>): Outcome {
  const rows = outcome.rows.map((row) =>
    row.key.policy === policy ? { ...row, figures: { ...row.figures, ...figures } } : row,
  );
  return { ...outcome, rows };
}
