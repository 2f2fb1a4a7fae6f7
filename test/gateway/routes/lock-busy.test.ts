import { Type } from "typebox";
import { afterEach, expect, test } from "vitest";
import { retryAfter } from "../../../src/core/retry/intent.ts";
import { ok, type Route } from "../../../src/gateway/route.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const route = (path: string, handle: Route["handle"], more: Partial<Route> = {}): Route => ({
  method: "POST",
  path,
  summary: "for the test",
  access: "submit",
  handle,
  ...more,
});

test("a busy lock is a 503 with a jittered `Retry-After` of at least the policy delay", async () => {
  const busy = () => retryAfter(new Error("lock `run:1` is held by gateway-7"), 4_000, "lock_busy");
  gateway = await openTestGateway({
    routes: [
      route("/plain", async () => {
        throw busy();
      }),
      // The intent is found in the cause chain.
      route("/wrapped", async () => {
        throw new Error("could not cancel", { cause: busy() });
      }),
      // Other retry classes are not lock errors.
      route("/other", async () => {
        throw retryAfter(new Error("no response"), 4_000, "store_unavailable");
      }),
    ],
  });
  const delays = new Set<number>();
  for (const url of ["/plain", "/plain", "/plain", "/wrapped"]) {
    const response = await gateway.call("POST", url);
    const body = response.json<{ retry_after_ms: number }>();
    expect(body).toMatchObject({ status: 503, code: "lock_busy", retryable: true });
    expect(body.retry_after_ms).toBeGreaterThanOrEqual(4_000);
    expect(body.retry_after_ms).toBeLessThanOrEqual(6_000);
    expect(Number(response.headers["retry-after"])).toBe(Math.ceil(body.retry_after_ms / 1_000));
    // The holder is not disclosed.
    expect(response.body).not.toContain("gateway-7");
    delays.add(body.retry_after_ms);
  }
  expect(delays.size).toBeGreaterThan(1);
  expect((await gateway.call("POST", "/other")).json()).toMatchObject({ status: 503, code: "store_unavailable" });
});

test("jitters the seconds of `Retry-After` for policy delays below one second (L11)", async () => {
  const handle = async () => {
    throw retryAfter(new Error("busy"), 500, "lock_busy");
  };
  gateway = await openTestGateway({ routes: [route("/short", handle)] });
  const responses = await Promise.all(Array.from({ length: 60 }, () => gateway.call("POST", "/short")));
  const seconds = responses.map(({ headers }) => Number(headers["retry-after"]));
  expect([...new Set(seconds)].sort()).toEqual([1, 2, 3]);
  // `retry_after_ms` keeps the precision of the policy.
  for (const response of responses)
    expect(response.json<{ retry_after_ms: number }>().retry_after_ms).toBeLessThan(751);
});

test("accepts YAML only on routes that declare it", async () => {
  const body = Type.Object({ source: Type.Optional(Type.String()) });
  const echo: Route["handle"] = async (_, request) => ok({ body: request.body ?? null });
  gateway = await openTestGateway({
    routes: [route("/yaml", echo, { body, acceptsYaml: true }), route("/json", echo, { body })],
  });
  const send = (url: string, type: string, payload: string) =>
    gateway.app.inject({ method: "POST", url, headers: { "content-type": type }, payload });
  for (const type of ["application/yaml", "text/yaml; charset=utf-8", "application/x-yaml"]) {
    expect((await send("/yaml", type, "id: order\n")).json()).toEqual({ body: { source: "id: order\n" } });
    const refused = await send("/json", type, "id: order\n");
    expect(refused.json()).toMatchObject({ status: 415, code: "unsupported_media_type" });
  }
  expect((await send("/yaml", "application/yaml", " ")).json()).toEqual({ body: null });
  expect((await send("/yaml", "application/json", '{"source":"a: 1"}')).json()).toEqual({ body: { source: "a: 1" } });
  expect((await send("/yaml", "text/plain", "id: order")).statusCode).toBe(415);
});
