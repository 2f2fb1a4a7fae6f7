import { afterAll, beforeAll, expect, test } from "vitest";
import { Program } from "../program.ts";
import { LiveRun, onServers } from "./lab-live-run.ts";

let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(() => program.stop());

const SERVERS = ["atomic", "fixed:10ms", "bounded:10ms:0.5"];
const SMALL = [
  ...["admission", "--live", "--part", "grid", "--contenders", "30", "--other-for-ms", "1000"],
  ...SERVERS.flatMap((name) => ["--policy", name]),
  "--json",
];

test("on NATS and Redis, racing processes admit two runs and do not block another org", async () => {
  await onServers(async (target) => {
    const run = new LiveRun(program.file, [...SMALL, "--client", "none", ...target]);
    const { exitCode, out, stderr } = await run.ended;
    expect(stderr).toBe("");
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
    // At most one request each, because callers of one process share replies, and none waits for a lock.
    expect(atomic?.live).toMatchObject({ status: { "503": 0 }, other_503: 0 });
    expect(atomic?.live.asks).toBeGreaterThanOrEqual(2);
    expect(atomic?.live.asks).toBeLessThanOrEqual(30);
    for (const row of polled) expect(row.live.asks).toBeGreaterThan(30);
  });
});

test("in the embedded world, retrying callers are admitted when a run has ended", async () => {
  const rows = [...SMALL, "--client", "jittered", "--policy", "atomic", "--hold-ms", "50"];
  const { exitCode, out, stderr } = await new LiveRun(program.file, rows).ended;
  expect(stderr).toBe("");
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
