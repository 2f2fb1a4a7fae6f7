import { describe, expect, it } from "vitest";
import { runSim, type SimCommandOptions } from "../../src/cli/commands/sim.ts";

async function run(options: SimCommandOptions): Promise<{ readonly code: number; readonly text: string }> {
  let text = "";
  const code = await runSim(options, (part) => {
    text += part;
  });
  return { code, text };
}

describe("cordum sim", () => {
  it("prints a summary and exits with 0", async () => {
    const { code, text } = await run({ seeds: 2, runs: 30 });
    expect(code).toBe(0);
    expect(text).toMatch(/^seeds +1 to 2\n/);
    expect(text).toMatch(/\nviolations +0\n$/);
  });

  it("reports progress separately from its output", async () => {
    const shown: string[] = [];
    let text = "";
    const write = (part: string) => {
      text += part;
    };
    await runSim({ seeds: 2, runs: 5, json: true }, write, (part) => shown.push(part));
    expect(shown).toEqual(["sim: 0 of 2 seeds, 0 violations", "sim: 1 of 2 seeds, 0 violations"]);
    expect(JSON.parse(text)).toMatchObject({ seeds: 2 });
  });

  it("prints one JSON document for one seed", async () => {
    const { code, text } = await run({ seed: 5, runs: 30, json: true });
    expect(code).toBe(0);
    expect(JSON.parse(text)).toEqual({
      seed: 5,
      hash: expect.stringMatching(/^[0-9a-f]{16}$/),
      events: expect.any(Number),
      cpu_ms: expect.any(Number),
      violations: [],
    });
  });

  it("prints one JSON document for several seeds", async () => {
    const { text } = await run({ seed: 5, seeds: 2, runs: 30, json: true });
    expect(JSON.parse(text)).toEqual({
      seeds: 2,
      events: expect.any(Number),
      cpu_ms: expect.any(Number),
      violations: [],
    });
  });

  it("exits with 1 on a violation and prints the command that repeats it", async () => {
    const bug = { seed: 2, runs: 40, faults: "lite", mutant: "no-due-sweep" } as const;
    const summary = await run(bug);
    expect(summary.code).toBe(1);
    expect(summary.text).toContain("to reproduce: cordum sim --seed 2 --runs 40 --faults lite --mutant no-due-sweep\n");
    const { code, text } = await run({ ...bug, json: true });
    expect(code).toBe(1);
    const { violations } = JSON.parse(text) as { violations: Record<string, unknown>[] };
    expect(violations.map(({ checker }) => checker)).toContain("stuck");
    expect(violations[0]).toMatchObject({ seed: 2, repeat: expect.stringContaining("--seed 2") });
  });

  it("rejects unknown mutants and fault profiles and lists the known ones", async () => {
    await expect(run({ mutant: "nonsense" })).rejects.toThrow("no-outbox-sweep");
    await expect(run({ faults: "nonsense" })).rejects.toMatchObject({
      exitCode: 2,
      next: expect.stringContaining("swarm"),
    });
  });
});
