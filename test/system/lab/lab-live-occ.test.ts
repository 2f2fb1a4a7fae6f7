import { afterAll, beforeAll, expect, test } from "vitest";
import { Program } from "../program.ts";
import { LiveRun, onServers } from "./lab-live-run.ts";

let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(() => program.stop());

const SMALL = ["occ", "--live", "--clients", "12", "--policy", "none", "--policy", "full", "--seeds", "3", "--json"];

test("on NATS and Redis, concurrent updates of one record are not lost", async () => {
  await onServers(async (target) => {
    const { exitCode, out, stderr } = await new LiveRun(program.file, [...SMALL, ...target]).ended;
    expect(stderr).toBe("");
    expect(exitCode).toBe(0);
    expectNoLostUpdates(JSON.parse(out) as Document, 3);
  });
});

test("in the embedded world, concurrent updates of one record are not lost", async () => {
  const { exitCode, out, stderr } = await new LiveRun(program.file, SMALL).ended;
  expect(stderr).toBe("");
  expect(exitCode).toBe(0);
  expectNoLostUpdates(JSON.parse(out) as Document, 1);
});

function expectNoLostUpdates({ live, params, results }: Document, processes: number): void {
  // The latency is the model's, not a measured one.
  expect(live).toMatchObject({ processes, simulated_latency_ms: null });
  expect(params.latency_ms).toBe(10);
  expect(results.map(({ policy }) => policy)).toEqual(["none", "full"]);
  for (const row of results) {
    expect(row.live.finished).toBe(true);
    // Some updates conflict and retry, and each takes at least the four one-way latencies of the model.
    expect(row.live.calls).toBeGreaterThan(12);
    expect(row.live.attempts_per_update).toBeCloseTo(row.live.calls / 12, 2);
    expect(row.live.wait_ms.p50).toBeGreaterThan(4 * 5);
  }
}

interface Document {
  readonly live: object;
  readonly params: { readonly latency_ms: number };
  readonly results: readonly {
    readonly policy: string;
    readonly live: {
      readonly finished: boolean;
      readonly calls: number;
      readonly attempts_per_update: number;
      readonly wait_ms: { readonly p50: number };
    };
  }[];
}
