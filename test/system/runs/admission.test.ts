import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { StartOutcome } from "../../../src/engine/intake/start-run.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { bundle } from "../bundle.ts";
import { CommandProcess } from "../command-process.ts";
import type { AdmissionCommand } from "../fixtures/admission-process.ts";

/** Admission with a limit of 2 and runs that stay open. */
describe.each(["atomic", "polled"] as const)("admission of four processes on Redis, strategy %s", (strategy) => {
  let server: RunningServer;
  let script: string;
  let processes: CommandProcess<AdmissionCommand>[];

  beforeAll(async () => {
    script = await bundle("admission-process.ts");
  });
  beforeEach(async () => {
    server = await startRedis();
    processes = Array.from({ length: 4 }, () => new CommandProcess<AdmissionCommand>(script, server.url));
    for (const child of processes) await child.receive("ready");
    expect(await processes[0]!.call({ do: "apply", document: ASK }, "applied")).toBe("applied");
  });
  afterEach(async () => {
    for (const child of processes) await child.kill();
    await server.stop();
  });

  /** Concurrent starts, distributed over the processes. */
  const race = async (keys: readonly (string | null)[]): Promise<StartOutcome[]> => {
    for (const [at, child] of processes.entries()) {
      child.send({ do: "start", strategy, limit: 2, keys: keys.filter((_, index) => index % 4 === at) });
    }
    return (await Promise.all(processes.map((child) => child.receive<StartOutcome[]>("outcomes")))).flat();
  };
  const open = () => processes[3]!.call<{ readonly runs: string[]; readonly slots: number }>({ do: "open" }, "open");

  it.each([10, 100])("admits exactly 2 of %i concurrent starts, and one more after an end", async (count) => {
    const outcomes = await race(Array(count).fill(null));
    const refused = outcomes.filter(({ kind }) => kind !== "started");
    expect(refused).toEqual(Array(count - 2).fill({ kind: "full", current: 2, limit: 2 }));
    const { runs, slots } = await open();
    expect([runs.length, slots]).toEqual([2, 2]);
    await processes[1]!.call({ do: "cancel", runId: runs[0]! }, "cancelled");
    expect(started(await race(Array(10).fill(null)))).toHaveLength(1);
    expect((await open()).slots).toBe(2);
  });

  it("50 starts with one key create one run, and replays succeed when the org is full", async () => {
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

  it("kill -9 during starts leaves no slot and no key without a run", async () => {
    const keys = Array.from({ length: 100 }, (_, at) => `k${at % 10}`);
    const [killed, ...others] = processes as [CommandProcess<AdmissionCommand>, ...CommandProcess<AdmissionCommand>[]];
    killed.send({ do: "start", strategy, limit: 2, keys });
    const starting = others.map((child) =>
      child.call<StartOutcome[]>({ do: "start", strategy, limit: 2, keys }, "outcomes"),
    );
    await killed.kill();
    await Promise.all(starting);
    const { runs, slots } = await open();
    expect(slots).toBe(runs.length);
    expect(slots).toBeLessThanOrEqual(2);
    for (const runId of runs) await others[0]!.call({ do: "cancel", runId }, "cancelled");
    expect((await open()).slots).toBe(0);
    // A key reserved for a missing run would be replayed.
    const known = await others[1]!.call<StartOutcome[]>({ do: "start", strategy, limit: 0, keys }, "outcomes");
    for (const outcome of known) {
      if (outcome.kind === "replayed") expect(outcome.state).toBe("CANCELLED");
      else expect(outcome).toEqual({ kind: "full", current: 0, limit: 0 });
    }
  });
});

const ASK = { id: "ask", steps: { ask: { type: "approval" } } };
const started = (outcomes: readonly StartOutcome[]) => outcomes.filter(({ kind }) => kind === "started");
