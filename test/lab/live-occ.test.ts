import { describe, expect, test } from "vitest";
import { runExperiment } from "../../src/lab/experiment.ts";
import type { LiveSpec, ProcessGroup } from "../../src/lab/live.ts";
import { OCC } from "../../src/lab/occ/experiment.ts";
import { conductOcc } from "../../src/lab/occ/live.ts";
import type { OccQuestion } from "../../src/lab/occ/member.ts";
import type { ParamTable } from "../../src/lab/params.ts";

const live = OCC.live as LiveSpec<ParamTable>;
const GIVEN = {
  ...{ processes: null, processesMax: 16, latencyMs: 0.05, latencySpread: 0.2, stepMs: 0, nakLookMs: 0 },
  givenParams: new Set<string>(),
};
const plan = (typed: object, given: object = {}) =>
  live.plan(OCC.readParams({ ...typed }), { ...GIVEN, givenParams: new Set(Object.keys(typed)), ...given });

describe("the plan", () => {
  test("few clients unless they are given, and the network of the model whatever the target's is", () => {
    expect(plan({})).toMatchObject({ processes: 4, params: { clients: [10, 50], latencyMs: 10, latencyMsSd: 2 } });
    expect(plan({ clients: "3,7" }, { processesMax: 1 })).toMatchObject({ processes: 1, params: { clients: [3, 7] } });
    expect(plan({}, { processes: 2 })).toMatchObject({ processes: 2 });
    // Whoever types what is usual under virtual time means it.
    const usual = plan({}, { givenParams: new Set(["clients"]) });
    expect(usual.params.clients).toEqual(OCC.readParams({}).clients);
    expect(() => plan({ clients: "10,201" })).toThrow("--clients 201: give 200 at most with --live");
  });

  test("its rows are those of the simulation", async () => {
    const { params } = plan({ clients: "2,3", policies: ["none", "full", "fixed:20ms"] });
    const { rows } = await runExperiment(OCC, { seed: 1, seeds: 1, params });
    expect(JSON.stringify(live.keys(params))).toBe(JSON.stringify(rows.map(({ key }) => key)));
    expect(rows).toHaveLength(6);
  });
});

describe("one row", () => {
  const { params } = plan({ clients: "3" });
  const order = { key: live.keys(params)[0]!, params } as unknown as Parameters<typeof conductOcc>[1];
  const never = new Promise<void>(() => undefined);

  /** Two processes, which begin at 1,100. */
  function crewOf(count: number, updated: Promise<unknown> = Promise.resolve(null)) {
    const shares: number[] = [];
    const ask = async (index: number, question: unknown): Promise<unknown> => {
      const asked = question as OccQuestion;
      switch (asked.do) {
        case "now":
          return 1_000;
        case "update":
          shares.push(asked.clients);
          return updated;
        case "tell":
          return index === 0
            ? { callsMs: [1_130], waitsMs: [1_140] }
            : { callsMs: [1_120, 1_125, 1_150], waitsMs: [1_135, 1_170] };
        case "count":
          return count;
        default:
          return null;
      }
    };
    const askAll: ProcessGroup["requestAll"] = (question) => Promise.all([ask(0, question), ask(1, question)]);
    return {
      crew: { size: 2, request: ask, requestAll: askAll, onEvent: () => undefined } satisfies ProcessGroup,
      shares,
    };
  }

  test("everybody is somewhere, and the figures are those of the model", async () => {
    const { crew, shares } = crewOf(3);
    const { figures, series, isFinished } = await conductOcc(crew, order, never);
    expect(shares).toEqual([1, 2]);
    expect(isFinished).toBe(true);
    expect(figures).toMatchObject({ time_ms: 70, calls: 4, attempts_per_update: 4 / 3, wait_ms: { p50: 40 } });
    expect(series?.waits_ms).toEqual([35, 40, 70]);
  });

  test("an update that got lost is no figure, but an error", async () => {
    const lost = conductOcc(crewOf(2).crew, order, never);
    await expect(lost).rejects.toThrow("3 clients were told that their update is in, and 2 are");
  });

  test("when time is up, what there is is told as unfinished", async () => {
    const halfway = await conductOcc(crewOf(1, never).crew, order, Promise.resolve());
    expect(halfway).toMatchObject({ isFinished: false, figures: { calls: 4 } });
  });
});
