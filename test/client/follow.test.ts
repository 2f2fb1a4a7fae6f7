import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { clientOf, type Received, reply, type ScriptedGateway, serve, stoppedSleep } from "./scripted-gateway.ts";

let gateway: ScriptedGateway;

afterEach(() => gateway?.close());

type Handler = (request: Received, response: ServerResponse) => void;

/** Only events, connections and aborts wake a subscriber. */
const STOPPED = { sleep: stoppedSleep };
/** Only reconnections pass at once: their delays are shorter than polls and the watch for silence. */
const RECONNECTS = {
  sleep: (delayMs: number, signal?: AbortSignal) => (delayMs < 200 ? Promise.resolve() : stoppedSleep(delayMs, signal)),
};

const open = (response: ServerResponse) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(': open\n\nid: 1\nevent: ready\ndata: {"resumed":false}\n\n');
};
const send = (response: ServerResponse, event: string, data: object) =>
  response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
const change = (state: string, second: number, job_id = "j1") => ({
  ...{ job_id, tenant_id: "default", topic: "a.b", state },
  at: `2026-01-01T00:00:0${second}.000Z`,
});
const job = (state: string, second: number, id = "j1") => ({
  ...change(state, second, id),
  updated_at: change(state, second).at,
});

async function startGateway(onStream: Handler, otherwise: Handler): Promise<void> {
  gateway = await serve((request, response) =>
    request.path.startsWith("/stream") ? onStream(request, response) : otherwise(request, response),
  );
}

const paths = () => gateway.received.map(({ path }) => path);

describe("wait", () => {
  test("subscribes before it reads, and an event ends it without a poll", async () => {
    let stream: ServerResponse | null = null;
    let reads = 0;
    await startGateway(
      (_, response) => {
        stream = response;
        open(response);
      },
      (_, response) => {
        reads++;
        reply(response, 200, job(reads < 3 ? "RUNNING" : "SUCCEEDED", reads < 3 ? 1 : 2));
        // The job ends just after it was read.
        if (reads === 2) send(stream!, "job", change("SUCCEEDED", 2));
      },
    );
    const { client } = clientOf(gateway.url, { parts: STOPPED });
    expect(await client.jobs.wait("j1")).toMatchObject({ state: "SUCCEEDED" });
    expect(paths()).toEqual(["/jobs/j1", "/stream?topic=a.b", "/jobs/j1", "/jobs/j1"]);
  });

  test("reads again after a reconnection: the end during a gap is found", async () => {
    let connections = 0;
    await startGateway(
      (_, response) => {
        connections++;
        open(response);
      },
      (_, response) => {
        reply(response, 200, job(connections < 2 ? "RUNNING" : "SUCCEEDED", connections));
        if (connections === 1) setImmediate(() => gateway.dropStreams());
      },
    );
    const { client } = clientOf(gateway.url, { parts: RECONNECTS });
    expect(await client.runs.wait("r1")).toMatchObject({ state: "SUCCEEDED" });
    expect(connections).toBeGreaterThan(1);
  });

  test("polls if the gateway has no stream", async () => {
    let reads = 0;
    await startGateway(
      (_, response) => reply(response, 404, { code: "route_not_found" }),
      (_, response) => reply(response, 200, job(++reads < 4 ? "RUNNING" : "FAILED", 1)),
    );
    const { client, delays } = clientOf(gateway.url);
    expect(await client.runs.wait("r1")).toMatchObject({ state: "FAILED" });
    expect(reads).toBe(4);
    // The rejection of the stream may end one of them early.
    expect([375, 750, 1_500]).toEqual(expect.arrayContaining(delays.slice(1)));
    expect(delays.length).toBeGreaterThan(2);
  });

  test("many waits share one connection", async () => {
    let stream: ServerResponse | null = null;
    const ended = new Set<string>();
    const waiting = new Set<string>();
    await startGateway(
      (_, response) => {
        stream = response;
        open(response);
      },
      ({ path }, response) => {
        const id = path.split("/").at(-1)!;
        reply(response, 200, job(ended.has(id) ? "SUCCEEDED" : "RUNNING", 1, id));
        if (stream !== null) waiting.add(id);
        if (waiting.size < 20) return;
        for (const one of waiting) {
          if (!ended.has(one)) send(stream!, "job", change("SUCCEEDED", 2, one));
          ended.add(one);
        }
      },
    );
    const { client } = clientOf(gateway.url, { parts: STOPPED });
    await Promise.all(Array.from({ length: 20 }, (_, at) => client.jobs.wait(`j${at}`)));
    expect(paths().filter((path) => path.startsWith("/stream"))).toHaveLength(1);
  });

  test("ends with the deadline or the signal", async () => {
    const [deadline, stop] = [new AbortController(), new AbortController()];
    let end = () => deadline.abort();
    await startGateway(
      (_, response) => open(response),
      (_, response) => {
        reply(response, 200, job("RUNNING", 1));
        setImmediate(end);
      },
    );
    const timeout = (delayMs: number) => (delayMs === 7_000 ? deadline.signal : new AbortController().signal);
    const { client } = clientOf(gateway.url, { parts: { ...STOPPED, timeout } });
    await expect(client.runs.wait("r1", { timeoutMs: 7_000 })).rejects.toMatchObject({ code: "deadline_exceeded" });
    end = () => stop.abort(new Error("stopped"));
    await expect(client.runs.wait("r1", { signal: stop.signal })).rejects.toThrow("stopped");
  });
});

