import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { StartOutcome } from "../../../src/engine/intake/start-run.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { bundle } from "../bundle.ts";
import { Child } from "../command-process.ts";
import type { AdmissionCommand } from "../fixtures/admission-process.ts";

/** Admission between real processes, on a real Redis: the limit is 2, and what is started stays open. */
describe.each(["atomic", "polled"] as const)("four processes at one gate on redis, %s", (strategy) => {
  let server: RunningServer;
  let script: string;
  let four: Child<AdmissionCommand>[];

  beforeAll(async () => {
    script = await bundle("admission-process.ts");
  });
  beforeEach(async () => {
    server = await startRedis();
    four = Array.from({ length: 4 }, () => new Child<AdmissionCommand>(script, server.url));
    for (const child of four) await child.answer("ready");
    expect(await four[0]!.ask({ do: "apply", document: ASK }, "applied")).toBe("applied");
  });
  afterEach(async () => {
    for (const child of four) await child.kill();
    await server.stop();
  });

  /** All of them at once, dealt out to the four. */
  const race = async (keys: readonly (string | null)[]): Promise<StartOutcome[]> => {
    for (const [at, child] of four.entries()) {
      child.tell({ do: "start", strategy, limit: 2, keys: keys.filter((_, index) => index % 4 === at) });
    }
    return (await Promise.all(four.map((child) => child.answer<StartOutcome[]>("outcomes")))).flat();
  };
  const open = () => four[3]!.ask<{ readonly runs: string[]; readonly slots: number }>({ do: "open" }, "open");

  it.each([10, 100])("%i starts at once: exactly 2, the others are told why, and an end lets one in", async (count) => {
    const outcomes = await race(Array(count).fill(null));
    const refused = outcomes.filter(({ kind }) => kind !== "started");
    expect(refused).toEqual(Array(count - 2).fill({ kind: "full", current: 2, limit: 2 }));
    const { runs, slots } = await open();
    expect([runs.length, slots]).toEqual([2, 2]);
    await four[1]!.ask({ do: "cancel", runId: runs[0]! }, "cancelled");
    expect(started(await race(Array(10).fill(null)))).toHaveLength(1);
    expect((await open()).slots).toBe(2);
  });

  it("50 with one key make one run and are all told of it; again when the org is full", async () => {
    const outcomes = await race(Array(50).fill("k"));
    const ids = new Set(outcomes.flatMap((outcome) => ("runId" in outcome ? [outcome.runId] : [])));
    expect(ids.size).toBe(1);
    expect(started(outcomes)).toHaveLength(1);
    expect(outcomes.filter(({ kind }) => kind === "replayed")).toHaveLength(49);
    await race(Array(10).fill(null));
    const again = await race(Array(20).fill("k"));
    expect(again).toEqual(Array(20).fill({ kind: "replayed", runId: [...ids][0], state: "RUNNING" }));
    expect((await open()).slots).toBe(2);
  });

  it("kill -9 in the midst of starts leaves no slot and no key without a run", async () => {
    const keys = Array.from({ length: 100 }, (_, at) => `k${at % 10}`);
    const [doomed, ...others] = four as [Child<AdmissionCommand>, ...Child<AdmissionCommand>[]];
    doomed.tell({ do: "start", strategy, limit: 2, keys });
    const starting = others.map((child) =>
      child.ask<StartOutcome[]>({ do: "start", strategy, limit: 2, keys }, "outcomes"),
    );
    await doomed.kill();
    await Promise.all(starting);
    const { runs, slots } = await open();
    expect(slots).toBe(runs.length);
    expect(slots).toBeLessThanOrEqual(2);
    for (const runId of runs) await others[0]!.ask({ do: "cancel", runId }, "cancelled");
    expect((await open()).slots).toBe(0);
    // A key that is pinned to a run that never was would be answered with it.
    const known = await others[1]!.ask<StartOutcome[]>({ do: "start", strategy, limit: 0, keys }, "outcomes");
    for (const outcome of known) {
      if (outcome.kind === "replayed") expect(outcome.state).toBe("CANCELLED");
      else expect(outcome).toEqual({ kind: "full", current: 0, limit: 0 });
    }
  });
});

const ASK = { id: "ask", steps: { ask: { type: "approval" } } };
const started = (outcomes: readonly StartOutcome[]) => outcomes.filter(({ kind }) => kind === "started");
