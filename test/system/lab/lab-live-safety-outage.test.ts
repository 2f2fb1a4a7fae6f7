import { afterAll, beforeAll, expect, test } from "vitest";
import { startNats, startRedis } from "../../servers/start.ts";
import { Program } from "../program.ts";
import { LiveRun, Onlooker } from "./lab-live-run.ts";

let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(() => program.remove());

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

test("on NATS and Redis, control planes wait for a kernel that is a process of its own", async () => {
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  const onlooker = await Onlooker.open(nats, redis);
  try {
    await onlooker.leaveOurs();
    const target = ["--nats", nats.url, "--redis", redis.url, "--processes", "3"];
    const run = new LiveRun(program.file, [...SMALL, ...target]);
    await run.until(onlooker.seen(/^cordum-lab-\w+-1\./));
    expect(run.members()).toHaveLength(3);
    const { exitCode, out, err } = await run.ended;
    expect(err).toBe("");
    expect(exitCode).toBe(0);
    const { live, params, results } = JSON.parse(out) as Document;
    expect(live).toMatchObject({ processes: 3 });
    expect(params).toMatchObject({ replicas: 2, load: "burst", mode: "closed" });
    expect(results.map(({ breaker }) => breaker)).toEqual(["off", "on"]);
    for (const row of results) {
      // Everybody waited for the kernel, nobody went before it was back, and everybody went then.
      expect(row.live).toMatchObject({ finished: true, submitted: 20, left: 0, bypassed: 0 });
      expect(row.live.waiting_max).toBe(20);
      expect(row.live.recovery_ms).toBeGreaterThan(0);
      expect(row.live.drain_ms).toBeGreaterThanOrEqual(row.live.recovery_ms);
      expect(row.live.pressure.checks_per_s).toBeGreaterThan(0);
    }
    const [off, on] = results;
    expect(off?.live.pressure.refused_per_s).toBe(0);
    expect(on?.live.pressure.refused_per_s).toBeGreaterThan(0);
    expect([...onlooker.keys].filter((key) => !/^cordum-lab-\w+-\d:/.test(key))).toEqual(["cordum:theirs"]);
    expect(await onlooker.left()).toEqual({ keys: ["cordum:theirs"], streams: ["CORDUM_SYS"] });
  } finally {
    await onlooker.close();
    await Promise.all([nats.stop(), redis.stop()]);
  }
});

test("in the embedded world, one control plane beside the kernel", async () => {
  const { exitCode, out, err } = await new LiveRun(program.file, [...SMALL, "--breaker", "off"]).ended;
  expect(err).toBe("");
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
