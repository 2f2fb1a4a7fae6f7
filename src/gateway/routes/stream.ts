/**
 * Live events: what happens to the caller's jobs and runs, as server-sent events; with a key of `*` that names no tenant, to
 * those of all.
 *
 * 1. Best effort: who must not miss anything reads the records. There is no `Last-Event-ID`; a reader that comes back reads the
 *    lists and goes on from there.
 * 2. A reader that does not keep up is told so and dropped: what waits for it never grows beyond a bound.
 * 3. It ends when the reader's key does (see `server-call.ts`).
 * 4. A comment comes when nothing else did for a while, so that both ends and everything between see that it is alive.
 */
import { Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { JOB_STATES } from "../../core/model/job.ts";
import { RUN_STATES } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import type { JobUpdate, RunUpdate } from "../../engine/observe/index.ts";
import { shownTo } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import type { Answer, Gateway, GatewayRequest, Reader, Route } from "../route.ts";
import { queryText } from "../views/page.ts";

export const STREAM_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/stream",
    summary:
      "Live events (server-sent events, or a WebSocket): `event: job`, `data: {job_id, tenant_id, topic, state, at}`; " +
      "`event: run`, `data: {run_id, tenant_id, workflow_id, state, at}`",
    access: "read",
    long: true,
    query: Type.Object({
      topic: Type.Optional(Type.String({ maxLength: 200, description: "Jobs of this topic only." })),
      run: Type.Optional(Type.String({ maxLength: 300, description: "This run and the jobs of its steps only." })),
      state: Type.Optional(
        Type.Enum([...new Set([...JOB_STATES, ...RUN_STATES])], {
          description: "Jobs and runs that are in this state now only.",
        }),
      ),
    }),
    handle: openStream,
  },
];

async function openStream({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { query, signal } = request;
  const tenant = shownTo(request);
  const [topic, run, state] = [queryText(query, "topic"), queryText(query, "run"), queryText(query, "state")];
  const isSeen = (notice: JobUpdate | RunUpdate) =>
    (tenant === EVERY_ORG || notice.org === tenant) && (state ?? notice.state) === notice.state;
  const wanted: Wanted = {
    isJob: (notice) =>
      isSeen(notice) &&
      (topic ?? notice.topic) === notice.topic &&
      (run === undefined || notice.jobId.startsWith(`${run}:`)),
    isRun: (notice) => isSeen(notice) && topic === undefined && (run ?? notice.runId) === notice.runId,
  };
  return {
    status: 200,
    body: null,
    contentType: "text/event-stream; charset=utf-8",
    headers: { "x-accel-buffering": "no" },
    stream: (reader) => feed(engine, reader, signal, wanted),
  };
}

interface Wanted {
  isJob(notice: JobUpdate): boolean;
  isRun(notice: RunUpdate): boolean;
}

function feed(engine: Engine, reader: Reader, signal: AbortSignal, wanted: Wanted): void {
  const { clock } = engine.world;
  let stopHeart = () => {};
  const end = (why: string) => {
    stopJobs();
    stopRuns();
    stopHeart();
    signal.removeEventListener("abort", onAbort);
    reader.write(`: ${why}\n\n`);
    reader.end();
    // Who does not read would never take the end, either, and keep the process from stopping.
    clock.after(END_MS_MAX, () => reader.drop());
  };
  const onAbort = () =>
    end(signal.reason instanceof Problem ? KEY_ENDED : "the control plane is shutting down; come again");
  const write = (text: string) => {
    if (reader.waitingBytes() > WAITING_BYTES_MAX) end("dropped: read faster, or ask for less");
    else reader.write(text);
  };
  const beat = () => {
    stopHeart = clock.after(HEARTBEAT_MS, () => {
      beat();
      write(": alive\n\n");
    });
  };
  const stopJobs = engine.events.subscribe((notice) => {
    if (wanted.isJob(notice)) write(jobEvent(notice));
  });
  const stopRuns = engine.events.subscribeRuns((notice) => {
    if (wanted.isRun(notice)) write(runEvent(notice));
  });
  signal.addEventListener("abort", onAbort, { once: true });
  reader.write(": connected\n\n");
  beat();
}

function jobEvent({ jobId, org, topic, state, atMs }: JobUpdate): string {
  const data = { job_id: jobId, tenant_id: org, topic, state, at: new Date(atMs).toISOString() };
  return `event: job\ndata: ${JSON.stringify(data)}\n\n`;
}

function runEvent({ runId, org, workflowId, state, atMs }: RunUpdate): string {
  const data = { run_id: runId, tenant_id: org, workflow_id: workflowId, state, at: new Date(atMs).toISOString() };
  return `event: run\ndata: ${JSON.stringify(data)}\n\n`;
}

const KEY_ENDED = "the API key is not good any more; ask an administrator for another one";
const HEARTBEAT_MS = 15_000;
const WAITING_BYTES_MAX = 256 * 1024;
const END_MS_MAX = 1_000;
