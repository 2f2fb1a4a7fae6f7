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
  const untilMs = whole.trace[49]?.at_ms ?? 0;
  const begun = (ms: number) => ms <= untilMs;
  const { trace, messages, holds, ...rest } = whole;
  expect(cut).toEqual({
    ...rest,
    trace: trace.slice(0, 50),
    messages: messages
      .filter(({ sent_ms }) => begun(sent_ms))
      .map((one) => (one.entry !== null && one.entry >= 50 ? { ...one, entry: null } : one)),
    holds: holds.filter(({ from_ms }) => begun(from_ms)),
  });
});

test("has a sender for each delivery, and why each other message was lost", async () => {
  const { trace, messages, holds } = await played({ seed: 7, runs: 20, faults: "swarm", mutant: null });
  const isDelivery = ({ action, subject }: Played["trace"][number]) =>
    subject !== "" && (action.startsWith("sys.") || action === "listeners" || action === "servers");
  const deliveries = trace.flatMap((entry, at) => (isDelivery(entry) ? [at] : []));
  expect(messages.flatMap(({ entry }) => entry ?? []).sort((a, b) => a - b)).toEqual(
    expect.arrayContaining(deliveries),
  );
  for (const { entry, to, sent_ms, ended_ms } of messages.filter((one) => one.entry !== null)) {
    expect(trace[entry ?? -1]).toMatchObject({ source: to, at_ms: ended_ms });
    expect(sent_ms).toBeLessThanOrEqual(ended_ms ?? 0);
  }
  const lost = messages.filter(({ entry }) => entry === null);
  expect(lost.length).toBeGreaterThan(5);
  for (const { lost: why, ended_ms } of lost) expect(why === null).toBe(ended_ms === null);
  const { messages: all } = await played({ seed: 7, runs: 20, faults: "none", mutant: null });
  expect(all.filter(({ lost: why }) => why !== null)).toEqual([]);

  const locks = trace.filter(({ action }) => action === "lock");
  expect(holds.map(({ key, holder, from_ms }) => [key, holder, from_ms])).toEqual(
    locks.map(({ subject, source, at_ms }) => [subject, source, at_ms]),
  );
  // One holder at a time, with a larger fence than the one before.
  for (const [at, { key, from_ms, fence }] of holds.entries()) {
    const before = holds.slice(0, at).findLast((one) => one.key === key);
    if (before === undefined) continue;
    expect(before.to_ms ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(from_ms);
    expect(before.fence).toBeLessThan(fence);
  }
});

test("rejects unknown faults and mutants", async () => {
  const request = { seed: 1, runs: 1, faults: "none", mutant: null };
  expect(await play({ ...request, faults: "all" })).toMatchObject({ kind: "rejected", param: "faults" });
  expect(await play({ ...request, mutant: "none" })).toMatchObject({ kind: "rejected", param: "mutant" });
});
