import { describe, expect, it } from "vitest";
import { outcomeDocument } from "../../src/lab/document.ts";
import { figureAt, type Outcome, runExperiment } from "../../src/lab/experiment.ts";
import { OCC } from "../../src/lab/occ/experiment.ts";
import { simulateOcc } from "../../src/lab/occ/model.ts";
import { PUBLISHED } from "../../src/lab/occ/report.ts";
import { SeededRandom } from "../../src/sim/random.ts";

const run = (params: Parameters<typeof OCC.readParams>[0], seeds = 20, seed = 1): Promise<Outcome> =>
  runExperiment(OCC, { seed, seeds, params: OCC.readParams(params) });

const rowOf = ({ rows }: Outcome, policy: string) => rows.find(({ key }) => key.policy === policy)!;

describe("published model, mean of 20 seeds with 100 clients", async () => {
  const outcome = await run({ clients: "100", policy: undefined });
  const clipped = await run({ clients: "100", policies: ["decorrelated_clipped"] });

  it.each(Object.keys(PUBLISHED.rows) as (keyof typeof PUBLISHED.rows)[])(
    "is within 10 % of the published figures: %s",
    (policy) => {
      const known = PUBLISHED.rows[policy];
      const { figures } = rowOf(policy === "decorrelated_clipped" ? clipped : outcome, policy);
      const off = (name: "time_ms" | "calls") => Math.abs((figureAt(figures, name) ?? 0) / known[name] - 1);
      expect(off("calls")).toBeLessThan(0.05);
      expect(off("time_ms")).toBeLessThan(0.1);
    },
  );

  // The mean of 20 seeds varies by about 3 %, so this test has more.
  it("takes less time with decorrelated jitter than published, because delays are not clipped", async () => {
    const [ours, theirs] = await Promise.all(
      ["decorrelated", "decorrelated_clipped"].map(async (policy) => {
        const many = await run({ clients: "100", policies: [policy] }, 300);
        return (figureAt(rowOf(many, policy).figures, "time_ms") ?? 0) / PUBLISHED.rows.decorrelated.time_ms - 1;
      }),
    );
    expect(Math.abs(theirs!)).toBeLessThan(0.02);
    expect(ours!).toBeGreaterThan(-0.1);
    expect(ours!).toBeLessThan(-0.05);
  });

  it("compares itself with the published figures only for the published parameters", async () => {
    expect(OCC.findings(outcome).filter((text) => text.includes("published 2,436"))).toHaveLength(1);
    const other = await run({ clients: "100", baseMs: "6" }, 1);
    expect(OCC.findings(other).join()).not.toContain("(published");
  });
});

describe("model", () => {
  const request = { clients: 1, hopMs: 10, hopMsSd: 0, backoff: null };

  it("takes four hops and one call for one client", async () => {
    const { timeMs, callsMs } = await simulateOcc(request, new SeededRandom(1));
    expect(timeMs).toBe(40);
    expect(callsMs).toEqual([30]);
  });

  it("accepts one write per round when all hops take equally long", async () => {
    const { timeMs, callsMs, waitsMs } = await simulateOcc({ ...request, clients: 4 }, new SeededRandom(1));
    expect(timeMs).toBe(160);
    expect(callsMs).toHaveLength(4 + 3 + 2 + 1);
    expect(waitsMs).toEqual([40, 80, 120, 160]);
  });

  it("backs off before it reads again, with attempts counted from 1", async () => {
    const calls: unknown[] = [];
    const backoff = (attempt: number, _random: () => number, previousMs?: number) => {
      calls.push([attempt, previousMs]);
      return 100 * attempt;
    };
    const { waitsMs } = await simulateOcc({ ...request, clients: 3, backoff }, new SeededRandom(1));
    expect(calls).toEqual([
      [1, undefined],
      [1, undefined],
      [2, 100],
    ]);
    expect(waitsMs).toEqual([40, 180, 420]);
  });
});

describe("document", () => {
  it("is equal byte for byte for equal seeds, and differs for different seeds", async () => {
    const text = async (seed: number) =>
      JSON.stringify(outcomeDocument(await run({ clients: "10,20", policies: ["full", "equal:5ms:1s"] }, 2, seed)));
    const first = await text(7);
    expect(await text(7)).toBe(first);
    expect(await text(8)).not.toBe(first);
    expect(JSON.parse(first)).toMatchObject({
      experiment: "occ",
      seed: 7,
      params: { seeds: 2, clients: [10, 20], policies: ["full", "equal:5ms:1s"], base_ms: 5, cap_ms: 2_000 },
      results: [
        { policy: "full", spelling: "full:5ms:2s", clients: 10, spread: { centre: "mean" } },
        { policy: "equal:5ms:1s", spelling: "equal:5ms:1s", clients: 10 },
        { policy: "full", clients: 20, time_ms: expect.any(Number), calls: expect.any(Number) },
        { policy: "equal:5ms:1s", clients: 20 },
      ],
    });
  });

  it("has rows that are independent of the other rows", async () => {
    const alone = await run({ clients: "30", policies: ["full"] }, 1);
    const among = await run({ clients: "10,30", policies: ["none", "full"] }, 1);
    const found = among.rows.find(({ key }) => key.policy === "full" && key.clients === 30);
    expect(found?.figures).toEqual(rowOf(alone, "full").figures);
  });
});

it("rejects a base above the cap", () => {
  expect(() => OCC.readParams({ baseMs: "500", capMs: "100" })).toThrow("longer than the maximum");
});
