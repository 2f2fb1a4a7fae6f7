/**
 * Live events of the caller's jobs and runs: of all tenants for a key of `*` that names no tenant.
 *
 * 1. Best effort, without `Last-Event-ID`: a client that reconnects reads the lists first.
 * 2. A slow reader is disconnected once its buffer exceeds a limit.
 * 3. The stream ends when the key of its reader expires or is revoked (`request-pipeline.ts`).
 * 4. Heartbeats keep idle connections and the proxies between open.
 * 5. A stream ends after `STREAM_MS_MAX`: server-sent events have no sign of life from their reader.
 */
import { Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { bareTopic } from "../../core/model/canonical.ts";
import { JOB_STATES } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { RUN_STATES } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import type { JobUpdate, RolloutUpdate, RunUpdate } from "../../engine/observe/index.ts";
import { visibleTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import type { EventSink, Gateway, GatewayRequest, GatewayResponse, Route } from "../route.ts";
import { queryText } from "../views/page.ts";
import { STREAM_EVENT } from "../views/stream-schemas.ts";

export const STREAM_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/stream",
    summary:
      "Stream live events (server-sent events or WebSocket): `event: job`, `data: {job_id, tenant_id, topic, state, at}`; " +
      "`event: run`, `data: {run_id, tenant_id, workflow_id, state, at}`; for a key of all tenants without a filter also " +
      "`event: rollout`, `data: {rollout_id, class, state, at}`",
    access: "read",
    longLived: true,
    isStream: true,
    query: Type.Object({
      topic: Type.Optional(Type.String({ maxLength: 200, description: "Only jobs with this topic; excludes runs." })),
      run: Type.Optional(Type.String({ maxLength: 300, description: "Only this run and the jobs of its steps." })),
      state: Type.Optional(
        Type.Enum([...new Set([...JOB_STATES, ...RUN_STATES])], {
          description: "Only jobs and runs in this state.",
        }),
      ),
    }),
    response: STREAM_EVENT,
    produces: "text/event-stream",
    handle: openStream,
  },
];

async function openStream({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { query, signal } = request;
  const tenant = visibleTenant(request);
  const [named, run, state] = [queryText(query, "topic"), queryText(query, "run"), queryText(query, "state")];
  const topic = named === undefined ? undefined : bareTopic(named);
  const isVisible = (update: JobUpdate | RunUpdate) =>
    (tenant === EVERY_ORG || update.org === tenant) && (state ?? update.state) === update.state;
  const filter: Filter = {
    job: (update) =>
      isVisible(update) &&
      (topic ?? update.topic) === update.topic &&
      (run === undefined || update.jobId.startsWith(`${run}:`)),
    run: (update) => isVisible(update) && topic === undefined && (run ?? update.runId) === update.runId,
    hasRollouts: tenant === EVERY_ORG && topic === undefined && run === undefined && state === undefined,
  };
  return {
    status: 200,
    body: null,
    contentType: "text/event-stream; charset=utf-8",
    headers: { "x-accel-buffering": "no" },
    stream: (sink) => sendEvents(engine, sink, signal, filter),
  };
}

interface Filter {
  job(update: JobUpdate): boolean;
  run(update: RunUpdate): boolean;
  /** Rollouts belong to no tenant. */
  readonly hasRollouts: boolean;
}

function sendEvents(engine: Engine, sink: EventSink, signal: AbortSignal, filter: Filter): void {
  const { clock, random } = engine.world;
  let stopHeartbeat = () => {};
  const end = (reason: string) => {
    stopJobs();
    stopRuns();
    stopRollouts();
    stopHeartbeat();
    stopLifetime();
    signal.removeEventListener("abort", onAbort);
    sink.end(reason);
    // A client that has stopped reading never receives the end, and would block shutdown.
    clock.after(END_MS_MAX, () => sink.drop());
  };
  const onAbort = () => end(signal.reason instanceof Problem ? KEY_ENDED : SHUTTING_DOWN);
  const write = (send: () => void) => {
    if (sink.bufferedBytes() > BUFFERED_BYTES_MAX) end(TOO_SLOW);
    else send();
  };
  const scheduleHeartbeat = () => {
    stopHeartbeat = clock.after(HEARTBEAT_MS, () => {
      scheduleHeartbeat();
      write(() => sink.heartbeat());
    });
  };
  const stopJobs = engine.events.subscribe((update) => {
    if (filter.job(update)) write(() => sink.event("job", jobData(update)));
  });
  const stopRuns = engine.events.subscribeRuns((update) => {
    if (filter.run(update)) write(() => sink.event("run", runData(update)));
  });
  const stopRollouts = engine.events.subscribeRollouts((update) => {
    if (filter.hasRollouts) write(() => sink.event("rollout", rolloutData(update)));
  });
  signal.addEventListener("abort", onAbort, { once: true });
  // Jittered, so that clients that connected together do not reconnect together.
  const stopLifetime = clock.after(STREAM_MS_MAX * (1 - random.next() / 10), () => end(RECONNECT));
  scheduleHeartbeat();
}

function jobData({ jobId, org, topic, state, atMs }: JobUpdate): string {
  return JSON.stringify({
    job_id: clientJobId(org, jobId),
    tenant_id: org,
    topic,
    state,
    at: new Date(atMs).toISOString(),
  });
}

function runData({ runId, org, workflowId, state, atMs }: RunUpdate): string {
  const at = new Date(atMs).toISOString();
  return JSON.stringify({ run_id: runId, tenant_id: org, workflow_id: workflowId, state, at });
}

function rolloutData({ rolloutId, subject, state, atMs }: RolloutUpdate): string {
  return JSON.stringify({ rollout_id: rolloutId, class: subject, state, at: new Date(atMs).toISOString() });
}

/** Reasons are also sent in WebSocket close frames, which hold at most 123 bytes. */
const KEY_ENDED = "the API key has expired or was revoked; ask an administrator for a new key";
const SHUTTING_DOWN = "the server is shutting down; reconnect";
const RECONNECT = "the stream has reached its maximum duration; reconnect";
const TOO_SLOW = "dropped: the client reads too slowly; read faster or narrow the filter";
const HEARTBEAT_MS = 15_000;
const STREAM_MS_MAX = 3_600_000;
const BUFFERED_BYTES_MAX = 256 * 1024;
const END_MS_MAX = 1_000;
