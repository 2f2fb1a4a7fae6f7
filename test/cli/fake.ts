/** A fake gateway with scripted responses and recorded requests. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "vitest";

export interface FakeRequest {
  readonly method: string;
  /** Without `/api/v1`. */
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  /** The JSON document; undefined if there is none. */
  readonly body: unknown;
}

export interface FakeResponse {
  readonly status: number;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface FakeGateway {
  readonly env: { readonly CORDUM_URL: string };
  readonly requests: readonly FakeRequest[];
  close(): void;
}

export async function startFake(answer: (request: FakeRequest) => FakeResponse): Promise<FakeGateway> {
  const requests: FakeRequest[] = [];
  const server = createServer(async (request, response) => {
    const path = (request.url ?? "").replace(/^\/api\/v1/, "");
    let text = "";
    for await (const chunk of request) text += chunk;
    const sent = text === "" ? undefined : JSON.parse(text);
    const one = { method: request.method ?? "", path, headers: request.headers, body: sent };
    requests.push(one);
    const { status, body, headers = {} } = answer(one);
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    env: { CORDUM_URL: `http://127.0.0.1:${port}` },
    requests,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A clock that advances with `sleep` only, and records the delays. */
export function fakeTime() {
  let nowMs = 1_000_000;
  const pauses: number[] = [];
  return {
    pauses,
    pass: (ms: number) => {
      nowMs += ms;
    },
    io: {
      nowMs: () => nowMs,
      sleep: async (delayMs: number) => {
        pauses.push(delayMs);
        nowMs += delayMs;
      },
    },
  };
}

/** Matches a `Retry-After` that the client spreads by up to a tenth (L11). */
export const spread = (delayMs: number): unknown =>
  expect.toSatisfy((actualMs: number) => actualMs >= delayMs && actualMs <= Math.ceil(delayMs * 1.1));
