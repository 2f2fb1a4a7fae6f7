import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { simulate } from "../../src/sim/simulate.ts";

/** `npm run check` uses fewer jobs. */
const SWARM = { runs: process.env.CORDUM_SIM_SEEDS === undefined ? 100 : 30, faults: "swarm" } as const;

describe("seeds", () => {
  it.each(Array.from({ length: 25 }, (_, index) => index + 1))(
    "%i has no violations with swarm faults",
    async (seed) => {
      const report = await simulate({ ...SWARM, seed, verifiesWrites: true });
      expect(report.violations).toEqual([]);
      expect(report.jobs.SUCCEEDED).toBeGreaterThan(0);
    },
  );

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
    const reports = await Promise.all([11, 15, 18, 19].map((seed) => simulate({ seed, runs: 150, faults: "swarm" })));
    expect(reports.reduce((sum, { crashes }) => sum + crashes, 0)).toBeGreaterThan(20);
    for (const state of ["SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"]) {
      expect(reports.reduce((sum, { jobs }) => sum + (jobs[state] ?? 0), 0)).toBeGreaterThan(0);
    }
    for (const state of ["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"]) {
      expect(reports.reduce((sum, { runs }) => sum + (runs[state] ?? 0), 0)).toBeGreaterThan(0);
    }
    for (const event of ["safety_breaker_opened", "safety_breaker_closed", "safety_bypassed", "fail_open_expired"]) {
      expect(reports.reduce((sum, { logged }) => sum + (logged[event] ?? 0), 0)).toBeGreaterThan(0);
    }
  });
});

const TRACED = { seed: 4, runs: 80, faults: "swarm", keepsTrace: true } as const;
