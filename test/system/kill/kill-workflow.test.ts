// Kills the process that advances a run of `every-step.yaml` after each commit.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { http, nats as overNats } from "../../../src/worlds/worker-sdk.ts";
import type { UpProcess } from "../../cli/run.ts";
import { freePort } from "../../servers/ports.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { Api } from "../api.ts";
import { Program } from "../program.ts";
import { problemsOf, subRunProblems } from "../runs/run-problems.ts";
import { CountingWorker } from "../workers/counting-worker.ts";
import { allEnded, killHard, runUntilCommit, SHORT_WAITS, startWith } from "./kill-workflow.ts";

const WORKFLOWS = ["--workflows", "examples/workflows"];

let program: Program;
let dir: string;

beforeAll(async () => {
  program = await Program.build();
  dir = mkdtempSync(join(tmpdir(), "cordum-kill-workflow-"));
});

afterAll(async () => {
  await program.stop();
  rmSync(dir, { recursive: true, force: true });
});

// Concurrent, because each test mostly waits for the claims of killed processes to expire.
test.concurrent("ends every step once and succeeds after kill -9 of the embedded process at each commit", async () => {
  const port = await freePort();
  const api = new Api(`http://127.0.0.1:${port}`);
  const up = (env = {}) =>
    program.up(["--data", dir, "--port", String(port), ...WORKFLOWS], { ...SHORT_WAITS, ...env });
  let running = up();
  await running.url;
  const worker = new CountingWorker();
  await worker.start("counter", http({ url: api.url, ...api.apiKey }));
  try {
    const runIds: string[] = [];
    for (let commit = 1, isKilled = true; isKilled; commit++) {
      const ran = await runUntilCommit(api, commit, () => killHard(running));
      isKilled = ran.isKilled;
      if (isKilled) {
        running = up();
        await running.url;
      }
      runIds.push(await startWith(api, ran.key));
    }
    await allEnded(api, runIds);
    expect(new Set(runIds).size).toBe(runIds.length);
    expect(runIds.length).toBeGreaterThan(15);
    const problems = await Promise.all(runIds.map((id) => problemsOf(api, id, worker.received)));
    expect(problems.flat()).toEqual([]);
    expect(await subRunProblems(api, runIds)).toEqual([]);
    // All slots are free: a limit of two admits one run and its sub-run.
    await killHard(running);
    await up({ CORDUM_LIMITS_MAX_CONCURRENT_RUNS: "2" }).url;
    const last = await startWith(api, "last");
    await allEnded(api, [last]);
    expect(await problemsOf(api, last, worker.received)).toEqual([]);
  } finally {
    await worker.stop();
  }
}, 900_000);

test.concurrent("another control process continues a run after kill -9 on NATS and Redis", async () => {
  const [nats, redis] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  const servers = ["--nats", nats.url, "--redis", redis.url];
  const up = (role: string) => program.up([...servers, "--role", role, "--port", "0", ...WORKFLOWS], SHORT_WAITS);
  const worker = new CountingWorker();
  try {
    const api = new Api(await up("gateway").url);
    const controls = [up("control"), up("control")];
    await Promise.all(controls.map(({ url }) => url));
    await worker.start("counter", overNats({ nats: nats.url, redis: redis.url }));
    const runIds: string[] = [];
    for (const [turn, commit] of [2, 5, 8, 12, 16, 19, 22].entries()) {
      const at = turn % 2;
      const victim = controls[at] as UpProcess;
      const ran = await runUntilCommit(api, commit, () => killHard(victim));
      const runId = await startWith(api, ran.key);
      runIds.push(runId);
      await allEnded(api, [runId]);
      if (!ran.isKilled) continue;
      controls[at] = up("control");
      await controls[at].url;
    }
    const problems = await Promise.all(runIds.map((id) => problemsOf(api, id, worker.received)));
    expect(problems.flat()).toEqual([]);
    expect(await subRunProblems(api, runIds)).toEqual([]);
  } finally {
    await worker.stop();
    await Promise.all([nats.stop(), redis.stop()]);
  }
}, 900_000);
