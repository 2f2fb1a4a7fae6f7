import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RepairReport, repairDirectory } from "../../../src/adapters/sqlite/integrity/repair.ts";
import { HALVES } from "../../../src/adapters/sqlite/journal-file.ts";
import { Manifest } from "../../../src/adapters/sqlite/manifest.ts";
import { PLACEMENTS } from "../../../src/engine/tables.ts";
import { DamageLab, damagesOf, inflict, observe, recordsOf, rowsOf } from "./damage.ts";

const lab = new DamageLab();
let crashed: string;
let closed: string;
let expected: Map<string, string>;
let rows: string;
beforeAll(async () => {
  crashed = await lab.crashed(2, 350);
  const opened = lab.copy(crashed);
  expected = await recordsOf(opened, lab.acknowledged);
  rows = await rowsOf(opened);
  // A copy: SQLite removes files of the other directory when the garbage collection ends its statements.
  closed = lab.copy(opened);
});
afterAll(() => lab.close());

const NAMED = /cordum\.(db|journal|manifest)|lock\.db/;

/** Whether the report names the job, or says that commits without names are lost. */
const isNamed = (id: string, { problems, lost }: RepairReport): boolean =>
  [...lost, ...problems].some((text) => text.includes(`\`${id}\``) || /unnamed/.test(text));

/** Jobs that a repair loses or changes, and does not report. */
async function unnamedAfterRepair(dir: string): Promise<readonly string[]> {
  const report = await repairDirectory(dir, { write: true, placements: PLACEMENTS });
  expect(report.copy).not.toBeNull();
  const left = await recordsOf(dir, lab.acknowledged);
  const changed = [...expected].filter(([id, text]) => left.get(id) !== text).map(([id]) => id);
  return changed.filter((id) => !isNamed(id, report));
}

/** Of a write that was not known to be on disk when the process was killed: none of it was acknowledged. */
function isUnsynced(dir: string, { file, at }: { readonly file: string; readonly at: number }): boolean {
  const { end } = Manifest.read(join(dir, "cordum.manifest")).journal;
  return file === "cordum.journal" && end > 0 && at >= end && (end > HALVES[1] || at < HALVES[1]);
}

describe("damage to a file of the data directory", () => {
  test("has acknowledged jobs to lose", async () => {
    expect(expected.size).toBeGreaterThan(100);
    expect([...expected.values()]).not.toContain("null");
    expect(await observe(lab.copy(crashed), expected)).toEqual({ kind: "intact" });
  });

  for (const [state, seed] of [
    ["crashed", 1],
    ["closed", 2],
  ] as const) {
    test(`is never silent after a process ${state}`, { timeout: 600_000 }, async () => {
      const source = state === "crashed" ? crashed : closed;
      const outcomes = { intact: 0, refused: 0 };
      for (const damage of damagesOf(source, FLIPS, seed)) {
        if (isUnsynced(source, damage)) continue;
        const dir = lab.copy(source);
        inflict(dir, damage);
        let outcome = await observe(dir, expected);
        // A refused start changes nothing: the next one is refused too.
        if (outcome.kind === "refused") outcome = await observe(dir, expected);
        const what = JSON.stringify({ ...damage, ...outcome });
        expect(outcome.kind, what).not.toBe("silent");
        if (outcome.kind === "refused") {
          expect(outcome.error, what).toMatch(NAMED);
          expect(await unnamedAfterRepair(dir), what).toEqual([]);
        }
        if (outcome.kind === "intact") expect((await rowsOf(dir)) === rows, what).toBe(true);
        if (outcome.kind !== "silent") outcomes[outcome.kind] += 1;
      }
      expect(outcomes.refused).toBeGreaterThan(10);
    });
  }

  test("is found in the header and in the definitions of the tables", { timeout: 600_000 }, async () => {
    const page = readFileSync(join(closed, "cordum.db")).toString("latin1", 0, 4_096);
    const words = [...page.matchAll(/records \(|records_id on|packet text|due_ms integer|value_sum/g)];
    expect(words.length).toBeGreaterThan(5);
    for (const at of [18, 19, ...words.map(({ index }) => index)]) {
      const dir = lab.copy(closed);
      inflict(dir, { kind: "flip", file: "cordum.db", at });
      const outcome = await observe(dir, expected);
      expect(outcome.kind, `${at}`).toBe("refused");
      expect(await unnamedAfterRepair(dir), `${at}`).toEqual([]);
    }
  });

  test("is found by reads and by the check of the pages when the database is too large to check at the start", {
    timeout: 600_000,
  }, async () => {
    for (const damage of damagesOf(closed, 4 * FLIPS, 3)) {
      if (damage.file !== "cordum.db") continue;
      const dir = lab.copy(closed);
      inflict(dir, damage);
      const outcome = await observe(dir, expected, { startCheckBytesMax: 0 });
      expect(outcome.kind, JSON.stringify({ ...damage, ...outcome })).not.toBe("silent");
    }
  });
});

const FLIPS = Number(process.env.CORDUM_DAMAGE_FLIPS ?? 6);
