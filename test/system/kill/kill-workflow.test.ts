// A run of the example with every type of step loses the process that moves it, after each of its commits.
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
import { allEnded, runUntilStation, startWith } from "./kill-workflow.ts";

/** Waits that are short enough to be sat out: what a dead process had taken is free again soon. */
const HURRY = {
  CORDUM_LOG_LEVEL: "error",
  CORDUM_DISPATCH_DEADLINE_MS: "2000",
  CORDUM_SWEEP_EVERY_MS: "100",
  CORDUM_SWEEP_HORIZON_MS: "200",
  CORDUM_SWEEP_LEASE_MS: "1000",
  CORDUM_SWEEP_OUTBOX_AGE_MS: "300",
  CORDUM_BUS_ACK_WAIT_MS: "2000",
  CORDUM_RUN_LOCK_TTL_MS: "1000",
  CORDUM_RETRY_NO_WORKER_POLICY: "full:50ms:500ms",
  CORDUM_LIMITS_MAX_CONCURRENT_RUNS: "1000",
};
const WORKFLOWS = ["--workflows", "examples/workflows"];

let program: Program;
let dir: string;

beforeAll(async () => {
  program = await Program.build();
  dir = mkdtempSync(join(tmpdir(), "cordum-workflow-kill-"));
});

afterAll(async () => {
  await program.remove();
  rmSync(dir, { recursive: true, force: true });
});

// At the same time: each of them mostly waits for what a dead process had taken.
test.concurrent("kill -9 of the embedded process after each commit of a run: every step ends once, and all runs succeed", async () => {
  const port = await freePort();
  const door = new Api(`http://127.0.0.1:${port}`);
  const up = (env = {}) => program.up(["--data", dir, "--port", String(port), ...WORKFLOWS], { ...HURRY, ...env });
  let running = up();
  await running.url;
  const worker = new CountingWorker();
  await worker.start("counter", http({ url: door.url }));
  try {
    const runIds: string[] = [];
    for (let messageHandler = 1, isKilled = true; isKilled; messageHandler++) {
      const ran = await runUntilStation(door, messageHandler, () => killed(running));
      isKilled = ran.isKilled;
      if (isKilled) {
        running = up();
        await running.url;
      }
      runIds.push(await startWith(door, ran.key));
    }
    await allEnded(door, runIds);
    expect(new Set(runIds).size).toBe(runIds.length);
    expect(runIds.length).toBeGreaterThan(15);
    const problems = await Promise.all(runIds.map((id) => problemsOf(door, id, worker.given)));
    expect(problems.flat()).toEqual([]);
    expect(await subRunProblems(door, runIds)).toEqual([]);
    // Every slot was given back: there is room for one run and the one that it needs, though no more are allowed.
    await killed(running);
    await up({ CORDUM_LIMITS_MAX_CONCURRENT_RUNS: "2" }).url;
    const last = await startWith(door, "the last one");
    await allEnded(door, [last]);
    expect(await problemsOf(door, last, worker.given)).toEqual([]);
  } finally {
    await worker.stop();
  }
}, 600_000);

test.concurrent("kill -9 of a control process on NATS and Redis: another one goes on with the run", async () => {
  const [nats, redis] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  const servers = ["--nats", nats.url, "--redis", redis.url];
  const up = (role: string) => program.up([...servers, "--role", role, "--port", "0", ...WORKFLOWS], HURRY);
  const worker = new CountingWorker();
  try {
    const door = new Api(await up("gateway").url);
    const controls = [up("control"), up("control")];
    await Promise.all(controls.map(({ url }) => url));
    await worker.start("counter", overNats({ nats: nats.url, redis: redis.url }));
    const runIds: string[] = [];
    for (const [turn, messageHandler] of [2, 5, 8, 11, 14, 17, 20].entries()) {
      const at = turn % 2;
      const victim = controls[at] as UpProcess;
      const ran = await runUntilStation(door, messageHandler, () => killed(victim));
      const runId = await startWith(door, ran.key);
      runIds.push(runId);
      await allEnded(door, [runId]);
      if (!ran.isKilled) continue;
      controls[at] = up("control");
      await controls[at].url;
    }
    const problems = await Promise.all(runIds.map((id) => problemsOf(door, id, worker.given)));
    expect(problems.flat()).toEqual([]);
    expect(await subRunProblems(door, runIds)).toEqual([]);
  } finally {
    await worker.stop();
    await Promise.all([nats.stop(), redis.stop()]);
  }
}, 600_000);

/** With no chance to tidy up. */
async function killed({ child, ended }: UpProcess): Promise<void> {
  child.kill("SIGKILL");
  await ended;
}
