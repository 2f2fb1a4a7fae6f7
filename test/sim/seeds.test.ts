import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { simulate } from "../../src/sim/simulate.ts";
import { SEEDS, SWARM } from "./harness.ts";

describe("seeds", () => {
  it.each(SEEDS)("%i has no violations with swarm faults", async (seed) => {
    const report = await simulate({ ...SWARM, seed, verifiesWrites: true });
    expect(report.violations).toEqual([]);
    expect(report.jobs.SUCCEEDED).toBeGreaterThan(0);
  });

  it.each([1, 2, 3])("%i has no violations with lite faults and without faults", async (seed) => {
    expect((await simulate({ seed, runs: 100, faults: "lite" })).violations).toEqual([]);
    const calm = await simulate({ seed, runs: 100, faults: "none" });
    expect(calm.violations).toEqual([]);
  });

  it("give the same history for the same seed", async () => {
    const [first, second] = [await simulate(TRACED), await simulate(TRACED)];
    expect(second.trace).toEqual(first.trace);
    expect(second).toEqual(first);
    expect(first.trace.length).toBeGreaterThan(1_000);
  });

  it("give the same trace hash in another process", async () => {
    const script = fileURLToPath(new URL("print-hash.ts", import.meta.url));
    const hash = execFileSync(process.execPath, ["--import", "tsx", script, "9"], { encoding: "utf8" });
    expect(hash).toBe((await simulate({ seed: 9, runs: 60, faults: "swarm" })).hash);
  });

  it("give other histories for other seeds, sizes and fault profiles", async () => {
    const reports = [
      await simulate({ seed: 1, runs: 40, faults: "swarm" }),
      await simulate({ seed: 2, runs: 40, faults: "swarm" }),
      await simulate({ seed: 1, runs: 41, faults: "swarm" }),
      await simulate({ seed: 1, runs: 40, faults: "lite" }),
    ];
    expect(new Set(reports.map(({ hash }) => hash)).size).toBe(reports.length);
  });

  it("reach crashes, all final states, breaker changes and expired fail-open leases", async () => {
    const wanted = new Set([
      ...["SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"].map((state) => `job ${state}`),
      ...["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"].map((state) => `run ${state}`),
      ...["safety_breaker_opened", "safety_breaker_closed", "safety_bypassed", "fail_open_expired"],
      "crash",
    ]);
    for (let seed = 11; seed < 31 && wanted.size > 0; seed++) {
      const { crashes, jobs, runs, logged } = await simulate({ seed, runs: 150, faults: "swarm" });
      if (crashes > 5) wanted.delete("crash");
      for (const state of Object.keys(jobs)) wanted.delete(`job ${state}`);
      for (const state of Object.keys(runs)) wanted.delete(`run ${state}`);
      for (const event of Object.keys(logged)) wanted.delete(event);
    }
    expect([...wanted]).toEqual([]);
  });
});

const TRACED = { seed: 4, runs: 80, faults: "swarm", keepsTrace: true } as const;
