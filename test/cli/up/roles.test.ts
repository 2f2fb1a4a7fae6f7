import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { callKernel } from "../../contract/safety/safety.peer.ts";
import { cordum, type UpProcess } from "../run.ts";
import { Ups } from "./ups.ts";

const ups = new Ups("roles");

function up(argv: readonly string[], env: Readonly<Record<string, string>> = {}): UpProcess {
  const process = ups.start(argv, env);
  return process;
}

const DATA = () => ["--port", "0", "--data", join(ups.dir, "data")];
const rules = (version: string, decision: string) =>
  `version: ${version}\nrules:\n  - {id: r, match: {topics: ['demo.*']}, decision: ${decision}, reason: ${version}}\n`;

function policyFile(text: string): string {
  const file = join(ups.dir, "policy.yaml");
  writeFileSync(file, text);
  return file;
}

const ask = (address: string) => callKernel(address, "Check", "PolicyCheckRequest", { topic: "demo.echo" });

/** Polls without a deadline; the test timeout applies. */
async function until<T>(read: () => Promise<T>, isSo: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read();
    if (isSo(value)) return value;
  }
}

describe("role safety", () => {
  test("a standalone kernel follows its file, ignores an invalid one and stops gracefully", async () => {
    const file = policyFile(rules("one", "allow"));
    const kernel = up(["--role", "safety", "--port", "0", "--policy", file]);
    const address = await kernel.url;
    expect(address).toMatch(/^127\.0\.0\.1:\d+$/);
    await kernel.printed(`up --safety ${address}`);
    expect(await ask(address)).toMatchObject({ decision: 1, reason: "one" });
    policyFile("rules: 7\n");
    await kernel.printed("policy_publish_failed");
    expect(await ask(address)).toMatchObject({ decision: 1, reason: "one" });
    policyFile(rules("two", "deny"));
    await until(
      () => ask(address),
      ({ reason }) => reason === "two",
    );
    kernel.child.kill("SIGTERM");
    expect(await kernel.ended).toMatchObject({ exitCode: 0 });
  });

  test("jobs wait while the kernel is down and continue after its restart", async () => {
    const file = policyFile(rules("one", "allow"));
    const first = up(["--role", "safety", "--port", "0", "--policy", file]);
    const address = await first.url;
    const plane = up([...DATA(), "--demo", "--safety", address], {
      CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: "fixed:50ms",
    });
    const env = { CORDUM_URL: await plane.url };
    const before = await cordum(["job", "submit", "demo.echo", "1", "--wait", "--json"], env);
    expect(JSON.parse(before.out)).toMatchObject({ state: "SUCCEEDED", safety: { reason: "one" } });

    first.child.kill("SIGKILL");
    await first.ended;
    const id = (await cordum(["job", "submit", "demo.echo", "2"], env)).out.trim();
    const job = async () => JSON.parse((await cordum(["job", "get", id, "--json"], env)).out);
    const waiting = await until(job, ({ wait }) => wait?.retry_class === "safety_unavailable");
    expect(waiting).toMatchObject({ state: "PENDING", safety: null });

    up(["--role", "safety", "--port", address.split(":")[1] ?? "", "--policy", file]);
    expect(await until(job, ({ state }) => state !== "PENDING" && state !== "DISPATCHED")).toMatchObject({
      state: "SUCCEEDED",
      result: 2,
    });
  });
});

describe("policy file of `up`", () => {
  test("is published; a later publish survives a restart until the file changes", async () => {
    const file = policyFile(rules("one", "allow"));
    const first = up([...DATA(), "--policy", file]);
    let env = { CORDUM_URL: await first.url };
    const version = async () => JSON.parse((await cordum(["status", "--json"], env)).out).policy.version;
    expect(await version()).toBe("one");
    const other = join(ups.dir, "other.yaml");
    writeFileSync(other, rules("by hand", "deny"));
    expect(await cordum(["policy", "publish", other], env)).toMatchObject({ exitCode: 0 });
    first.child.kill("SIGTERM");
    await first.ended;

    const second = up([...DATA(), "--policy", file]);
    env = { CORDUM_URL: await second.url };
    expect(await version()).toBe("by hand");
    policyFile("rules: [}\n");
    await second.printed("policy_publish_failed");
    expect(await version()).toBe("by hand");
    policyFile(rules("three", "allow"));
    await until(version, (now) => now === "three");
    const listed = JSON.parse((await cordum(["policy", "list", "--json"], env)).out).items;
    expect(listed.map(({ by }: { by: string }) => by)).toEqual(["file policy.yaml", "local", "file policy.yaml"]);
  });
});

describe("invalid roles exit with 2 before the start", () => {
  test.each([
    [["--role", "scheduler"], "unknown role `scheduler`"],
    [["--role", "gateway"], "--nats and --redis"],
    [["--role", "control"], "--nats and --redis"],
    [["--role", "safety", "--safety", "127.0.0.1:50051"], "cannot use a remote safety kernel"],
    [["--safety", "somewhere"], "host:port"],
  ])("%j", async (argv, message) => {
    const ran = await cordum(["up", ...argv]);
    expect(ran).toMatchObject({ exitCode: 2, out: "" });
    expect(ran.err).toContain(message);
  });

  test("a port in use exits with 4", async () => {
    const address = await up(["--role", "safety", "--port", "0"]).url;
    const ran = await up(["--role", "safety", "--port", address.split(":")[1] ?? ""]).ended;
    expect(ran).toMatchObject({ exitCode: 4 });
    expect(ran.err).toContain("callers name it in `safety.address`");
  });
});
