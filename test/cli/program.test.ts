import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exitCodeForStatus } from "../../src/cli/exit.ts";
import { cordum } from "./run.ts";

let dir: string;

/** A closed port. */
let unreachable: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-cli-"));
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  unreachable = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
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
  ])("cordum %s exits with 2 and names the next command", async (argv, next) => {
    const ran = await cordum(argv, { CORDUM_URL: unreachable });
    expect(ran.exitCode).toBe(2);
    expect(ran.out).toBe("");
    expect(ran.err).toContain(next === "" ? "Usage:" : `next: ${next}`);
  });

  test("help and version go to stdout and exit with 0", async () => {
    expect(await cordum(["--version"])).toEqual({ exitCode: 0, out: "1.2.3\n", err: "" });
    const help = await cordum(["job", "submit", "--help"]);
    expect(help.exitCode).toBe(0);
    expect(help.out).toContain("--wait");
  });

  test("maps gateway statuses to exit codes", () => {
    const codes = [200, 400, 403, 404, 409, 422, 429, 500, 503].map(exitCodeForStatus);
    expect(codes).toEqual([1, 2, 5, 3, 4, 4, 6, 1, 6]);
  });
});

describe("without a control plane", () => {
  test("names `cordum up` and exits with 6", async () => {
    const ran = await cordum(["status"], { CORDUM_URL: unreachable });
    expect(ran).toMatchObject({ exitCode: 6, out: "" });
    expect(ran.err).toContain(`cordum: cannot reach the control plane at ${unreachable} (connect ECONNREFUSED`);
    expect(ran.err).toMatch(/\nnext: cordum up\n$/);
  });

  test("prints the error as a document with --json", async () => {
    const ran = await cordum(["job", "list", "--json"], { CORDUM_URL: unreachable });
    expect(JSON.parse(ran.out)).toMatchObject({ exit_code: 6, next: "cordum up" });
  });

  test("rejects an invalid CORDUM_URL", async () => {
    expect(await cordum(["status"], { CORDUM_URL: "localhost:8081" })).toMatchObject({ exitCode: 2 });
  });

  test("rejects a response that is not JSON", async () => {
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
  test("lists every setting with its value and origin", async () => {
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

  test("accepts the deprecated profile `founding` with a warning on stderr", async () => {
    const warning = "`profile: founding` is deprecated; use `profile: baseline`";
    const old = fileWith("founding.yaml", "profile: founding\n");
    const ran = await cordum(["config", "explain", "profile", "--json", "--config", old]);
    expect(ran).toMatchObject({ exitCode: 0, err: `warning: ${old}:1: ${warning}\n` });
    expect(JSON.parse(ran.out)).toMatchObject([{ name: "profile", value: "baseline", origin: { kind: "file" } }]);
    const fromEnvironment = await cordum(["config", "explain", "profile"], { CORDUM_PROFILE: "founding" });
    expect(fromEnvironment).toMatchObject({ exitCode: 0, err: `warning: CORDUM_PROFILE: ${warning}\n` });
    const current = fileWith("baseline.yaml", "profile: baseline\n");
    expect(await cordum(["config", "explain", "profile", "--config", current])).toMatchObject({ exitCode: 0, err: "" });
  });

  test("shows one setting in detail, and suggests a name for an unknown one", async () => {
    const ran = await cordum(["config", "explain", "bus.park_after_ms"]);
    expect(ran.out).toContain("CORDUM_BUS_PARK_AFTER_MS");
    const wrong = await cordum(["config", "explain", "bus.park_after"]);
    expect(wrong).toMatchObject({ exitCode: 3 });
    expect(wrong.err).toContain("did you mean `bus.park_after_ms`?");
  });

  test("hides passwords in URLs", async () => {
    const env = { CORDUM_REDIS_URL: "redis://:s3cret@127.0.0.1:6379", CORDUM_NATS_URL: "nats://me:s3cret@127.0.0.1" };
    for (const flags of [["--json"], []]) {
      const ran = await cordum(["config", "explain", ...flags], env);
      expect(ran.exitCode).toBe(0);
      expect(ran.out).not.toContain("s3cret");
      expect(ran.out).toContain("127.0.0.1:6379");
    }
  });

  test("hides secrets, but shows their origin", async () => {
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

  test("rejects an invalid file with all problems", async () => {
    const file = fileWith("wrong.yaml", "http: {prt: 1}\nlog: {level: loud}\n");
    const ran = await cordum(["config", "explain", "--json", "--config", file]);
    expect(ran.exitCode).toBe(2);
    expect(JSON.parse(ran.out).problems).toHaveLength(2);
    expect(await cordum(["config", "explain", "--config", join(dir, "absent.yaml")])).toMatchObject({ exitCode: 2 });
  });
});

test("sim is deterministic per seed, and rejects an unknown mutant", async () => {
  const run = () => cordum(["sim", "--seed", "7", "--runs", "20", "--faults", "lite", "--json"]);
  const [one, again] = [await run(), await run()];
  expect(one.exitCode).toBe(0);
  expect(JSON.parse(one.out)).toMatchObject({ seed: 7, violations: [] });
  expect(JSON.parse(again.out).hash).toBe(JSON.parse(one.out).hash);
  expect(await cordum(["sim", "--mutant", "unknown"])).toMatchObject({ exitCode: 2, out: "" });
  expect(await cordum(["sim", "--plant", "unknown"])).toMatchObject({ exitCode: 2, out: "" });
});
