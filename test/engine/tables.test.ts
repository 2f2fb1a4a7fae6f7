import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { killId, POOLS } from "../../src/core/model/kill-switch.ts";
import { rolloutRecordId } from "../../src/core/rollout/rollout.ts";
import { PLACEMENTS, TABLES } from "../../src/engine/tables.ts";

test("lists every table of the core", () => {
  const core = join(import.meta.dirname, "../../src/core");
  const files = readdirSync(core, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const declared = files.flatMap((name) => [
    ...readFileSync(join(core, name), "utf8").matchAll(/^export const \w+: Table</gm),
  ]);
  expect(declared.length).toBe(new Set(TABLES).size);
});

test("pools, kill switches and rollouts share a table, and each has the placement of its kind", () => {
  const scoresOf = (id: string, value: object) =>
    PLACEMENTS.get(POOLS.name)?.(id, value as never).lists.map(({ score }) => score);
  expect(scoresOf("pool", { createdMs: 1, engagedMs: 2 })).toEqual([1]);
  expect(scoresOf(killId("acme"), { createdMs: 1, engagedMs: 2 })).toEqual([2]);
  expect(scoresOf(rolloutRecordId("r"), { startedMs: 3, createdMs: 1, state: "running" })).toEqual([3, 3]);
});