test("changes supply the states of a gap from the list, once and in order", async () => {
  let connections = 0;
  await startGateway(
    (_, response) => {
      connections++;
      open(response);
      if (connections === 1) {
        send(response, "job", change("RUNNING", 1));
        send(response, "job", change("RUNNING", 1, "j2"));
        setImmediate(() => gateway.dropStreams());
      } else {
        // Sent before the list was read: the list is newer.
        send(response, "job", change("RUNNING", 2, "j3"));
        send(response, "job", change("SUCCEEDED", 5, "j2"));
      }
    },
    ({ path }, response) => {
      expect(path).toContain("updated_after=2025-12-31T23%3A59%3A56.000Z");
      const isFirst = !path.includes("cursor");
      const items = isFirst ? [job("SUCCEEDED", 4, "j3"), job("RUNNING", 1, "j2")] : [job("SUCCEEDED", 3)];
      reply(response, 200, { items, next_cursor: isFirst ? "c" : null });
    },
  );
  const parts = { ...RECONNECTS, wallMs: () => Date.parse("2026-01-01T00:00:00Z") };
  const { client } = clientOf(gateway.url, { parts });
  const seen: string[] = [];
  const stop = new AbortController();
  for await (const { job_id, state } of client.jobs.changes({ signal: stop.signal })) {
    seen.push(`${job_id} ${state}`);
    if (job_id === "j2" && state === "SUCCEEDED") stop.abort();
  }
  expect(seen).toEqual(["j1 RUNNING", "j2 RUNNING", "j1 SUCCEEDED", "j3 SUCCEEDED", "j2 SUCCEEDED"]);
});

test("a rejected subscription throws; a busy one is retried after Retry-After", async () => {
  let connections = 0;
  await startGateway(
    (_, response) => {
      connections++;
      if (connections === 1) reply(response, 429, { code: "quota_exceeded" }, { "retry-after": "2" });
      else reply(response, 401, { code: "key_revoked", title: "API key revoked", detail: "ask for a new key" });
    },
    () => {},
  );
  const { client, delays } = clientOf(gateway.url, {});
  const events: string[] = [];
  const reading = (async () => {
    for await (const { event } of client.stream()) events.push(event);
  })();
  await expect(reading).rejects.toMatchObject({ code: "key_revoked" });
  expect(events).toEqual(["disconnected"]);
  expect(delays).toContain(2_100);
});

test("L56: changes resume after the last event of a broken stream, without reading the list", async () => {
  const seen: (string | undefined)[] = [];
  await startGateway(
    ({ headers }, response) => {
      seen.push(headers["last-event-id"]?.toString());
      response.writeHead(200, { "content-type": "text/event-stream" });
      const resumed = seen.length > 1;
      response.write(`id: ${resumed ? "b" : "a"}\nevent: ready\ndata: {"resumed":${resumed}}\n\n`);
      const data = JSON.stringify(change(resumed ? "SUCCEEDED" : "RUNNING", seen.length));
      response.write(`id: ${resumed ? "c" : "b"}\nevent: job\ndata: ${data}\n\n`);
      if (!resumed) setImmediate(() => gateway.dropStreams());
    },
    (_, response) => reply(response, 500, {}),
  );
  const { client } = clientOf(gateway.url, { parts: RECONNECTS });
  const states: string[] = [];
  for await (const { state } of client.jobs.changes({ topic: "a.b" })) {
    states.push(state);
    if (state === "SUCCEEDED") break;
  }
  expect([states, seen]).toEqual([
    ["RUNNING", "SUCCEEDED"],
    [undefined, "b"],
  ]);
  expect(paths().every((path) => path.startsWith("/stream"))).toBe(true);
});
