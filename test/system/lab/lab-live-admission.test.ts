import { afterAll, beforeAll, expect, test } from "vitest";
import { startNats, startRedis } from "../../servers/start.ts";
import { Program } from "../program.ts";
import { LiveRun, Onlooker } from "./lab-live-run.ts";

let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(() => program.remove());

const SERVERS = ["atomic", "fixed:10ms", "bounded:10ms:0.5"];
const SMALL = [
  ...["admission", "--live", "--part", "grid", "--contenders", "30", "--other-for-ms", "1000"],
  ...SERVERS.flatMap((name) => ["--policy", name]),
  "--json",
];

test("on NATS and Redis, processes race for two slots: nobody else gets in, and the other org goes its way", async () => {
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  const onlooker = await Onlooker.open(nats, redis);
  try {
    await onlooker.leaveOurs();
    const target = ["--nats", nats.url, "--redis", redis.url, "--processes", "3"];
    const run = new LiveRun(program.file, [...SMALL, "--client", "none", ...target]);
    const { exitCode, out, err } = await run.ended;
    expect(err).toBe("");
    expect(exitCode).toBe(0);
    const { live, results } = JSON.parse(out) as Document;
    expect(live).toMatchObject({ processes: 3 });
    expect(results.map(({ policy }) => policy)).toEqual(SERVERS);
    for (const row of results) {
      expect(row.live).toMatchObject({ finished: true, admitted_max_concurrent: 2 });
      const { status } = row.live;
      expect(status["200"] + status["429"] + status["503"]).toBe(30);
      expect(row.live.other_ms.p50).toBeGreaterThan(0);
      expect(row.live.other_alone_ms.p50).toBeGreaterThan(0);
    }
    const [atomic, ...polled] = results;
    // One ask each at most, since a crowd of one process shares what some of it were told; and nobody waits for a lock.
    expect(atomic?.live).toMatchObject({ status: { "503": 0 }, other_503: 0 });
    expect(atomic?.live.asks).toBeGreaterThanOrEqual(2);
    expect(atomic?.live.asks).toBeLessThanOrEqual(30);
    for (const row of polled) expect(row.live.asks).toBeGreaterThan(30);
    expect([...onlooker.keys].filter((key) => !/^cordum-lab-\w+-\d:/.test(key))).toEqual(["cordum:theirs"]);
    expect(await onlooker.left()).toEqual({ keys: ["cordum:theirs"], streams: ["CORDUM_SYS"] });
  } finally {
    await onlooker.close();
    await Promise.all([nats.stop(), redis.stop()]);
  }
});

test("in the embedded world, one process; callers that come back get in when a run has ended", async () => {
  const rows = [...SMALL, "--client", "jittered", "--policy", "atomic", "--hold-ms", "50"];
  const { exitCode, out, err } = await new LiveRun(program.file, rows).ended;
  expect(err).toBe("");
  expect(exitCode).toBe(0);
  const { live, results } = JSON.parse(out) as Document;
  expect(live).toMatchObject({ processes: 1, on: "the embedded world" });
  for (const row of results) {
    expect(row.live).toMatchObject({ finished: true });
    expect(row.live.admitted_max_concurrent).toBeLessThanOrEqual(2);
    expect(row.live.admitted).toBeGreaterThan(2);
    expect(row.live.requests_per_caller).toBeGreaterThan(1);
  }
});

interface Document {
  readonly live: object;
  readonly results: readonly {
    readonly policy: string;
    readonly live: {
      readonly asks: number;
      readonly admitted: number;
      readonly admitted_max_concurrent: number;
      readonly requests_per_caller: number;
      readonly status: Readonly<Record<"200" | "429" | "503", number>>;
      readonly other_ms: { readonly p50: number };
      readonly other_alone_ms: { readonly p50: number };
    };
  }[];
}
