import { expect, test } from "vitest";
import { type Played, play } from "../../src/lab/simulator.ts";
import { CHECKERS, type Checker } from "../../src/sim/checks/violations.ts";
import { simulate } from "../../src/sim/simulate.ts";

async function played(request: Parameters<typeof play>[0]): Promise<Played> {
  const found = await play(request);
  if ("kind" in found) throw new Error(found.detail);
  return found;
}

test("has the history and the hash of the simulator", async () => {
  const request = { seed: 11, runs: 12, faults: "swarm", mutant: null } as const;
  const { hash, trace, events } = await simulate({ ...request, keepsTrace: true });
  const found = await played(request);
  expect(found).toMatchObject({ hash, events, trace_total: trace.length, violations: [] });
  expect(found.trace.map(({ source, action, subject }) => [source, action, subject])).toEqual(
    trace.map(({ source, action, subject }) => [source, action, subject]),
  );
  expect(found.command).toBe("cordum sim --seed 11 --runs 12 --faults swarm");
});

test("explains a violation with the invariant of its checker", async () => {
  const found = await played({ seed: 1, runs: 20, faults: "swarm", mutant: "ack-before-work" });
  expect(found.violations.length).toBeGreaterThan(0);
  for (const { checker, invariant } of found.violations) expect(invariant).toBe(CHECKERS[checker as Checker]);
  expect(found.command).toContain("--mutant ack-before-work");
});

test("bounds the trace", async () => {
  const request = { seed: 11, runs: 12, faults: "none", mutant: null };
  const [whole, cut] = [await played(request), await play(request, 50)];
  expect(whole.trace_total).toBeGreaterThan(50);
  expect(cut).toEqual({ ...whole, trace: whole.trace.slice(0, 50) });
});

test("rejects unknown faults and mutants", async () => {
  const request = { seed: 1, runs: 1, faults: "none", mutant: null };
  expect(await play({ ...request, faults: "all" })).toMatchObject({ kind: "rejected", param: "faults" });
  expect(await play({ ...request, mutant: "none" })).toMatchObject({ kind: "rejected", param: "mutant" });
});
