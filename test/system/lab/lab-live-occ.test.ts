import { afterAll, beforeAll, expect, test } from "vitest";
import { startNats, startRedis } from "../../servers/start.ts";
import { Program } from "../program.ts";
import { LiveRun, Onlooker } from "./lab-live-run.ts";

let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(() => program.remove());

const SMALL = ["occ", "--live", "--clients", "12", "--policy", "none", "--policy", "full", "--seeds", "3", "--json"];

test("on NATS and Redis, clients of several processes update one record, and no update is lost", async () => {
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  const onlooker = await Onlooker.open(nats, redis);
  try {
    await onlooker.leaveOurs();
    const target = ["--nats", nats.url, "--redis", redis.url, "--processes", "3"];
    const { exitCode, out, err } = await new LiveRun(program.file, [...SMALL, ...target]).ended;
    expect(err).toBe("");
    expect(exitCode).toBe(0);
    expectRaced(JSON.parse(out) as Document, 3);
    expect([...onlooker.keys].filter((key) => !/^cordum-lab-\w+-\d:/.test(key))).toEqual(["cordum:theirs"]);
    expect(await onlooker.left()).toEqual({ keys: ["cordum:theirs"], streams: ["CORDUM_SYS"] });
  } finally {
    await onlooker.close();
    await Promise.all([nats.stop(), redis.stop()]);
  }
});

test("in the embedded world, all of them in one process", async () => {
  const { exitCode, out, err } = await new LiveRun(program.file, SMALL).ended;
  expect(err).toBe("");
  expect(exitCode).toBe(0);
  expectRaced(JSON.parse(out) as Document, 1);
});

function expectRaced({ live, params, results }: Document, processes: number): void {
  // The network is the model's: nothing was simulated with a ping of this machine.
  expect(live).toMatchObject({ processes, simulated_latency_ms: null });
  expect(params.latency_ms).toBe(10);
  expect(results.map(({ policy }) => policy)).toEqual(["none", "full"]);
  for (const row of results) {
    expect(row.live.finished).toBe(true);
    // Somebody was too late, and came back; nobody is done before the four ways of the model.
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
