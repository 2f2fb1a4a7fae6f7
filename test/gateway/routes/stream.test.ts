import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import type {
  JobUpdate,
  JobUpdateListener,
  RunUpdate,
  RunUpdateListener,
} from "../../../src/engine/observe/event-feed.ts";
import type { Gateway, GatewayRequest, Reader } from "../../../src/gateway/route.ts";
import { STREAM_ROUTES } from "../../../src/gateway/routes/stream.ts";
import { openTestGateway, type TestGateway } from "../open.ts";

/** A stream without sockets, on a clock that stands: what was written, and a way to bring news. */
async function openStream(query: Readonly<Record<string, string>> = {}, principal = { id: "k", org: "acme" }) {
  const listeners = new Set<JobUpdateListener>();
  const runListeners = new Set<RunUpdateListener>();
  const timers: { delayMs: number; fn: () => void }[] = [];
  const written: string[] = [];
  const state = { waiting: 0, ended: false, dropped: false };
  const gone = new AbortController();
  const after = (delayMs: number, fn: () => void) => {
    const timer = { delayMs, fn };
    timers.push(timer);
    return () => void timers.splice(timers.indexOf(timer), 1);
  };
  const listen = (listener: JobUpdateListener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  const listenRuns = (listener: RunUpdateListener) => {
    runListeners.add(listener);
    return () => runListeners.delete(listener);
  };
  const engine = {
    world: { clock: { now: () => 0, after } },
    events: { subscribe: listen, subscribeRuns: listenRuns },
  };
  const request = { org: "acme", principal, headers: {}, query, signal: gone.signal };
  const answer = await STREAM_ROUTES[0]?.handle({ engine } as unknown as Gateway, request as unknown as GatewayRequest);
  const reader: Reader = {
    waitingBytes: () => state.waiting,
    write: (text) => void written.push(text),
    end: () => {
      state.ended = true;
    },
    drop: () => {
      state.dropped = true;
    },
  };
  answer?.stream?.(reader);
  const tell = (notice: Partial<JobUpdate>) => {
    const whole: JobUpdate = { org: "acme", jobId: "j1", topic: "demo.echo", state: "SUCCEEDED", atMs: 0, ...notice };
    for (const listener of [...listeners]) listener(whole);
  };
  const enqueueRunEvent = (notice: Partial<RunUpdate>) => {
    const whole: RunUpdate = { org: "acme", runId: "r1", workflowId: "order", state: "RUNNING", atMs: 0, ...notice };
    for (const listener of [...runListeners]) listener(whole);
  };
  return { answer, written, state, timers, listeners, runListeners, tell, enqueueRunEvent, gone };
}

describe("the stream", () => {
  test("has the events of the caller's tenant, and of nobody else", async () => {
    const { answer, written, tell } = await openStream();
    expect(answer?.contentType).toContain("text/event-stream");
    tell({ jobId: "mine" });
    tell({ jobId: "theirs", org: "other" });
    const data =
      '{"job_id":"mine","tenant_id":"acme","topic":"demo.echo","state":"SUCCEEDED","at":"1970-01-01T00:00:00.000Z"}';
    expect(written).toEqual([": connected\n\n", `event: job\ndata: ${data}\n\n`]);
  });

  test("has those of all tenants for a key of `*` that names none", async () => {
    const { written, tell } = await openStream({}, { id: "k", org: "*" });
    tell({ org: "acme" });
    tell({ org: "other" });
    expect(written.slice(1).map((text) => /"tenant_id":"(\w+)"/.exec(text)?.[1])).toEqual(["acme", "other"]);
  });

  test("has the runs of the caller's tenant, and of nobody else", async () => {
    const { written, enqueueRunEvent, runListeners, gone } = await openStream();
    enqueueRunEvent({ runId: "mine" });
    enqueueRunEvent({ runId: "theirs", org: "other" });
    const data =
      '{"run_id":"mine","tenant_id":"acme","workflow_id":"order","state":"RUNNING","at":"1970-01-01T00:00:00.000Z"}';
    expect(written).toEqual([": connected\n\n", `event: run\ndata: ${data}\n\n`]);
    gone.abort();
    expect(runListeners.size).toBe(0);
  });

  test("keeps to one run and the jobs of its steps", async () => {
    const { written, tell, enqueueRunEvent } = await openStream({ run: "r1" });
    enqueueRunEvent({ runId: "r1", state: "PAUSED" });
    enqueueRunEvent({ runId: "r12" });
    tell({ jobId: "r1:charge@1" });
    tell({ jobId: "r12:charge@1" });
    tell({ jobId: "r1" });
    expect(written.slice(1).map((text) => /"(?:run|job)_id":"([^"]+)"/.exec(text)?.[1])).toEqual(["r1", "r1:charge@1"]);
  });

  test("keeps to a topic and a state", async () => {
    const { written, tell } = await openStream({ topic: "demo.echo", state: "FAILED" });
    tell({ state: "FAILED", jobId: "yes" });
    tell({ state: "SUCCEEDED" });
    tell({ state: "FAILED", topic: "demo.other" });
    expect(written).toHaveLength(2);
    expect(written[1]).toContain('"yes"');
  });

  test("has no runs where a topic is asked for, and runs of a state where one is", async () => {
    const ofTopic = await openStream({ topic: "demo.echo" });
    ofTopic.enqueueRunEvent({});
    expect(ofTopic.written).toHaveLength(1);
    const ofState = await openStream({ state: "SUCCEEDED" });
    ofState.enqueueRunEvent({ state: "RUNNING" });
    ofState.enqueueRunEvent({ state: "SUCCEEDED" });
    expect(ofState.written).toHaveLength(2);
  });

  test("says that it is alive", async () => {
    const { written, timers } = await openStream();
    for (let beat = 0; beat < 3; beat++) timers[0]?.fn();
    expect(written.slice(1)).toEqual([": alive\n\n", ": alive\n\n", ": alive\n\n"]);
  });

  test("drops a reader that does not keep up, and holds nothing for it any more", async () => {
    const { written, state, tell, listeners, timers } = await openStream();
    state.waiting = 300 * 1024;
    for (let at = 0; at < 1_000; at++) tell({ jobId: `j${at}` });
    expect(written).toHaveLength(2);
    expect(written[1]).toContain(": dropped");
    expect(state.ended).toBe(true);
    expect(listeners.size).toBe(0);
    timers.at(-1)?.fn();
    expect(state.dropped).toBe(true);
  });

  test("ends when the process stops or the reader goes", async () => {
    const { written, state, listeners, gone } = await openStream();
    gone.abort();
    expect(written.at(-1)).toContain(": the control plane is shutting down");
    expect(state.ended).toBe(true);
    expect(listeners.size).toBe(0);
  });
});

describe("over a socket", () => {
  let gateway: TestGateway;

  afterEach(() => gateway.close());

  /** Resolves once the text has come. */
  async function readUntil(reader: ReadableStreamDefaultReader<string>, wanted: string): Promise<string> {
    let text = "";
    while (!text.includes(wanted)) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`the stream ended after: ${text}`);
      text += value;
    }
    return text;
  }

  async function streamOf(url: string, headers: Readonly<Record<string, string>> = {}) {
    const response = await fetch(`${url}/api/v1/stream`, { headers });
    expect(response.status).toBe(200);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (!reader) throw new Error("no body");
    await readUntil(reader, ": connected");
    return reader;
  }

  test("a job's way is seen while it happens, by its own tenant; and a stop ends the stream", async () => {
    gateway = await openTestGateway();
    const url = await gateway.server.listen("127.0.0.1", 0);
    const reader = await streamOf(url, { "x-tenant-id": "acme" });
    await gateway.call("POST", "/api/v1/jobs", { tenant: "other", body: { topic: "demo.forbidden" } });
    const answer = await gateway.call("POST", "/api/v1/jobs", { tenant: "acme", body: { topic: "demo.forbidden" } });
    const text = await readUntil(reader, "\n\n");
    expect(text).toContain(answer.json<{ job_id: string }>().job_id);
    expect(text).toContain('"state":"DENIED"');
    const stopped = gateway.server.stop();
    expect(await readUntil(reader, "shutting down")).not.toBe("");
    expect((await reader.read()).done).toBe(true);
    await stopped;
  });

  test("a reader that never reads does not keep it from stopping", async () => {
    gateway = await openTestGateway();
    const url = new URL(await gateway.server.listen("127.0.0.1", 0));
    const socket = await new Promise<Socket>((resolve) => {
      const made: Socket = connect({ host: url.hostname, port: Number(url.port) }, () => resolve(made));
    });
    const head = new Promise((resolve) => socket.once("data", resolve));
    socket.write(`GET /api/v1/stream HTTP/1.1\r\nhost: ${url.host}\r\n\r\n`);
    await head;
    socket.pause();
    await gateway.server.stop();
    socket.destroy();
  });
});
