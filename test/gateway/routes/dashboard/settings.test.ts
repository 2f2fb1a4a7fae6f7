import { afterAll, beforeAll, expect, test } from "vitest";
import { openGateway } from "../../../../src/gateway/server.ts";
import { good } from "../../../config/configured.ts";
import { openTestGateway, TEST_LIMITS, type TestGateway } from "../../test-gateway.ts";

let gateway: TestGateway;
const SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0IHdlYmhvb2s=";
const HOOK = "https://hooks.example.org/services/T0/credential";

interface Setting {
  readonly name: string;
  readonly value: string | number | null;
  readonly unit: string | null;
  readonly origin: { readonly kind: string; readonly place: string };
}

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

/** A gateway with a configuration of its own on the same engine. */
async function settingsOf(sources: Parameters<typeof good>[0], key: string) {
  const { engine } = gateway;
  const config = good(sources);
  const parts = { ...PARTS, engine, config: () => config };
  const { app, stop } = openGateway(parts as unknown as Parameters<typeof openGateway>[0], TEST_LIMITS);
  const response = await app.inject({ url: "/api/v1/settings", headers: { "x-api-key": key } });
  await stop();
  return { status: response.statusCode, text: response.body, items: response.json().items as readonly Setting[] };
}

const PARTS = { sweeper: { duties: () => [] }, metrics: {}, info: {}, startupToken: null };

test("lists every setting with unit and origin, and hides secrets", async () => {
  const { key } = await gateway.keyOf("*", "operator");
  const { text, items } = await settingsOf(
    {
      file: {
        name: "cordum.yaml",
        text: `limits:\n  max_concurrent_runs: 25\norgs:\n  acme:\n    limits: { max_concurrent_runs: 3 }\nnotifications: { approvals: { urls: ["${HOOK}"] } }\n`,
      },
      env: { CORDUM_NOTIFICATIONS_APPROVALS_SECRET: SECRET, CORDUM_BUS_ACK_WAIT_MS: "20000" },
      flags: [{ name: "http.port", value: "9000", flag: "--port" }],
    },
    key,
  );
  const named = new Map(items.map((one) => [one.name, one]));
  expect(named.get("limits.max_concurrent_runs")).toMatchObject({
    value: 25,
    unit: "runs",
    origin: { kind: "file", place: expect.stringContaining("cordum.yaml") },
  });
  expect(named.get("orgs.acme.limits.max_concurrent_runs")).toMatchObject({ value: 3 });
  expect(named.get("bus.ack_wait_ms")).toMatchObject({ value: 20_000, unit: "ms", origin: { kind: "environment" } });
  expect(named.get("http.port")).toMatchObject({ value: 9_000, origin: { kind: "flag", place: "--port" } });
  expect(named.get("retry.lock_busy.policy")).toMatchObject({
    value: "bounded:500ms:0.3",
    origin: { kind: "default" },
  });
  expect(text).not.toContain(SECRET);
  expect(text).not.toContain("credential");
});

test("only keys of all tenants that operate read the settings", async () => {
  for (const [tenant, role] of [
    ["acme", "admin"],
    ["*", "viewer"],
    ["*", "submitter"],
  ] as const) {
    const { key } = await gateway.keyOf(tenant, role);
    expect((await settingsOf({}, key)).status, `${role} of ${tenant}`).toBe(403);
  }
});
