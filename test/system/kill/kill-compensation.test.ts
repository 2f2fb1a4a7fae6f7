// Kills the process that undoes a failed run after each commit.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { http, nats as overNats, permanent, type Transport, worker } from "../../../src/worlds/worker-sdk.ts";
import type { UpProcess } from "../../cli/run.ts";
import { freePort } from "../../servers/ports.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { Api } from "../api.ts";
import { Program } from "../program.ts";
import { allEnded, killHard, runUntilCommit, SHORT_WAITS, startWith } from "./kill-workflow.ts";

const undo = { compensate: { topic: "saga.undo" } };
const SAGA = {
  id: "saga",
  steps: {
    charge: { topic: "saga.do", ...undo },
    seats: { topic: "saga.do", depends_on: ["charge"], for_each: "[0, 1, 2]", max_parallel: 1, ...undo },
    mail: { topic: "saga.fail", depends_on: ["seats"] },
  },
};
const WORKFLOW = { id: "saga", input: null };

let program: Program;
let dir: string;

beforeAll(async () => {
  program = await Program.build();
  dir = mkdtempSync(join(tmpdir(), "cordum-kill-compensation-"));
});

afterAll(async () => {
  await program.stop();
  rmSync(dir, { recursive: true, force: true });
});

const startWorker = (transport: Transport) =>
  worker({
    id: "saga",
    topics: ["saga.do", "saga.undo", "saga.fail"],
    transport,
    handle: async ({ topic, input }) => {
      if (topic.endsWith("fail")) throw permanent(new Error("no mail"));
      return input;
    },
  });

test.concurrent("undoes each step once, in order, after kill -9 of the embedded process at each commit", async () => {
  const port = await freePort();
  const api = new Api(`http://127.0.0.1:${port}`);
  const up = () => program.up(["--data", dir, "--port", String(port)], SHORT_WAITS);
  let running = up();
  await running.url;
  await api.post("/workflows", SAGA);
  const stop = await startWorker(http({ url: api.url, ...api.apiKey }));
  try {
    const runIds: string[] = [];
    for (let commit = 1, isKilled = true; isKilled; commit++) {
      const ran = await runUntilCommit(api, commit, () => killHard(running), WORKFLOW);
      isKilled = ran.isKilled;
      if (isKilled) {
        running = up();
        await running.url;
      }
      runIds.push(await startWith(api, ran.key, WORKFLOW));
    }
    await allEnded(api, runIds);
    expect(new Set(runIds).size).toBe(runIds.length);
    expect(runIds.length).toBeGreaterThan(8);
    for (const id of runIds) await expectUndone(api, id);
  } finally {
    await stop();
    await killHard(running);
  }
}, 600_000);

test.concurrent("another control process continues the compensations after kill -9 on NATS and Redis", async () => {
  const [nats, redis] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  const servers = ["--nats", nats.url, "--redis", redis.url];
  const up = (role: string) => program.up([...servers, "--role", role, "--port", "0"], SHORT_WAITS);
  const gateway = up("gateway");
  const controls = [up("control"), up("control")];
  try {
    const api = new Api(await gateway.url);
    await Promise.all(controls.map(({ url }) => url));
    await api.post("/workflows", SAGA);
    const stop = await startWorker(overNats({ nats: nats.url, redis: redis.url }));
    for (const [turn, commit] of [7, 9, 11, 13].entries()) {
      const at = turn % 2;
      const ran = await runUntilCommit(api, commit, () => killHard(controls[at] as UpProcess), WORKFLOW);
      const runId = await startWith(api, ran.key, WORKFLOW);
      await allEnded(api, [runId]);
      await expectUndone(api, runId);
      if (!ran.isKilled) continue;
      controls[at] = up("control");
      await controls[at].url;
    }
    await stop();
  } finally {
    await Promise.all([gateway, ...controls].map(killHard));
    await Promise.all([nats.stop(), redis.stop()]);
  }
}, 600_000);

/** The run ended with its own error, after one successful compensation of each step and item. */
async function expectUndone(api: Api, id: string): Promise<void> {
  const { body: run } = await api.get(`/workflow-runs/${id}`);
  expect(run).toMatchObject({ state: "FAILED", error: { message: "no mail" } });
  expect(run.compensation).toMatchObject({ total: 2, undone: ["seats", "charge"], failed: [], left: [] });
  expect(run.steps.seats.compensation.children).toEqual({ left: 0, open: 0, succeeded: 3, failed: 0 });
  const { body: timeline } = await api.get(`/workflow-runs/${id}/timeline?limit=200`);
  const lines = timeline.items.map(({ event, step_id }: { event: string; step_id: string }) => `${event} ${step_id}`);
  expect(lines.slice(lines.indexOf("run_ending null") + 1)).toEqual([
    "compensation_started seats",
    "compensation_succeeded seats",
    "compensation_started charge",
    "compensation_succeeded charge",
    "run_failed null",
  ]);
  for (const job of ["charge", "seats.0", "seats.1", "seats.2"]) {
    const { state, history } = await api.job(encodeURIComponent(`${id}:${job}.undo@1`));
    const ends = history.filter(({ event }: { event: string }) => event === "succeeded");
    expect([job, state, ends.length]).toEqual([job, "SUCCEEDED", 1]);
  }
}
