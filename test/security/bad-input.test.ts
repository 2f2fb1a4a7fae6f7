/** Input that must be a 400, whatever the route: tampered cursors and deep nesting. */
import { afterEach, describe, expect, test } from "vitest";
import { ROUTES } from "../../src/gateway/server.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const nested = (levels: number): string => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
const pathOf = (path: string) => path.replace(/:\w+/g, "x");

describe("nesting of a body", () => {
  const withBody = ROUTES.filter(({ body }) => body !== undefined);

  test.each(withBody.map(({ method, path }) => [method, path] as const))("%s %s", async (method, path) => {
    gateway = await openTestGateway();
    for (const payload of [nested(5_000), "[".repeat(5_000), `{"topic":"a","input":${nested(101)}}`]) {
      const headers = { "content-type": "application/json" };
      const response = await gateway.app.inject({ method, url: pathOf(path), payload, headers });
      expect([response.statusCode, response.json().status]).toEqual([400, 400]);
    }
  });

  test("accepts 100 levels, and brackets in strings", async () => {
    gateway = await openTestGateway();
    const input = { deep: JSON.parse(nested(97)), text: '["'.repeat(500), escaped: '\\"['.repeat(300) };
    const submitted = await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.echo", input } });
    expect(submitted.statusCode).toBe(200);
  });
});

describe("a tampered cursor", () => {
  const paged = ROUTES.filter(({ query }) => Object.hasOwn(query ?? {}, "properties")).filter(({ query }) =>
    Object.hasOwn((query as unknown as { properties: object }).properties, "cursor"),
  );

  test.each(paged.map(({ path }) => path))("%s", async (path) => {
    gateway = await openTestGateway();
    const bodies = ["", "x", "-1:x", "99999999999999999999:x", "NaN", "1e400", "\u0000"];
    for (const index of ["jobs/default", "audit/default", "x"]) {
      for (const body of bodies) {
        const cursor = Buffer.from(`${index}\n${body}`).toString("base64url");
        const { statusCode } = await gateway.call("GET", `${pathOf(path)}?cursor=${cursor}`);
        expect([400, 404]).toContain(statusCode);
      }
    }
  });

  test.each(["x", "-1:x", "99999999999999999999:x", "NaN", "1e400", "\u0000"])(
    "with the index of the list and the position %j",
    async (position) => {
      gateway = await openTestGateway();
      for (const topic of ["demo.echo", "demo.echo"]) {
        await gateway.call("POST", "/api/v1/jobs", { body: { topic } });
      }
      for (const path of ["/api/v1/jobs", "/api/v1/audit"]) {
        const { next_cursor } = (await gateway.call("GET", `${path}?limit=1`)).json<{ next_cursor: string | null }>();
        const [index] = Buffer.from(next_cursor ?? "", "base64url")
          .toString()
          .split("\n");
        for (const text of [position, Buffer.from(position).toString("base64url")]) {
          const cursor = Buffer.from(`${index}\n${text}`).toString("base64url");
          const response = await gateway.call("GET", `${path}?cursor=${cursor}`);
          expect(response.json()).toMatchObject({ status: 400, code: "invalid_cursor" });
        }
      }
    },
  );
});
