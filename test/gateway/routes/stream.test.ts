import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import type {
  JobUpdate,
  JobUpdateListener,
  RolloutUpdate,
  RolloutUpdateListener,
  RunUpdate,
  RunUpdateListener,
} from "../../../src/engine/observe/event-feed.ts";
import { EventReplay } from "../../../src/engine/observe/event-replay.ts";
import type { EventSink, Gateway, GatewayRequest } from "../../../src/gateway/route.ts";
import { STREAM_ROUTES } from "../../../src/gateway/routes/stream.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

/** A stream without a socket, on a stopped clock, with its written events and ways to publish updates. */
async function openStream(query: Readonly<Record<string, string>> = {}, principal = { id: "k", org: "acme" }) {
  const listeners = new Set<JobUpdateListener>();
  const runListeners = new Set<RunUpdateListener>();
  const rolloutListeners = new Set<RolloutUpdateListener>();
  const timers: { delayMs: number; fn: () => void }[] = [];
  const written: string[] = [];
  const state = { buffered: 0, endedBecause: "", dropped: false };
  const connection = new AbortController();
  const after = (delayMs: number, fn: () => void) => {
    const timer = { delayMs, fn };
    timers.push(timer);
    return () => void timers.splice(timers.indexOf(timer), 1);
  };
  const subscribe = (listener: JobUpdateListener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  const subscribeRuns = (listener: RunUpdateListener) => {
    runListeners.add(listener);
    return () => runListeners.delete(listener);
  };
  const subscribeRollouts = (listener: RolloutUpdateListener) => {
    rolloutListeners.add(listener);
    return () => rolloutListeners.delete(listener);
  };
  const losses = new Set<() => void>();
  const subscribeLosses = (listener: () => void) => {
    losses.add(listener);
    return () => losses.delete(listener);
  };
  const engine = {
    world: { clock: { now: () => 0, after }, random: { next: () => 0, id: () => "secret" } },
    events: { subscribe, subscribeRuns, subscribeRollouts, subscribeLosses },
  };
  const replay = new EventReplay(engine as unknown as Gateway["engine"]);
  const connect = async (headers: object = {}, written: string[] = [], ids: string[] = []) => {
    const sink: EventSink = {
      bufferedBytes: () => state.buffered,
      event: (name, data, id) => {
        written.push(`${name} ${data}`);
        ids.push(id);
      },
      heartbeat: (id) => {
        written.push("heartbeat");
        ids.push(id);
      },
      end: (reason) => {
        state.endedBecause = reason;
      },
      drop: () => {
        state.dropped = true;
      },
    };
    const stop = new AbortController();
    const signal = AbortSignal.any([connection.signal, stop.signal]);
    const request = { org: "acme", principal, headers, query, signal };
    const gateway = { engine, replay } as unknown as Gateway;
    const answer = await STREAM_ROUTES[0]?.handle(gateway, request as unknown as GatewayRequest);
    answer?.stream?.(sink);
    return { answer, written, ids, stop: () => stop.abort() };
  };
  const { answer, ids } = await connect({}, written);
  // `ready`
  written.shift();
  const stopLinger = () => timers.find(({ delayMs }) => delayMs === 120_000)?.fn();
  const lose = () => {
    for (const listener of losses) listener();
  };
  const publish = (fields: Partial<JobUpdate>) => {
    const update: JobUpdate = {
      org: "acme",
      jobId: "j1",
      topic: "demo.echo",
      state: "SUCCEEDED",
      atMs: 0,
      version: 2,
      ...fields,
    };
    for (const listener of [...listeners]) listener(update);
  };
  const publishRun = (fields: Partial<RunUpdate>) => {
    const update: RunUpdate = {
      org: "acme",
      runId: "r1",
      workflowId: "order",
      state: "RUNNING",
      atMs: 0,
      version: 3,
      ...fields,
    };
    for (const listener of [...runListeners]) listener(update);
  };
  const publishRollout = (fields: Partial<RolloutUpdate> = {}) => {
    const update: RolloutUpdate = {
      rolloutId: "R1",
      subject: "lock_busy",
      state: "running",
      atMs: 0,
      version: 4,
      ...fields,
    };
    for (const listener of [...rolloutListeners]) listener(update);
  };
  const publishers = { publish, publishRun, publishRollout };
  const parts = { listeners, runListeners, rolloutListeners, ...publishers, connection, connect, stopLinger, lose };
  return { answer, written, ids, state, timers, replay, ...parts };
}

describe("stream", () => {
  test("sends job events of the tenant only", async () => {
    const { answer, written, publish } = await openStream();
    expect(answer?.contentType).toContain("text/event-stream");
    publish({ jobId: "mine" });
    publish({ jobId: "theirs", org: "other" });
    const data =
      '{"job_id":"mine","tenant_id":"acme","topic":"demo.echo","state":"SUCCEEDED","at":"1970-01-01T00:00:00.000Z","record_version":2}';
    expect(written).toEqual([`job ${data}`]);
  });

  test("sends events of all tenants to a key of `*` that names no tenant", async () => {
    const { written, publish } = await openStream({}, { id: "k", org: "*" });
    publish({ org: "acme" });
    publish({ org: "other" });
    expect(written.map((text) => /"tenant_id":"(\w+)"/.exec(text)?.[1])).toEqual(["acme", "other"]);
  });

  test("sends run events of the tenant only", async () => {
    const { written, publishRun, runListeners, connection, stopLinger } = await openStream();
    publishRun({ runId: "mine" });
    publishRun({ runId: "theirs", org: "other" });
    const data =
      '{"run_id":"mine","tenant_id":"acme","workflow_id":"order","state":"RUNNING","at":"1970-01-01T00:00:00.000Z","record_version":3}';
    expect(written).toEqual([`run ${data}`]);
    connection.abort();
    stopLinger();
    expect(runListeners.size).toBe(0);
  });

  test("sends rollout events to a key of all tenants without a filter", async () => {
    const all = await openStream({}, { id: "k", org: "*" });
    all.publishRollout({ state: "rolled_back" });
    const data =
      '{"rollout_id":"R1","class":"lock_busy","state":"rolled_back","at":"1970-01-01T00:00:00.000Z","record_version":4}';
    expect(all.written).toEqual([`rollout ${data}`]);
    const ofTenant = await openStream();
    ofTenant.publishRollout();
    const filtered = await openStream({ topic: "demo.echo" }, { id: "k", org: "*" });
    filtered.publishRollout();
    expect([...ofTenant.written, ...filtered.written]).toEqual([]);
  });

  test("filters by run, including the jobs of its steps", async () => {
    const { written, publish, publishRun } = await openStream({ run: "r1" });
    publishRun({ runId: "r1", state: "PAUSED" });
    publishRun({ runId: "r12" });
    publish({ jobId: "r1:charge@1" });
    publish({ jobId: "r12:charge@1" });
    publish({ jobId: "r1" });
    expect(written.map((text) => /"(?:run|job)_id":"([^"]+)"/.exec(text)?.[1])).toEqual(["r1", "r1:charge@1"]);
  });

  test("filters by topic and state", async () => {
    const { written, publish } = await openStream({ topic: "demo.echo", state: "FAILED" });
    publish({ state: "FAILED", jobId: "yes" });
    publish({ state: "SUCCEEDED" });
    publish({ state: "FAILED", topic: "demo.other" });
    expect(written).toHaveLength(1);
    expect(written[0]).toContain('"yes"');
  });

  test("a topic filter excludes runs; a state filter applies to them", async () => {
    const ofTopic = await openStream({ topic: "demo.echo" });
    ofTopic.publishRun({});
    expect(ofTopic.written).toEqual([]);
    const ofState = await openStream({ state: "SUCCEEDED" });
    ofState.publishRun({ state: "RUNNING" });
    ofState.publishRun({ state: "SUCCEEDED" });
    expect(ofState.written).toHaveLength(1);
  });

  test("sends heartbeats", async () => {
    const { written, timers } = await openStream();
    for (let beat = 0; beat < 3; beat++) timers.findLast(({ delayMs }) => delayMs === 15_000)?.fn();
    expect(written).toEqual(["heartbeat", "heartbeat", "heartbeat"]);
  });

  test("ends after its maximum duration", async () => {
    const { state, timers, listeners, stopLinger } = await openStream();
    timers.find(({ delayMs }) => delayMs === 3_600_000)?.fn();
    expect(state.endedBecause).toContain("reconnect");
    stopLinger();
    expect(listeners.size).toBe(0);
  });

  test("disconnects a slow reader and unsubscribes", async () => {
    const { written, state, publish, listeners, timers, stopLinger } = await openStream();
    state.buffered = 300 * 1024;
    for (let at = 0; at < 1_000; at++) publish({ jobId: `j${at}` });
    expect(written).toEqual([]);
    expect(state.endedBecause).toContain("dropped");
    timers.at(-1)?.fn();
    expect(state.dropped).toBe(true);
    stopLinger();
    expect(listeners.size).toBe(0);
  });

  test("ends and unsubscribes when its signal is aborted", async () => {
    const { state, listeners, connection, stopLinger } = await openStream();
    connection.abort();
    expect(state.endedBecause).toContain("shutting down");
    stopLinger();
    expect(listeners.size).toBe(0);
  });
});

describe("L56: a stream that is resumed", () => {
  const READY = 'ready {"resumed":true}';
  const idsIn = (written: readonly string[]) => written.map((text) => /"job_id":"([^"]+)"/.exec(text)?.[1] ?? text);

  test("begins with `ready`, which does not claim to be resumed", async () => {
    const { connect } = await openStream();
    expect((await connect()).written).toEqual(['ready {"resumed":false}']);
  });

  test("replays the visible events since the last one, then continues", async () => {
    const { connect, publish, replay } = await openStream();
    const first = await connect();
    publish({ jobId: "j1" });
    first.stop();
    publish({ jobId: "j2" });
    publish({ jobId: "theirs", org: "other" });
    publish({ jobId: "j3" });
    const second = await connect({ "last-event-id": first.ids.at(-1) });
    publish({ jobId: "j4" });
    expect(idsIn(second.written)).toEqual([READY, "j2", "j3", "j4"]);
    expect(new Set(second.ids).size).toBe(4);
    expect((await connect({ "last-event-id": replay.position })).written).toEqual([READY]);
  });

  test("resumes after `ready` and after a heartbeat, without an event of its own", async () => {
    const { connect, publish, timers } = await openStream();
    const first = await connect();
    publish({ org: "other" });
    timers.findLast(({ delayMs }) => delayMs === 15_000)?.fn();
    first.stop();
    publish({ jobId: "j1" });
    for (const id of first.ids) {
      expect(idsIn((await connect({ "last-event-id": id })).written)).toEqual([READY, "j1"]);
    }
  });

  test.each([
    ["an id of another process", "0123456789abcdef0123"],
    ["a line break", "x\n\nevent: job"],
  ])("is reset for %s", async (_, id) => {
    const { connect, publish } = await openStream();
    publish({});
    const { written, ids } = await connect({ "last-event-id": id });
    expect(written).toEqual(['reset {"reason":"unknown_id"}']);
    expect(ids).toEqual([expect.stringMatching(/^[0-9a-f]{20}$/)]);
  });

  test("is reset once the event is no longer kept, or if too many were missed", async () => {
    const { connect, publish } = await openStream();
    const { ids, stop } = await connect();
    stop();
    for (let at = 0; at < 501; at++) publish({});
    expect((await connect({ "last-event-id": ids[0] })).written).toEqual(['reset {"reason":"unknown_id"}']);
    for (let at = 0; at < 12_000; at++) publish({ org: "other" });
    expect((await connect({ "last-event-id": ids[0] })).written).toEqual(['reset {"reason":"unknown_id"}']);
  });

  test("is reset if events were lost between processes, and does not resume before the loss", async () => {
    const { connect, publish, lose } = await openStream();
    const first = await connect();
    publish({ jobId: "j1" });
    lose();
    expect(first.written.at(-1)).toBe('reset {"reason":"events_lost"}');
    publish({ jobId: "j2" });
    const [, before, after] = first.ids;
    expect((await connect({ "last-event-id": before })).written[0]).toContain("reset");
    expect(idsIn((await connect({ "last-event-id": after })).written)).toEqual([READY, "j2"]);
  });

  test("is reset after minutes without a reader", async () => {
    const { connect, connection, stopLinger, ids, publish, listeners } = await openStream();
    publish({});
    connection.abort();
    stopLinger();
    expect(listeners.size).toBe(0);
    expect((await connect({ "last-event-id": ids.at(-1) })).written).toEqual(['reset {"reason":"unknown_id"}']);
  });

  test("does not disclose in its ids how many events of other tenants there were", async () => {
    const { ids, publish } = await openStream();
    publish({});
    for (let at = 0; at < 10; at++) publish({ org: "other" });
    publish({});
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{20}$/);
  });
});

describe("server-sent events", () => {
  let gateway: TestGateway;

  afterEach(() => gateway.close());

  async function readUntil(reader: ReadableStreamDefaultReader<string>, expected: string): Promise<string> {
    let text = "";
    while (!text.includes(expected)) {
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
    await readUntil(reader, "event: ready");
    return reader;
  }

  test("streams state changes of the tenant until the server stops", async () => {
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

  test("a client that never reads does not block the stop", async () => {
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
