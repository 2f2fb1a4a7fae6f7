/**
 * Live events of the caller's jobs and runs: of all tenants for a key of `*` that names no tenant.
 *
 * 1. The first event is `ready`. With `Last-Event-ID` the events since then follow, or the first event is `reset`: the id is
 *    too old or of another process, and the client reads the lists again. `reset` also follows a loss on the bus.
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
import type { JobUpdate, RecordedEvent, RolloutUpdate, RunUpdate, StreamUpdate } from "../../engine/observe/index.ts";
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
      "Stream live events (server-sent events or WebSocket): `event: job`, `data: {job_id, tenant_id, topic, state, at, record_version}`; " +
      "`event: run`, `data: {run_id, tenant_id, workflow_id, state, at, record_version}`; for a key of all tenants without a " +
      "filter also `event: rollout`; `event: ready` first, and `event: reset` if events are missing",
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
      last_event_id: Type.Optional(
        Type.String({ maxLength: 100, description: "As the header `Last-Event-ID`: resume after this event." }),
      ),
    }),
    response: STREAM_EVENT,
    produces: "text/event-stream",
    handle: openStream,
  },
];

async function openStream(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { query, signal, headers } = request;
  const lastId = headers["last-event-id"]?.toString() ?? queryText(query, "last_event_id");
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
    stream: (sink) => sendEvents(gateway, sink, signal, { filter, lastId }),
  };
}

interface Filter {
  job(update: JobUpdate): boolean;
  run(update: RunUpdate): boolean;
  /** Rollouts belong to no tenant. */
  readonly hasRollouts: boolean;
}

interface Subscription {
  readonly filter: Filter;
  readonly lastId: string | undefined;
}

function sendEvents({ engine, replay }: Gateway, sink: EventSink, signal: AbortSignal, asked: Subscription): void {
  const { clock, random } = engine.world;
  const { filter, lastId } = asked;
  let stopHeartbeat = () => {};
  const end = (reason: string) => {
    reading.stop();
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
      write(() => sink.heartbeat(replay.position));
    });
  };
  const send = (recorded: RecordedEvent) => {
    if (isVisible(filter, recorded.event)) {
      write(() => sink.event(recorded.event.kind, dataOf(recorded.event), recorded.id));
    }
  };
  const reset = (reason: "unknown_id" | "events_lost") =>
    write(() => sink.event("reset", JSON.stringify({ reason }), replay.position));
  const reading = replay.read({ onEvent: send, onLoss: () => reset("events_lost") }, lastId);
  const { missed } = reading;
  signal.addEventListener("abort", onAbort, { once: true });
  // Jittered, so that clients that connected together do not reconnect together.
  const stopLifetime = clock.after(STREAM_MS_MAX * (1 - random.next() / 10), () => end(RECONNECT));
  scheduleHeartbeat();
  const visible = missed?.filter(({ event }) => isVisible(filter, event)) ?? null;
  if (lastId !== undefined && (visible === null || visible.length > REPLAYED_MAX)) {
    reset("unknown_id");
    return;
  }
  sink.event("ready", JSON.stringify({ resumed: visible !== null }), lastId ?? replay.position);
  for (const recorded of visible ?? []) send(recorded);
}

function isVisible(filter: Filter, { kind, update }: StreamUpdate): boolean {
  switch (kind) {
    case "job":
      return filter.job(update);
    case "run":
      return filter.run(update);
    case "rollout":
      return filter.hasRollouts;
  }
}

function dataOf({ kind, update }: StreamUpdate): string {
  switch (kind) {
    case "job":
      return jobData(update);
    case "run":
      return runData(update);
    case "rollout":
      return rolloutData(update);
  }
}

function jobData({ jobId, org, topic, state, atMs, version }: JobUpdate): string {
  return JSON.stringify({
    job_id: clientJobId(org, jobId),
    tenant_id: org,
    topic,
    state,
    at: new Date(atMs).toISOString(),
    record_version: version,
  });
}

function runData({ runId, org, workflowId, state, atMs, version }: RunUpdate): string {
  const at = new Date(atMs).toISOString();
  return JSON.stringify({ run_id: runId, tenant_id: org, workflow_id: workflowId, state, at, record_version: version });
}

function rolloutData({ rolloutId, subject, state, atMs, version }: RolloutUpdate): string {
  const at = new Date(atMs).toISOString();
  return JSON.stringify({ rollout_id: rolloutId, class: subject, state, at, record_version: version });
}

/** Reasons are also sent in WebSocket close frames, which hold at most 123 bytes. */
const KEY_ENDED = "the API key has expired or was revoked; ask an administrator for a new key";
const SHUTTING_DOWN = "the server is shutting down; reconnect";
const RECONNECT = "the stream has reached its maximum duration; reconnect";
const TOO_SLOW = "dropped: the client reads too slowly; read faster or narrow the filter";
const HEARTBEAT_MS = 15_000;
const STREAM_MS_MAX = 3_600_000;
const BUFFERED_BYTES_MAX = 256 * 1024;
/** A reader that has missed more reloads what it shows: that is less data. */
const REPLAYED_MAX = 500;
const END_MS_MAX = 1_000;
