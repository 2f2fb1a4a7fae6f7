import { afterAll, beforeAll, expect, test } from "vitest";
import { Program } from "../program.ts";
import { LiveRun, onServers } from "./lab-live-run.ts";

let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(() => program.stop());

const SMALL = [
  ...[
    "safety-outage",
    "--live",
    "--outage-ms",
    "1500",
    "--waited-ms",
    "1000",
    "--contenders",
    "20",
    "--kernel-ms",
    "2",
  ],
  ...["--policy", "full:200ms:1s", "--json"],
];

test("on NATS and Redis, jobs wait for a separate kernel process and drain after the outage", async () => {
  await onServers(async (target, monitor) => {
    const run = new LiveRun(program.file, [...SMALL, ...target]);
    await run.until(monitor.seen(/^cordum-lab-\w+-1\./));
    expect(run.members()).toHaveLength(3);
    const { exitCode, out, stderr } = await run.ended;
    expect(stderr).toBe("");
    expect(exitCode).toBe(0);
    const { live, params, results } = JSON.parse(out) as Document;
    expect(live).toMatchObject({ processes: 3 });
    expect(params).toMatchObject({ replicas: 2, load: "burst", mode: "closed" });
    expect(results.map(({ breaker }) => breaker)).toEqual(["off", "on"]);
    for (const row of results) {
      // All jobs wait during the outage and are dispatched after it.
      expect(row.live).toMatchObject({ finished: true, submitted: 20, left: 0, bypassed: 0 });
      expect(row.live.waiting_max).toBe(20);
      expect(row.live.recovery_ms).toBeGreaterThan(0);
      expect(row.live.drain_ms).toBeGreaterThanOrEqual(row.live.recovery_ms);
      expect(row.live.pressure.checks_per_s).toBeGreaterThan(0);
    }
    const [off, on] = results;
    expect(off?.live.pressure.refused_per_s).toBe(0);
    expect(on?.live.pressure.refused_per_s).toBeGreaterThan(0);
  });
});

test("in the embedded world, jobs wait for a separate kernel process", async () => {
  const { exitCode, out, stderr } = await new LiveRun(program.file, [...SMALL, "--breaker", "off"]).ended;
  expect(stderr).toBe("");
  expect(exitCode).toBe(0);
  const { live, results } = JSON.parse(out) as Document;
  expect(live).toMatchObject({ processes: 2, on: "the embedded world" });
  expect(results).toHaveLength(1);
  expect(results[0]?.live).toMatchObject({ finished: true, submitted: 20, left: 0, waiting_max: 20 });
});

interface Document {
  readonly live: object;
  readonly params: object;
  readonly results: readonly {
    readonly breaker: string;
    readonly live: {
      readonly waiting_max: number;
      readonly recovery_ms: number;
      readonly drain_ms: number;
      readonly pressure: { readonly checks_per_s: number; readonly refused_per_s: number };
    };
  }[];
}
