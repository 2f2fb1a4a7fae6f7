import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ensureToken, tokenFile, tokenFor } from "../../src/adapters/node/startup-token.ts";
import { runCli } from "../../src/cli/program.ts";
import { ROUTES } from "../../src/gateway/server.ts";
import { ioFor } from "../cli/run.ts";
import { Ups } from "../cli/up/ups.ts";
import { openTestGateway, STARTUP_TOKEN, type TestGateway } from "../gateway/test-gateway.ts";

describe("without API keys", () => {
  let gateway: TestGateway;

  beforeEach(async () => {
    gateway = await openTestGateway({ withoutToken: true });
  });
  afterEach(() => gateway.close());

  const get = (url: string, headers: Readonly<Record<string, string>> = {}) =>
    gateway.app.inject({ method: "GET", url, headers });
  const withToken = { "x-api-key": STARTUP_TOKEN };

  test.each(ROUTES.filter(({ access }) => access !== "open").map(({ method, path }) => [method, path] as const))(
    "%s %s needs the token, also from loopback",
    async (method, path) => {
      const response = await gateway.app.inject({ method, url: path.replace(/:\w+/g, "x") });
      expect(response.json()).toMatchObject({ status: 401, code: "key_missing" });
      expect(response.json<{ detail: string }>().detail).toContain("start-up token");
    },
  );

  test("the token is an administrator, as a key or a bearer token", async () => {
    expect((await get("/api/v1/keys", withToken)).statusCode).toBe(200);
    expect((await get("/api/v1/keys", { authorization: `Bearer ${STARTUP_TOKEN}` })).statusCode).toBe(200);
    expect((await get("/api/v1/keys", { "x-api-key": `${STARTUP_TOKEN}x` })).statusCode).toBe(401);
  });

  test.each(["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"])(
    "a request with `%s` is not trusted, even with the token",
    async (name) => {
      const response = await get("/api/v1/jobs", { ...withToken, [name]: "127.0.0.1" });
      expect(response.json()).toMatchObject({ status: 401, code: "key_invalid" });
    },
  );

  test("a web page of another origin or host name cannot use the token", async () => {
    expect((await get("/api/v1/jobs", { ...withToken, origin: "http://evil.example" })).statusCode).toBe(400);
    expect((await get("/api/v1/jobs", { ...withToken, host: "evil.example" })).statusCode).toBe(400);
  });

  test("the token is void once a key exists", async () => {
    const payload = { tenant: "*", role: "admin" };
    const created = await gateway.app.inject({ method: "POST", url: "/api/v1/keys", headers: withToken, payload });
    const { key } = created.json<{ key: string }>();
    expect((await get("/api/v1/jobs", withToken)).json()).toMatchObject({ status: 401, code: "key_missing" });
    expect((await get("/api/v1/jobs", { "x-api-key": key })).statusCode).toBe(200);
  });
});

describe("the token file", () => {
  const dir = mkdtempSync(join(tmpdir(), "cordum-token-"));

  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  test("is private, stays the same, and is read for loopback addresses only", () => {
    const token = ensureToken(dir, Math.random);
    expect(statSync(tokenFile(dir)).mode & 0o777).toBe(0o600);
    expect(ensureToken(dir, Math.random)).toBe(token);
    expect(readFileSync(tokenFile(dir), "utf8")).toBe(`${token}\n`);
    const env = { CORDUM_DATA_DIR: dir };
    expect(["http://127.0.0.1:8081", "http://localhost:1"].map((url) => tokenFor(url, env))).toEqual([token, token]);
    expect(["http://example.org", "https://10.0.0.1:8081", "nonsense"].map((url) => tokenFor(url, env))).toEqual([
      null,
      null,
      null,
    ]);
  });
});

describe("a control plane that starts without keys", () => {
  const ups = new Ups("token");

  test("writes the token, prints it once as a link, and its commands find it", async () => {
    const dir = join(ups.dir, "data");
    const up = ups.start(["--demo", "--port", "0", "--data", dir]);
    const url = await up.url;
    const token = readFileSync(tokenFile(dir), "utf8").trim();
    expect(statSync(tokenFile(dir)).mode & 0o777).toBe(0o600);
    await up.printed(`dashboard: ${url}/#${token}\n`);

    const command = async (argv: readonly string[], env: Readonly<Record<string, string>>) => {
      const { io, output } = ioFor({ CORDUM_URL: url, ...env });
      return { exitCode: await runCli(argv, io, "1.2.3"), ...output() };
    };
    expect(await command(["status"], { CORDUM_DATA_DIR: dir })).toMatchObject({ exitCode: 0 });
    // Another user of the machine cannot read the directory.
    const other = await command(["status"], { CORDUM_DATA_DIR: ups.dir });
    expect(other.exitCode).not.toBe(0);
    expect(other.err).toContain("API key required");
    const created = ["key", "create", "--tenant", "*", "--role", "admin"];
    expect(await command(created, { CORDUM_DATA_DIR: dir })).toMatchObject({ exitCode: 0 });
    up.child.kill("SIGTERM");
    const { out, err } = await up.ended;
    expect(`${out}${err}`.split(token)).toHaveLength(2);

    const again = ups.start(["--demo", "--port", "0", "--data", dir]);
    await again.url;
    again.child.kill("SIGTERM");
    const second = await again.ended;
    expect(`${second.out}${second.err}`).not.toContain(token);
  });
});
