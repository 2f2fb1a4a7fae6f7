import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { killEmbedded } from "./kill-embedded.ts";

test("ends every acknowledged job exactly once after 20 random kills of the embedded process under load", async () => {
  const dir = mkdtempSync(join(tmpdir(), "cordum-kill-"));
  try {
    const report = await killEmbedded({ dir, kills: 20, seed: 1 });
    expect(report.lost).toEqual([]);
    expect(report.endedTwice).toEqual([]);
    expect(report.failed).toEqual([]);
    expect(report.acknowledged).toBeGreaterThan(200);
    expect(report.killed).toBe(20);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}, 300_000);
