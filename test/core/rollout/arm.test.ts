import { describe, expect, it } from "vitest";
import { type ArmRule, armOf, isMeasured, uniformOf } from "../../../src/core/rollout/arm.ts";

const rule = (given: Partial<ArmRule> = {}): ArmRule => ({
  ...{ salt: "salt", share: 0.1, switchMs: null },
  ...given,
});
const ids = Array.from({ length: 20_000 }, (_, at) => `run-${at}`);
const shareOf = (isIn: (id: string) => boolean) => ids.filter(isIn).length / ids.length;

describe("arms", () => {
  it("depend on the salt and the unit only, the same in every process", () => {
    expect(uniformOf("salt/arm/run-1")).toBe(0.8722752424717038);
    expect(ids.every((id) => armOf(rule(), id, 1) === armOf(rule(), id, 2))).toBe(true);
  });

  it.each([0.01, 0.1, 0.5, 0.9])("have the share %d", (share) => {
    const treated = shareOf((id) => armOf(rule({ share }), id, 0) === "treatment");
    expect(Math.abs(treated - share)).toBeLessThan(4 * Math.sqrt((share * (1 - share)) / ids.length));
  });

  it("are independent between salts, between neighbours and of the measured units", () => {
    const treated = (id: string, salt = "salt") => armOf(rule({ salt, share: 0.5 }), id, 0) === "treatment";
    const measured = (id: string) => isMeasured(rule(), id, 0.5);
    const both = [
      shareOf((id) => treated(id) && treated(id, "other")),
      shareOf((id) => treated(id) && treated(`${id}0`)),
      shareOf((id) => treated(id) && measured(id)),
    ];
    for (const share of both) expect(Math.abs(share - 0.25)).toBeLessThan(0.015);
  });

  it("keep treatment units in treatment when the share grows", () => {
    const grown = ids.every(
      (id) => armOf(rule(), id, 0) === "control" || armOf(rule({ share: 0.3 }), id, 0) === "treatment",
    );
    expect(grown).toBe(true);
  });

  it("alternate in time blocks of a switched rollout, for all units alike", () => {
    const switched = rule({ share: 0.5, switchMs: 1_000 });
    const at = (ms: number) => new Set(ids.slice(0, 50).map((id) => armOf(switched, id, ms)));
    const blocks = Array.from({ length: 200 }, (_, block) => [at(1_000 * block), at(1_000 * block + 999)]);
    expect(blocks.every(([start, end]) => start?.size === 1 && [...start][0] === [...end!][0])).toBe(true);
    const treated = blocks.filter(([start]) => start?.has("treatment")).length;
    expect(treated).toBeGreaterThan(70);
    expect(treated).toBeLessThan(130);
  });
});
