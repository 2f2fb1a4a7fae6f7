import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { Program } from "../program.ts";
import { LiveRun, ServerMonitor } from "./lab-live-run.ts";

let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(() => program.stop());

describe("on NATS and Redis", () => {
  let nats: RunningServer;
  let redis: RunningServer;
  let monitor: ServerMonitor;
  beforeEach(async () => {
    [nats, redis] = await Promise.all([startNats(), startRedis()]);
    monitor = await ServerMonitor.open(nats, redis);
    await monitor.addForeignData();
  });
  afterEach(async () => {
    await monitor.close();
    await Promise.all([nats.stop(), redis.stop()]);
  });

  const start = (...args: readonly string[]): LiveRun =>
    new LiveRun(program.file, [
      "lock-busy",
      "--live",
      "--live-times",
      "1",
      "--nats",
      nats.url,
      "--redis",
      redis.url,
      ...args,
    ]);

  /** Only the foreign data is left. */
  const expectCleanedUp = async (): Promise<void> => {
    expect(await monitor.contents()).toEqual({ keys: [FOREIGN_KEY], streams: ["CORDUM_SYS"] });
  };

  test("runs the shipped control planes on keys and subjects of the lab only", async () => {
    const rows = ["bounded:100ms:0.5", "hand_over", "default"];
    const run = start("--contenders", "40", ...rows.flatMap((row) => ["--policy", row]), "--json");
    await run.until(monitor.seen(LAB_RESULT));
    expect(run.members()).toHaveLength(3);
    const { exitCode, out, stderr } = await run.ended;
    expect(stderr).toBe("");
    expect(exitCode).toBe(0);
    const document = JSON.parse(out) as Document;
    expect(document.live).toMatchObject({
      processes: 3,
      on: expect.stringMatching(/^nats \d.* and (redis|valkey) \d/),
    });
    const { simulated_latency_ms, simulated_step_ms, simulated_nak_look_ms } = document.live;
    expect(document.params).toMatchObject({
      ...{ latency_ms: simulated_latency_ms, step_ms: simulated_step_ms, nak_look_ms: simulated_nak_look_ms },
    });
    expect(simulated_step_ms).toBeGreaterThan(0);
    // JetStream resets one timer with each delayed nak, so redelivery has a minimum delay.
    expect(simulated_nak_look_ms).toBeGreaterThan(5);
    expect(document.results.map(({ policy }) => policy)).toEqual(rows);
    const [random, queue, shared] = document.results.map(({ live }) => live);
    for (const live of [random, queue, shared]) {
      expect(live).toMatchObject({ finished: true, applied: 40, dead_lettered: 0 });
      expect(live?.drain_ms).toBeGreaterThan(0);
    }
    expect(random).toMatchObject({ commits: 40 });
    expect(random?.busy_retries).toBeGreaterThan(0);
    expect(queue).toMatchObject({ commits: 40, attempts_per_acquisition: 1, busy_retries: 0, deliveries_max: 1 });
    // Results are applied in batches.
    expect(shared?.commits).toBeLessThan(10);
    for (const { live, drain_ms, error_pct } of document.results) {
      expect(error_pct.drain_ms).toBeCloseTo(100 * (live.drain_ms / drain_ms - 1), 1);
    }
    expect([...monitor.keys].filter((key) => !/^cordum-lab-\w+-\d:/.test(key))).toEqual([FOREIGN_KEY]);
    expect([...monitor.subjects].filter((subject) => !/^cordum-lab-\w+-\d\./.test(subject))).toEqual([]);
    expect(monitor.keys.size).toBeGreaterThan(10);
    await expectCleanedUp();
  });

  test("SIGINT stops the run and cleans up", async () => {
    const run = start(...SLOW);
    await run.until(monitor.seen(LAB_RESULT));
    run.kill("SIGINT");
    const { exitCode, stderr } = await run.ended;
    expect(stderr).toContain("stopped by SIGINT; its data was removed");
    expect(exitCode).toBe(1);
    await expectCleanedUp();
  });

  test("a killed member process ends the run and cleans up", async () => {
    const run = start(...SLOW);
    await run.until(monitor.seen(LAB_RESULT));
    const [first = 0] = run.members();
    process.kill(first, "SIGKILL");
    const { exitCode, stderr } = await run.ended;
    expect(stderr).toContain("a process of the live run exited early (SIGKILL); its data was removed");
    expect(exitCode).toBe(1);
    await expectCleanedUp();
  });

  test("member processes exit and clean up when the command is killed", async () => {
    const run = start(...SLOW);
    await run.until(monitor.seen(LAB_RESULT));
    run.kill("SIGKILL");
    expect((await run.ended).exitCode).toBeNull();
    await expectCleanedUp();
  });

  test("reports a row that did not finish in time", async () => {
    const args = [...SLOW, "--policy", "default", "--live-seconds", "1"];
    const dir = mkdtempSync(join(tmpdir(), "cordum-lab-live-"));
    try {
      const { exitCode, out, stderr } = await start(...args, "--out", dir).ended;
      expect(exitCode, stderr).toBe(0);
      expect(out).toMatch(/^hand_over \(unfinished\) +[\d,]+ +– +–/m);
      expect(out).toContain("Unfinished live rows after 1 s: hand_over");
      const document = JSON.parse(readFileSync(join(dir, "lock-busy.json"), "utf8")) as Document;
      expect(document.results[0]?.live.finished).toBe(false);
      expect(document.results[0]?.error_pct).toEqual({});
      const page = readFileSync(join(dir, "lock-busy.html"), "utf8");
      expect(page).toContain("simulated and live figures");
      expect(page).toContain("hand_over (unfinished)");
      expect(readdirSync(dir)).toContain("lock-busy-live-arrivals.svg");
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
    await expectCleanedUp();
  });
});

test("in the embedded world, runs in one process and removes its directory", async () => {
  const dir = mkdtempSync(join(tmpdir(), "cordum-lab-embedded-"));
  try {
    const args = [
      "lock-busy",
      ...["--live-times", "1"],
      "--live",
      "--contenders",
      "20",
      "--policy",
      "hand_over",
      "--policy",
      "default",
      "--json",
    ];
    const { exitCode, out, stderr } = await new LiveRun(program.file, args, { TMPDIR: dir }).ended;
    expect(stderr).toBe("");
    expect(exitCode).toBe(0);
    const document = JSON.parse(out) as Document;
    expect(document.live).toMatchObject({ processes: 1, on: "the embedded world", bus_ping_ms: null });
    for (const { live } of document.results) expect(live).toMatchObject({ finished: true, applied: 20 });
    expect(readdirSync(dir)).toEqual([]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

const FOREIGN_KEY = "cordum:theirs";
/** Takes at least 15 s, with little load. */
const SLOW = ["--contenders", "60", "--policy", "hand_over", "--hold-ms", "250"];
/** A result message of a row; the survey before the rows has no number. The run is busy after the first one. */
const LAB_RESULT = /^cordum-lab-\w+_\d+-\d\.sys\.job\.result$/;

interface Figures {
  readonly finished: boolean;
  readonly drain_ms: number;
  readonly busy_retries: number;
  readonly commits: number;
}

interface Document {
  readonly params: { readonly latency_ms: number; readonly step_ms: number; readonly nak_look_ms: number };
  readonly live: {
    readonly simulated_latency_ms: number;
    readonly simulated_step_ms: number;
    readonly simulated_nak_look_ms: number;
  };
  readonly results: readonly {
    readonly policy: string;
    readonly drain_ms: number;
    readonly live: Figures;
    readonly error_pct: Readonly<Record<string, number>>;
  }[];
}
