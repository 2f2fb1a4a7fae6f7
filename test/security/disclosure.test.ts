import { afterEach, expect, test } from "vitest";
import { publishFile } from "../../src/engine/safety/index.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

test("no route about policies shows a path of the host", async () => {
  gateway = await openTestGateway();
  const text = "version: 1\ndefault_decision: allow\nrules: []\n";
  await publishFile(gateway.engine, { name: "/srv/secret-place/policy.yaml", text });
  for (const path of ["/policy/snapshots", "/policy/rules", "/policy/bundles", "/policy/audit", "/status", "/audit"]) {
    const { statusCode, body } = await gateway.call("GET", `/api/v1${path}`);
    expect([path, statusCode]).toEqual([path, 200]);
    expect(body).not.toContain("secret-place");
  }
});
