import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { Program } from "../program.ts";
import { LiveRun, Onlooker } from "./lab-live-run.ts";

let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(() => program.remove());

describe("on NATS and Redis", () => {
  let nats: RunningServer;
  let redis: RunningServer;
  let onlooker: Onlooker;
  beforeEach(async () => {
    [nats, redis] = await Promise.all([startNats(), startRedis()]);
    onlooker = await Onlooker.open(nats, redis);
    await onlooker.leaveOurs();
  });
  afterEach(async () => {
    await onlooker.close();
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

  /** Nothing of the lab is there any more, and everything of others is. */
  const expectSwept = async (): Promise<void> => {
    expect(await onlooker.left()).toEqual({ keys: [THEIRS], streams: ["CORDUM_SYS"] });
  };

  test("the shipped control planes do it, on keys and subjects of the lab alone", async () => {
    const rows = ["bounded:100ms:0.5", "hand_over", "default"];
    const run = start("--contenders", "40", ...rows.flatMap((row) => ["--policy", row]), "--json");
    await run.until(onlooker.seen(LAB_RESULT));
    expect(run.members()).toHaveLength(3);
    const { exitCode, out, err } = await run.ended;
    expect(err).toBe("");
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
    // JetStream has one timer for all that it is handed for later, and each sets it anew: it never comes sooner.
    expect(simulated_nak_look_ms).toBeGreaterThan(5);
    expect(document.results.map(({ policy }) => policy)).toEqual(rows);
    const [chance, queue, shared] = document.results.map(({ live }) => live);
    for (const live of [chance, queue, shared]) {
      expect(live).toMatchObject({ finished: true, applied: 40, dead_lettered: 0 });
      expect(live?.drain_ms).toBeGreaterThan(0);
    }
    expect(chance).toMatchObject({ commits: 40 });
    expect(chance?.busy_retries).toBeGreaterThan(0);
    expect(queue).toMatchObject({ commits: 40, attempts_per_acquisition: 1, busy_retries: 0, deliveries_max: 1 });
    // Whole batches: nobody is let pass, for the runs that warmed it up are forgotten.
    expect(shared?.commits).toBeLessThan(10);
    for (const { live, drain_ms, error_pct } of document.results) {
      expect(error_pct.drain_ms).toBeCloseTo(100 * (live.drain_ms / drain_ms - 1), 1);
    }
    expect([...onlooker.keys].filter((key) => !/^cordum-lab-\w+-\d:/.test(key))).toEqual([THEIRS]);
    expect([...onlooker.subjects].filter((subject) => !/^cordum-lab-\w+-\d\./.test(subject))).toEqual([]);
    expect(onlooker.keys.size).toBeGreaterThan(10);
    await expectSwept();
  });

  test("Ctrl-C ends it in good order", async () => {
    const run = start(...SLOW);
    await run.until(onlooker.seen(LAB_RESULT));
    run.kill("SIGINT");
    const { exitCode, err } = await run.ended;
    expect(err).toContain("stopped by SIGINT; what it had made is removed");
    expect(exitCode).toBe(1);
    await expectSwept();
  });

  test("a process that is killed ends it, and nothing is left", async () => {
    const run = start(...SLOW);
    await run.until(onlooker.seen(LAB_RESULT));
    const [first = 0] = run.members();
    process.kill(first, "SIGKILL");
    const { exitCode, err } = await run.ended;
    expect(err).toContain("a process of the live run ended too early (SIGKILL); what it had made is removed");
    expect(exitCode).toBe(1);
    await expectSwept();
  });

  test("when the command itself is killed, its processes end by themselves and clean up", async () => {
    const run = start(...SLOW);
    await run.until(onlooker.seen(LAB_RESULT));
    run.kill("SIGKILL");
    expect((await run.ended).exitCode).toBeNull();
    await expectSwept();
  });

  test("a row that is not done in time is said to be so", async () => {
    const args = [...SLOW, "--policy", "default", "--live-seconds", "1"];
    const dir = mkdtempSync(join(tmpdir(), "cordum-lab-live-"));
    try {
      const { exitCode, out, err } = await start(...args, "--out", dir).ended;
      expect(exitCode, err).toBe(0);
      expect(out).toMatch(/^hand_over \(not finished\) +[\d,]+ +– +–/m);
      expect(out).toContain("Live, not finished within 1 s: hand_over");
      const document = JSON.parse(readFileSync(join(dir, "lock-busy.json"), "utf8")) as Document;
      expect(document.results[0]?.live.finished).toBe(false);
      expect(document.results[0]?.error_pct).toEqual({});
      const page = readFileSync(join(dir, "lock-busy.html"), "utf8");
      expect(page).toContain("simulated and live, side by side");
      expect(page).toContain("hand_over (not finished)");
      expect(readdirSync(dir)).toContain("lock-busy-live-waves.svg");
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
    await expectSwept();
  });
});

test("in the embedded world, one process, in a directory that is gone afterwards", async () => {
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
    const { exitCode, out, err } = await new LiveRun(program.file, args, { TMPDIR: dir }).ended;
    expect(err).toBe("");
    expect(exitCode).toBe(0);
    const document = JSON.parse(out) as Document;
    expect(document.live).toMatchObject({ processes: 1, on: "the embedded world", bus_ping_ms: null });
    for (const { live } of document.results) expect(live).toMatchObject({ finished: true, applied: 20 });
    expect(readdirSync(dir)).toEqual([]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

const THEIRS = "cordum:theirs";
/** It takes a quarter of a minute at least, of which there is little to do. */
const SLOW = ["--contenders", "60", "--policy", "hand_over", "--hold-ms", "250"];
/** The first result that comes to a row (the survey before has no number): from then on it is in the middle of its work. */
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
