/** A loopback server with a handler per test, and a client whose time advances with `sleep` only. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { type Client, type ClientOptions, createClient } from "../../src/worlds/client-sdk.ts";

export interface Received {
  readonly method: string;
  /** Without `/api/v1`. */
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export interface ScriptedGateway {
  readonly url: string;
  readonly received: readonly Received[];
  /** Ends the open event streams. */
  dropStreams(): void;
  close(): void;
}

export async function serve(handle: (request: Received, response: ServerResponse) => void): Promise<ScriptedGateway> {
  const received: Received[] = [];
  const streams = new Set<ServerResponse>();
  const server = createServer(async (request, response) => {
    const path = (request.url ?? "").replace(/^\/api\/v1/, "");
    const one = { method: request.method ?? "", path, headers: request.headers, body: await text(request) };
    received.push(one);
    if (path.startsWith("/stream")) streams.add(response);
    handle(one, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    dropStreams() {
      for (const response of streams) response.destroy();
      streams.clear();
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export function reply(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** Delays do not pass: only an abort ends them. */
export function stoppedSleep(_delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((_resolve, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** Delays are recorded and pass at once, except the limit for the silence of a connection. */
export function clientOf(url: string, options: ClientOptions = {}): { client: Client; delays: readonly number[] } {
  const delays: number[] = [];
  let nowMs = 0;
  const parts = {
    random: () => 0.5,
    nowMs: () => nowMs,
    sleep: async (delayMs: number, signal?: AbortSignal) => {
      signal?.throwIfAborted();
      if (delayMs >= SILENCE_MS) return stoppedSleep(delayMs, signal);
      delays.push(delayMs);
      nowMs += delayMs;
    },
    ...options.parts,
  };
  return { client: createClient({ url, apiKey: "secret", ...options, parts }), delays };
}

const SILENCE_MS = 40_000;
