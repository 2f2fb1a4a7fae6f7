/**
 * Live events with reconnection. A new connection resumes after the last event; if the gateway cannot tell which events are
 * missing, `connected` says so.
 *
 * 1. `connected` precedes the events of each connection: what is read after it is not older than the events that follow.
 * 2. A connection without a sign of life for `SILENCE_MS_MAX` is closed; the gateway sends a heartbeat every 15 s.
 */
import { CordumError, errorFrom } from "./client-error.ts";
import { backoffMs, type RetryTime } from "./retry.ts";
import type { JobEvent, JobState, ReadyEvent, RolloutEvent, RunEvent, RunState } from "./schema.ts";
import type { Transport } from "./transport.ts";

export interface StreamFilter {
  /** Only jobs with this topic; excludes runs. */
  readonly topic?: string | undefined;
  /** Only this run and the jobs of its steps. */
  readonly run?: string | undefined;
  readonly state?: JobState | RunState | undefined;
}

export type ClientEvent =
  /** Read the lists now. `isGap`: events since the previous connection may be lost; false for one that was resumed. */
  | { readonly event: "connected"; readonly isGap: boolean }
  /** The connection ended or could not be opened; another attempt follows. */
  | { readonly event: "disconnected"; readonly error: unknown }
  | { readonly event: "job"; readonly data: JobEvent }
  | { readonly event: "run"; readonly data: RunEvent }
  | { readonly event: "rollout"; readonly data: RolloutEvent };

/** Ends when the signal is aborted. Throws if the gateway rejects the subscription. */
export async function* eventStream(
  transport: Transport,
  filter: StreamFilter,
  signal: AbortSignal,
): AsyncGenerator<ClientEvent, void, undefined> {
  const { parts } = transport;
  const position: Position = { id: null, isNew: true };
  let failures = 0;
  while (!signal.aborted) {
    const connection = new Connection(parts, signal);
    let error: unknown = null;
    try {
      const body = await connect(transport, filter, position, connection.signal);
      for await (const event of connection.events(body, position)) {
        failures = 0;
        yield event;
      }
    } catch (thrown) {
      if (thrown instanceof CordumError && !isTemporary(thrown)) throw thrown;
      error = thrown;
    } finally {
      connection.close();
    }
    if (signal.aborted) return;
    failures++;
    yield { event: "disconnected", error };
    const serverMs = error instanceof CordumError ? error.retryAfterMs : null;
    await parts.sleep(backoffMs(failures, serverMs, parts.random()), signal).catch(() => {});
  }
}

/** Of the last event, over all connections. */
interface Position {
  id: string | null;
  /** No connection has delivered anything. */
  isNew: boolean;
}

const isTemporary = ({ status }: CordumError): boolean => status === 429 || (status !== null && status >= 502);

async function connect(
  transport: Transport,
  filter: StreamFilter,
  { id }: Position,
  signal: AbortSignal,
): Promise<Body> {
  const headers = { accept: "text/event-stream", ...(id === null ? {} : { "last-event-id": id }) };
  const response = await transport.fetch({ method: "GET", path: "/stream", query: { ...filter }, headers, signal });
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (response.ok && isStream && response.body !== null) return response.body as unknown as Body;
  throw errorFrom(response, await response.json().catch(() => null));
}

type Body = AsyncIterable<Uint8Array>;

class Connection {
  readonly signal: AbortSignal;
  readonly #closing = new AbortController();
  #isAlive = true;

  constructor(time: RetryTime, outer: AbortSignal) {
    this.signal = AbortSignal.any([outer, this.#closing.signal]);
    this.#watch(time).catch(() => {});
  }

  close(): void {
    this.#closing.abort();
  }

  async *events(body: Body, position: Position): AsyncGenerator<ClientEvent, void, undefined> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of body) {
      this.#isAlive = true;
      const blocks = (rest + decoder.decode(chunk, { stream: true })).replaceAll("\r\n", "\n").split("\n\n");
      rest = blocks.pop() ?? "";
      if (rest.length > EVENT_LENGTH_MAX) throw new Error(`an event exceeds ${EVENT_LENGTH_MAX} characters`);
      for (const block of blocks) {
        const event = eventOf(block, position);
        if (event !== null) yield event;
      }
    }
  }

  async #watch(time: RetryTime): Promise<void> {
    while (this.#isAlive) {
      this.#isAlive = false;
      await time.sleep(SILENCE_MS_MAX, this.signal);
    }
    this.close();
  }
}

/** Null for comments and for events that this version does not know. `ready` and `reset` become `connected`. */
function eventOf(block: string, position: Position): ClientEvent | null {
  const fields = block.split("\n").map((line) => /^(\w+): ?(.*)$/.exec(line));
  const fieldOf = (name: string) => fields.find((field) => field?.[1] === name)?.[2];
  const event = fieldOf("event");
  position.id = fieldOf("id") ?? position.id;
  const data: unknown = JSON.parse(fieldOf("data") ?? "null");
  if (event === "ready" || event === "reset") {
    const isGap = !position.isNew && !(data as ReadyEvent | null)?.resumed;
    position.isNew = false;
    return { event: "connected", isGap };
  }
  if (event !== "job" && event !== "run" && event !== "rollout") return null;
  return { event, data } as ClientEvent;
}

const SILENCE_MS_MAX = 40_000;
const EVENT_LENGTH_MAX = 1024 * 1024;
