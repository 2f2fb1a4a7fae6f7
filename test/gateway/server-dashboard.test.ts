import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { fastify } from "fastify";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Problem, problemResponse, toProblem } from "../../src/gateway/problem.ts";
import { serveDashboard, VIEWS } from "../../src/gateway/server-dashboard.ts";

const dir = mkdtempSync(join(tmpdir(), "cordum-served-"));
const app = fastify();

beforeAll(() => {
  const folder = join(dir, "dashboard");
  mkdirSync(join(folder, "assets"), { recursive: true });
  writeFileSync(join(dir, "secret.js"), "secret");
  writeFileSync(join(folder, "index.html"), "<!doctype html>page");
  for (const [suffix, bytes] of [
    ["", "code"],
    [".br", brotliCompressSync("code")],
    [".gz", gzipSync("code")],
  ] as const) {
    writeFileSync(join(folder, "assets", `main-1a2b.js${suffix}`), bytes);
  }
  app.setErrorHandler((error, _, reply) => reply.code(error instanceof Problem ? 404 : 500).send(String(error)));
  serveDashboard(app, folder);
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

test.each(["/", ...VIEWS.map((view) => `/${view}`), "/jobs/a%2Fb", "/runs/r1?tab=timeline"])(
  "%s is the page",
  async (url) => {
    const { statusCode, headers, body } = await app.inject({ url });
    expect([statusCode, headers["content-type"], body]).toEqual([
      200,
      "text/html; charset=utf-8",
      "<!doctype html>page",
    ]);
    expect(headers["cache-control"]).toBe("no-cache");
  },
);

test("the content security policy admits nothing inline and no other host", async () => {
  const policy = String((await app.inject({ url: "/" })).headers["content-security-policy"]);
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/unsafe|https?:|\*|data:/);
  expect(policy).toContain("frame-ancestors 'none'");
});

test.each([
  ["br, gzip", "br"],
  ["gzip", "gzip"],
  ["identity", undefined],
])("assets for `%s` are sent as %s and kept for ever", async (accepted, encoding) => {
  const { headers } = await app.inject({ url: "/assets/main-1a2b.js", headers: { "accept-encoding": accepted } });
  expect(headers["content-encoding"]).toBe(encoding);
  expect(headers["content-type"]).toBe("text/javascript; charset=utf-8");
  expect(headers["cache-control"]).toBe("public, max-age=31536000, immutable");
  expect(headers.vary).toBe("accept-encoding");
});

test("an unchanged page is not sent again", async () => {
  const { etag } = (await app.inject({ url: "/" })).headers;
  const again = await app.inject({ url: "/jobs", headers: { "if-none-match": String(etag) } });
  expect([again.statusCode, again.body]).toEqual([304, ""]);
});

test.each(["/assets/..%2F..%2Fsecret.js", "/assets/%2e%2e%2findex.html", "/assets/none.js", "/assets/"])(
  "%s is not found",
  async (url) => {
    const { statusCode, body } = await app.inject({ url });
    expect([statusCode, body]).toEqual([404, expect.stringContaining("does not exist")]);
  },
);

test("answers 404 for an asset that a rebuild removed, then serves the new build", async () => {
  const folder = join(dir, "rebuilt");
  const rebuild = (hash: string) => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(join(folder, "assets"), { recursive: true });
    writeFileSync(join(folder, "index.html"), `page ${hash}`);
    for (const name of ["main", "lazy"]) writeFileSync(join(folder, "assets", `${name}-${hash}.js`), hash);
  };
  const running = fastify();
  running.setErrorHandler((error, _, reply) => {
    const { status, headers, body } = problemResponse(toProblem(error), () => 0);
    return reply.code(status).headers(headers).send(body);
  });
  serveDashboard(running, folder);
  rebuild("old");
  expect((await running.inject({ url: "/assets/main-old.js" })).statusCode).toBe(200);

  rebuild("new");
  const missing = await running.inject({ url: "/assets/lazy-old.js" });
  expect([missing.statusCode, missing.json().code]).toEqual([404, "route_not_found"]);
  expect(missing.json().detail).toContain("load the page again");
  expect(missing.headers["cache-control"]).toBeUndefined();
  expect((await running.inject({ url: "/" })).body).toBe("page new");
  expect((await running.inject({ url: "/assets/lazy-new.js" })).body).toBe("new");
});

test("a process without a built dashboard names the fix", async () => {
  const bare = fastify();
  bare.setErrorHandler((error, _, reply) => reply.code(404).send((error as Error).message));
  serveDashboard(bare, join(dir, "nothing"));
  expect((await bare.inject({ url: "/" })).body).toContain("npm run build");
});
