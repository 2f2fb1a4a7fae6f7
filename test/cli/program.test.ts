import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exitCodeForStatus } from "../../src/cli/exit.ts";
import { cordum } from "./run.ts";

let dir: string;

/** An address where nobody listens: a port that was free a moment ago. */
let nobody: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-cli-"));
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  nobody = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise((resolve) => server.close(resolve));
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

const fileWith = (name: string, text: string) => {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
};

describe("usage", () => {
  test.each([
    [[], ""],
    [["jobs"], "cordum --help"],
    [["job"], ""],
    [["job", "lists"], "cordum job --help"],
    [["job", "get"], "cordum job get --help"],
    [["job", "list", "--states", "x"], "cordum job list --help"],
    [["job", "submit", "demo.echo", "--priority", "soon"], "cordum job submit --help"],
    [["job", "submit", "demo.echo", "--label", "novalue"], "cordum job submit --help"],
    [["job", "submit", "demo.echo", "--timeout", "5"], "cordum job submit --help"],
    [["job", "submit", "demo.echo", "{hello}"], "cordum job submit"],
    [["sim", "--seeds", "many"], "cordum sim --help"],
  ])("cordum %s: exit 2, and the next command is named", async (argv, next) => {
    const ran = await cordum(argv, { CORDUM_URL: nobody });
    expect(ran.exitCode).toBe(2);
    expect(ran.out).toBe("");
    expect(ran.err).toContain(next === "" ? "Usage:" : `next: ${next}`);
  });

  test("help and version are data, and fine", async () => {
    expect(await cordum(["--version"])).toEqual({ exitCode: 0, out: "1.2.3\n", err: "" });
    const help = await cordum(["job", "submit", "--help"]);
    expect(help.exitCode).toBe(0);
    expect(help.out).toContain("--wait");
  });

  test("statuses of the gateway become exit codes that scripts can branch on", () => {
    const codes = [200, 400, 403, 404, 409, 422, 429, 500, 503].map(exitCodeForStatus);
    expect(codes).toEqual([1, 2, 5, 3, 4, 4, 6, 1, 6]);
  });
});

describe("a client without a control plane", () => {
  test("says so, names `cordum up`, and ends with 6", async () => {
    const ran = await cordum(["status"], { CORDUM_URL: nobody });
    expect(ran).toMatchObject({ exitCode: 6, out: "" });
    expect(ran.err).toContain(`cordum: cannot reach the control plane at ${nobody} (connect ECONNREFUSED`);
    expect(ran.err).toMatch(/\nnext: cordum up\n$/);
  });

  test("with --json the error is a document, too", async () => {
    const ran = await cordum(["job", "list", "--json"], { CORDUM_URL: nobody });
    expect(JSON.parse(ran.out)).toMatchObject({ exit_code: 6, next: "cordum up" });
  });

  test("an address that is none is a mistake in the environment", async () => {
    expect(await cordum(["status"], { CORDUM_URL: "localhost:8081" })).toMatchObject({ exitCode: 2 });
  });

  test("something else that answers there is not mistaken for one", async () => {
    const server = createServer((_, response) => response.end("<html>"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const ran = await cordum(["status"], { CORDUM_URL: `http://127.0.0.1:${port}` });
    expect(ran.exitCode).toBe(1);
    expect(ran.err).toContain("check that CORDUM_URL is a cordum gateway");
    server.closeAllConnections();
    server.close();
  });
});

describe("config explain", () => {
  test("every setting with its value and its origin", async () => {
    const file = fileWith("cordum.yaml", "profile: baseline\nhttp: {port: 9999}\n");
    const ran = await cordum(["config", "explain", "--json", "--config", file], { CORDUM_LOG_LEVEL: "warn" });
    expect(ran.exitCode).toBe(0);
    const all = JSON.parse(ran.out) as { name: string }[];
    const named = (name: string) => all.find((setting) => setting.name === name);
    expect(named("http.port")).toMatchObject({ value: 9999, origin: { kind: "file", place: `${file}:2` } });
    expect(named("log.level")).toMatchObject({ value: "warn", origin: { kind: "environment" } });
    expect(named("bus.ack_wait_ms")).toMatchObject({
      value: 600_000,
      default: 30_000,
      baseline: 600_000,
      origin: { kind: "baseline" },
    });
    expect(named("retry.lock_busy.policy")).toMatchObject({ value: "fixed:500ms", live: true });
  });

  test("one setting in detail; an unknown one with the nearest name and exit 3", async () => {
    const ran = await cordum(["config", "explain", "bus.park_after_ms"]);
    expect(ran.out).toContain("CORDUM_BUS_PARK_AFTER_MS");
    const wrong = await cordum(["config", "explain", "bus.park_after"]);
    expect(wrong).toMatchObject({ exitCode: 3 });
    expect(wrong.err).toContain("did you mean `bus.park_after_ms`?");
  });

  test("a password in an address is not shown", async () => {
    const env = { CORDUM_REDIS_URL: "redis://:s3cret@127.0.0.1:6379", CORDUM_NATS_URL: "nats://me:s3cret@127.0.0.1" };
    for (const flags of [["--json"], []]) {
      const ran = await cordum(["config", "explain", ...flags], env);
      expect(ran.exitCode).toBe(0);
      expect(ran.out).not.toContain("s3cret");
      expect(ran.out).toContain("127.0.0.1:6379");
    }
  });

  test("a secret is not shown: only that there is one, and where it comes from", async () => {
    const env = { CORDUM_SAFETY_TOKEN: "s3cr3t-0123456789-abcdef" };
    for (const argv of [["--json"], [], ["safety.token"], ["safety.token", "--json"]]) {
      const ran = await cordum(["config", "explain", ...argv], env);
      expect(ran.exitCode).toBe(0);
      expect(ran.out).not.toContain("s3cr3t");
      expect(ran.out).toContain("[redacted]");
      expect(ran.out).toContain("CORDUM_SAFETY_TOKEN");
    }
    expect((await cordum(["config", "explain", "safety.token"])).out).toContain("– (default)");
  });

  test("a wrong file is refused with every problem, before anything is shown", async () => {
    const file = fileWith("wrong.yaml", "http: {prt: 1}\nlog: {level: loud}\n");
    const ran = await cordum(["config", "explain", "--json", "--config", file]);
    expect(ran.exitCode).toBe(2);
    expect(JSON.parse(ran.out).problems).toHaveLength(2);
    expect(await cordum(["config", "explain", "--config", join(dir, "absent.yaml")])).toMatchObject({ exitCode: 2 });
  });
});

test("sim runs the core on a seed: the same seed, the same trace; an unknown mutant is a usage error", async () => {
  const run = () => cordum(["sim", "--seed", "7", "--runs", "20", "--faults", "lite", "--json"]);
  const [one, again] = [await run(), await run()];
  expect(one.exitCode).toBe(0);
  expect(JSON.parse(one.out)).toMatchObject({ seed: 7, violations: [] });
  expect(JSON.parse(again.out).hash).toBe(JSON.parse(one.out).hash);
  expect(await cordum(["sim", "--mutant", "unknown"])).toMatchObject({ exitCode: 2, out: "" });
  expect(await cordum(["sim", "--plant", "unknown"])).toMatchObject({ exitCode: 2, out: "" });
});
