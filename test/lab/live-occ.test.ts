import { describe, expect, test } from "vitest";
import { runExperiment } from "../../src/lab/experiment.ts";
import type { LiveSpec, ProcessGroup } from "../../src/lab/live.ts";
import { OCC } from "../../src/lab/occ/experiment.ts";
import { type Command, runLiveRow } from "../../src/lab/occ/live.ts";
import type { ParamTable } from "../../src/lab/params.ts";
import { CONDITIONS, NEVER } from "./fixtures.ts";

const live = OCC.live as LiveSpec<ParamTable>;
const plan = (raw: object, conditions: object = {}) =>
  live.plan(OCC.readParams({ ...raw }), { ...CONDITIONS, givenParams: new Set(Object.keys(raw)), ...conditions });

describe("plan", () => {
  test("has few clients unless given, and the network of the model", () => {
    expect(plan({})).toMatchObject({ processes: 4, params: { clients: [10, 50], latencyMs: 10, latencyMsSd: 2 } });
    expect(plan({ clients: "3,7" }, { processesMax: 1 })).toMatchObject({ processes: 1, params: { clients: [3, 7] } });
    expect(plan({}, { processes: 2 })).toMatchObject({ processes: 2 });
    // The defaults of the simulation can be given explicitly.
    const explicit = plan({}, { givenParams: new Set(["clients"]) });
    expect(explicit.params.clients).toEqual(OCC.readParams({}).clients);
    expect(() => plan({ clients: "10,201" })).toThrow("--clients 201: give 200 at most with --live");
  });

  test("has the rows of the simulation", async () => {
    const { params } = plan({ clients: "2,3", policies: ["none", "full", "fixed:20ms"] });
    const { rows } = await runExperiment(OCC, { seed: 1, seeds: 1, params });
    expect(JSON.stringify(live.keys(params))).toBe(JSON.stringify(rows.map(({ key }) => key)));
    expect(rows).toHaveLength(6);
  });
});

describe("runLiveRow", () => {
  const { params } = plan({ clients: "3" });
  const rowRequest = { key: live.keys(params)[0]!, params } as unknown as Parameters<typeof runLiveRow>[1];

  /** Two processes that start at 1,100. */
  function groupOf(count: number, updated: Promise<unknown> = Promise.resolve(null)) {
    const shares: number[] = [];
    const request = async (index: number, message: unknown): Promise<unknown> => {
      const command = message as Command;
      switch (command.do) {
        case "now":
          return 1_000;
        case "update":
          shares.push(command.clients);
          return updated;
        case "report":
          return index === 0
            ? { callsMs: [1_130], waitsMs: [1_140] }
            : { callsMs: [1_120, 1_125, 1_150], waitsMs: [1_135, 1_170] };
        case "count":
          return count;
        default:
          return null;
      }
    };
    const requestAll: ProcessGroup["requestAll"] = (message) => Promise.all([request(0, message), request(1, message)]);
    const group: ProcessGroup = { size: 2, request, requestAll, onEvent: () => undefined };
    return { group, shares };
  }

  test("distributes the clients and computes the figures of the model", async () => {
    const { group, shares } = groupOf(3);
    const { figures, series, isFinished } = await runLiveRow(group, rowRequest, NEVER);
    expect(shares).toEqual([1, 2]);
    expect(isFinished).toBe(true);
    expect(figures).toMatchObject({ time_ms: 70, calls: 4, attempts_per_update: 4 / 3, wait_ms: { p50: 40 } });
    expect(series?.waits_ms).toEqual([35, 40, 70]);
  });

  test("rejects a lost update", async () => {
    const lost = runLiveRow(groupOf(2).group, rowRequest, NEVER);
    await expect(lost).rejects.toThrow("3 updates were accepted, the record has 2");
  });

  test("returns unfinished figures when time is up", async () => {
    const partial = await runLiveRow(groupOf(1, NEVER).group, rowRequest, Promise.resolve());
    expect(partial).toMatchObject({ isFinished: false, figures: { calls: 4 } });
  });
});
