import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../../test-gateway.ts";

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

test("without `--demo` no incident can be caused", async () => {
  const { key } = await gateway.keyOf("*", "admin");
  for (const [method, path, body] of [
    ["GET", "", undefined],
    ["POST", "/kernel", { stopped: true }],
    ["POST", "/lock", undefined],
  ] as const) {
    const response = await gateway.call(method, `/api/v1/demo${path}`, { key, ...(body && { body }) });
    expect(response.json()).toMatchObject({ status: 404, detail: expect.stringContaining("without `--demo`") });
  }
});
