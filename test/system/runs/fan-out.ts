/** A run with a large list on NATS and Redis: its duration and its acquisitions of the run lock. */
import { nats as overNats, worker } from "../../../src/worlds/worker-sdk.ts";
import { tokenHeader } from "../../cli/run.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { type Answer, Api } from "../api.ts";
import { LiveEvents } from "../live-events.ts";
import { Program } from "../program.ts";

export interface FanOutReport {
  readonly seconds: number;
  readonly state: string;
  readonly output: unknown;
  readonly children: Readonly<Record<string, number>>;
  /** The distinct and the total number of jobs that workers received. */
  readonly distinct: number;
  readonly received: number;
  /** Acquisitions of the run lock in all processes, and results applied under it. */
  readonly locks: number;
  readonly results: number;
}

export async function fanOut(request: {
  readonly items: number;
  readonly controls: number;
  readonly workers: number;
}): Promise<FanOutReport> {
  const [program, nats, redis] = await Promise.all([
    Program.build(),
    startNats(),
    startRedis({ appendonly: true, appendfsync: "everysec" }),
  ]);
  const stops: (() => Promise<unknown>)[] = [];
  try {
    const servers = ["--nats", nats.url, "--redis", redis.url, "--port", "0"];
    const env = { CORDUM_LOG_LEVEL: "error" };
    const up = (role: string) => program.up([...servers, "--role", role], env).url;
    const urls = await Promise.all([up("gateway"), ...times(request.controls, () => up("control"))]);
    const api = new Api(urls[0] ?? "");
    const received: string[] = [];
    const handle = async ({ jobId, input }: { readonly jobId: string; readonly input: unknown }) => {
      received.push(jobId);
      return input;
    };
    const transport = overNats({ nats: nats.url, redis: redis.url });
    for (const id of times(request.workers, (index) => `fan-${index}`)) {
      stops.push(await worker({ id, topics: ["fan.out"], concurrency: 64, transport, handle }));
    }
    const applied = await api.post("/workflows", WORKFLOW);
    if (applied.status !== 200) throw new Error(JSON.stringify(applied.body));
    const startedMs = Date.now();
    const input = { items: times(request.items, (index) => index) };
    const { body: started } = await api.post("/workflows/fan/runs", { input });
    const run = await ended(api, started.run_id);
    const seconds = (Date.now() - startedMs) / 1_000;
    const metrics = await metricsOf(urls);
    return {
      seconds,
      state: run.state,
      output: run.output,
      children: run.steps.each.children,
      distinct: new Set(received).size,
      received: received.length,
      locks: sumOf(metrics, /^cordum_lock_attempts_count\{.*path="(engine|gateway)"/),
      results: sumOf(metrics, /^cordum_run_results_total/),
    };
  } finally {
    await Promise.all(stops.map((stop) => stop()));
    await program.stop();
    await Promise.all([nats.stop(), redis.stop()]);
  }
}

/** Waits for the end of the run without polling, which would take CPU time from the run. */
async function ended(api: Api, runId: string): Promise<Answer["body"]> {
  for (;;) {
    let over = (): void => {};
    const isOver = new Promise<void>((resolve) => {
      over = resolve;
    });
    const events = await LiveEvents.open(api, (burst) => {
      if (burst.some(({ kind, data }) => kind === "run" && data.run_id === runId && data.state !== "RUNNING")) over();
    });
    const { body } = await api.get(`/workflow-runs/${runId}`);
    if (body.state !== "RUNNING") {
      events.stop();
      return body;
    }
    // A slow reader is dropped by the server and reconnects.
    await Promise.race([isOver, events.closed]);
    events.stop();
  }
}

const WORKFLOW = {
  id: "fan",
  steps: { each: { topic: "fan.out", for_each: "${input.items}", max_parallel: 256, failure: "wait_all" } },
  output: { count: "${size(steps.each.output)}" },
};

async function metricsOf(urls: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const sums = new Map<string, number>();
  for (const url of urls) {
    const text = await (await fetch(`${url}/metrics`, { headers: tokenHeader(url) })).text();
    for (const line of text.split("\n")) {
      const [, name, value] = /^([a-z].*) (\S+)$/.exec(line) ?? [];
      if (name !== undefined) sums.set(name, (sums.get(name) ?? 0) + Number(value));
    }
  }
  return sums;
}

function sumOf(metrics: ReadonlyMap<string, number>, name: RegExp): number {
  let sum = 0;
  for (const [key, value] of metrics) if (name.test(key)) sum += value;
  return sum;
}

const times = <T>(count: number, make: (index: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, index) => make(index));
