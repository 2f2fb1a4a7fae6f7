/** A fake gateway with one workflow, scripted runs, recorded request bodies and server-sent events. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { FakeResponse } from "../fake.ts";

export interface AskedWith {
  readonly method: string;
  /** Without `/api/v1`. */
  readonly path: string;
  // biome-ignore lint/suspicious/noExplicitAny: request bodies are untyped.
  readonly body: any;
}

export interface RunFake {
  readonly env: { readonly CORDUM_URL: string };
  readonly asked: readonly AskedWith[];
  /** Paths of the subscriptions. */
  readonly streams: readonly string[];
  /** Sends to all event subscribers. */
  send(event: string): void;
  close(): void;
}

export async function startRunFake(
  answer: (asked: AskedWith) => FakeResponse | Promise<FakeResponse>,
): Promise<RunFake> {
  const asked: AskedWith[] = [];
  const streams: string[] = [];
  const readers = new Set<ServerResponse>();
  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const path = (request.url ?? "").replace(/^\/api\/v1/, "");
    const sent = await text(request);
    if (path.startsWith("/stream")) {
      streams.push(path);
      readers.add(response.writeHead(200, { "content-type": "text/event-stream" }));
      response.write(': connected\n\nid: 1\nevent: ready\ndata: {"resumed":false}\n\n');
      return;
    }
    const one = { method: request.method ?? "", path, body: sent === "" ? null : JSON.parse(sent) };
    asked.push(one);
    const { status, body, headers = {} } = await answer(one);
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    env: { CORDUM_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
    asked,
    streams,
    send(event) {
      for (const reader of readers) reader.write(event);
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export const at = (second: number): string => new Date(Date.UTC(2030, 0, 1) + second * 1_000).toISOString();

const STEP = { job_id: null, started_at: null, ended_at: null, output: null, error: null, why: null, arm: null };

export const step = (state: string, more: object = {}): object => ({ state, type: "worker", ...STEP, ...more });

export const DEFINITION = {
  id: "photos",
  name: "Photos",
  timeout_sec: 60,
  steps: {
    fetch: { topic: "demo.echo" },
    resize: { topic: "demo.echo", depends_on: ["fetch"], for_each: "input.files" },
    // biome-ignore lint/suspicious/noThenProperty: `then` is a field of workflow steps; the object is not awaited.
    check: { type: "condition", condition: "input.public", then: ["publish"], depends_on: ["fetch"] },
    publish: { type: "approval", reason: "publish them?" },
    tell: { type: "notify", message: "done", depends_on: ["resize", "publish"] },
  },
};

export const WORKFLOW = {
  workflow_id: "photos",
  version: 3,
  tenant_id: "default",
  hash: "0".repeat(64),
  created_at: at(-60),
  created_by: "local",
  definition: DEFINITION,
};

/** The run after some seconds; it ends as `end` after four. */
export function runAfter(second: number, end = "SUCCEEDED"): Record<string, unknown> {
  const isDone = (from: number) => second >= from;
  const state = isDone(4) ? end : "RUNNING";
  const fan = { count: 4_000, spawned: 4_000, open: 0, succeeded: 0, failed: 3, cancelled: 0 };
  const children = { ...fan, succeeded: isDone(3) ? 3_997 : 1_237, open: isDone(3) ? 0 : 2_760 };
  const done = { type: "approval", started_at: at(1), ended_at: at(3), job_id: "r1:publish@1" };
  return {
    run_id: "r1",
    workflow_id: "photos",
    version: 3,
    state,
    tenant_id: "default",
    created_at: at(0),
    updated_at: at(second),
    deadline: at(60),
    labels: { team: "blue" },
    error: end === "SUCCEEDED" || !isDone(4) ? null : { name: "Error", message: "no more disk" },
    parent: null,
    rerun_of: null,
    input: { files: 4_000 },
    output: isDone(4) && end === "SUCCEEDED" ? { tell: "done" } : null,
    lock: { holder: "p1", fence: 7, waited_ms: 3, attempts: 1 },
    steps: {
      fetch: isDone(1)
        ? step("SUCCEEDED", { started_at: at(0), ended_at: at(1), job_id: "r1:fetch@1" })
        : step("RUNNING", { started_at: at(0), job_id: "r1:fetch@1" }),
      resize: isDone(1)
        ? step(isDone(3) ? "SUCCEEDED" : "RUNNING", { children, started_at: at(1), ended_at: isDone(3) ? at(3) : null })
        : step("PENDING"),
      check: isDone(1)
        ? step("SUCCEEDED", { type: "condition", arm: "then", started_at: at(1), ended_at: at(1) })
        : step("PENDING", { type: "condition" }),
      publish: isDone(3)
        ? step("SUCCEEDED", done)
        : step(isDone(1) ? "RUNNING" : "PENDING", { ...done, ended_at: null, started_at: isDone(1) ? at(1) : null }),
      tell: isDone(4)
        ? step(end === "SUCCEEDED" ? end : "FAILED", { type: "notify", started_at: at(4), ended_at: at(4) })
        : step("PENDING", { type: "notify" }),
    },
  };
}

export const WAITS = [
  {
    step_id: "publish",
    state: "RUNNING",
    reason: "a human has to decide",
    until: at(60),
    unblocks: "cordum approval approve r1:publish@1",
    job_id: "r1:publish@1",
  },
];
