import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { cordum, startUp, type UpProcess } from "../run.ts";
import { Ups } from "./ups.ts";

const ups = new Ups("up");

function up(argv: readonly string[] = [], env: Readonly<Record<string, string>> = {}): UpProcess {
  const process = ups.start(["--port", "0", "--data", join(ups.dir, "data"), ...argv], env);
  return process;
}

describe("cordum up --demo", () => {
  test("runs jobs through retries, denial and dead letters, and keeps them over a restart", async () => {
    const first = up(["--demo"]);
    const env = { CORDUM_URL: await first.url };
    await first.printed(`job submit demo.echo '{"hello":"world"}' --wait`);

    const echo = await cordum(["job", "submit", "demo.echo", '{"hello":"world"}', "--wait"], env);
    expect(echo).toMatchObject({ exitCode: 0, out: '{\n  "hello": "world"\n}\n' });

    const flaky = await cordum(["job", "submit", "demo.flaky", "-", "--wait", "--json", "--label", "a=b"], env, "[1]");
    expect(JSON.parse(flaky.out)).toMatchObject({ state: "SUCCEEDED", attempt: 3, input: [1], labels: { a: "b" } });

    const denied = await cordum(["job", "submit", "demo.forbidden", "--wait"], env);
    expect(denied).toMatchObject({ exitCode: 5, out: "" });
    expect(denied.err).toMatch(/next: cordum job get \S+/);

    const broken = await cordum(["job", "submit", "demo.broken", '{"keep":"me"}', "--wait"], env);
    expect(broken).toMatchObject({ exitCode: 1, out: "" });
    const deadLetters = JSON.parse((await cordum(["dlq", "list", "--json"], env)).out).items;
    expect(deadLetters).toHaveLength(1);
    const deadLetter = await cordum(["dlq", "show", deadLetters[0].id], env);
    expect(JSON.parse(deadLetter.out)).toMatchObject({ reason: "permanent", input: { keep: "me" } });
    expect((await cordum(["dlq", "list"], env)).out).toContain("demo.broken");

    const status = await cordum(["status"], env);
    expect(status.exitCode).toBe(0);
    expect(status.out).toContain("built-in demo policy");

    first.child.kill("SIGINT");
    expect(await first.ended).toMatchObject({ exitCode: 0 });

    const second = up();
    const again = { CORDUM_URL: await second.url };
    const jobs = JSON.parse((await cordum(["job", "list", "--json"], again)).out).items;
    expect(jobs.map((job: { topic: string; state: string }) => [job.topic, job.state])).toEqual([
      ["demo.broken", "FAILED"],
      ["demo.forbidden", "DENIED"],
      ["demo.flaky", "SUCCEEDED"],
      ["demo.echo", "SUCCEEDED"],
    ]);
    const shown = await cordum(["job", "get", jobs[2].job_id], again);
    expect(shown.out).toContain("attempt 2  failed");
    expect(await cordum(["job", "get", "unknown"], again)).toMatchObject({ exitCode: 3 });
    expect((await cordum(["job", "list", "--limit", "1"], again)).err).toContain(
      "next page: cordum job list --limit 1 --cursor",
    );
    second.child.kill("SIGTERM");
    expect(await second.ended).toMatchObject({ exitCode: 0 });
  });

  test("a reused idempotency key exits with 4; --timeout limits --wait", async () => {
    const env = { CORDUM_URL: await up(["--demo"]).url };
    const submit = (input: string) => cordum(["job", "submit", "demo.echo", input, "--key", "k"], env);
    const [one, same, other] = [await submit("1"), await submit("1"), await submit("2")];
    expect(same.out).toBe(one.out);
    expect(other).toMatchObject({ exitCode: 4 });
    const late = await cordum(["job", "submit", "unserved.topic", "--wait", "--timeout", "1ms"], env);
    expect(late).toMatchObject({ exitCode: 6 });
    expect(late.err).toMatch(/next: cordum job get \S+/);
  });

  test("a second signal exits immediately", async () => {
    const process = up(["--demo"], { CORDUM_LOG_LEVEL: "debug" });
    await cordum(["job", "submit", "demo.slow"], { CORDUM_URL: await process.url });
    await process.printed("demo_slow_started");
    process.child.kill("SIGINT");
    await process.printed("shutting down gracefully");
    process.child.kill("SIGINT");
    expect(await process.ended).toMatchObject({ exitCode: 130 });
  });

  test("warns about the deprecated profile `founding` and reports `baseline`", async () => {
    const process = up([], { CORDUM_PROFILE: "founding" });
    const env = { CORDUM_URL: await process.url };
    await process.printed("warning: CORDUM_PROFILE: `profile: founding` is deprecated; use `profile: baseline`");
    expect(JSON.parse((await cordum(["status", "--json"], env)).out)).toMatchObject({ profile: "baseline" });
  });

  test("reloads live settings from the config file; others require a restart", async () => {
    const config = join(ups.dir, "cordum.yaml");
    writeFileSync(config, "retry: {lock_busy: {policy: 'bounded:500ms:0.3'}}\n");
    const process = up(["--config", config]);
    await process.url;
    writeFileSync(config, "retry: {lock_busy: {policy: 'fixed:500ms'}}\nbus: {park_after_ms: 100}\n");
    await process.printed("config_reloaded");
    await process.printed("config_restart_required");
    writeFileSync(config, "retry: {lock_busy: {polcy: 'fixed:500ms'}}\n");
    process.child.kill("SIGHUP");
    await process.printed("config_reload_failed");
    writeFileSync(config, "profile: founding\n");
    process.child.kill("SIGHUP");
    await process.printed("setting_deprecated");
  });
});

describe("failed starts", () => {
  test("a data directory in use exits with 4", async () => {
    await up().url;
    const ran = await up().ended;
    expect(ran).toMatchObject({ exitCode: 4 });
    expect(ran.err).toMatch(/is in use by process \d+.*\nnext: cordum up --data /);
  });

  test("a port in use exits with 4", async () => {
    const { port } = new URL(await up().url);
    const ran = await startUp(["--data", join(ups.dir, "other"), "--port", port]).ended;
    expect(ran).toMatchObject({ exitCode: 4 });
    expect(ran.err).toContain("next: cordum up --port 0");
  });

  test("an invalid policy exits with 2 and names the line", async () => {
    const policy = join(ups.dir, "policy.yaml");
    writeFileSync(policy, "rules:\n  - {id: a, match: {topic: [x]}, decision: allow, reason: r}\n");
    const ran = await up(["--policy", policy]).ended;
    expect(ran).toMatchObject({ exitCode: 2 });
    expect(ran.err).toContain(`${policy}:2: unknown key \`topic\`; did you mean \`topics\`?`);
  });

  test("a non-loopback address without API keys exits with 2", async () => {
    const ran = await up(["--host", "0.0.0.0"]).ended;
    expect(ran).toMatchObject({ exitCode: 2 });
    expect(ran.err).toContain("without an API key");
  });
});

test("rejects a misspelt fail mode; `open` opens a lease and logs it (L32)", async () => {
  expect(await up([], { POLICY_CHECK_FAIL_MODE: "opne" }).ended).toMatchObject({ exitCode: 2 });
  const opened = up([], { POLICY_CHECK_FAIL_MODE: "open" });
  await opened.url;
  await opened.printed("fail_open_opened");
});

test("the policy file is in force and shown by status", async () => {
  const policy = join(ups.dir, "policy.yaml");
  writeFileSync(policy, "version: mine\nrules:\n  - {id: ok, match: {topics: [a.*]}, decision: allow, reason: r}\n");
  const env = { CORDUM_URL: await up(["--policy", policy]).url };
  expect(await cordum(["job", "submit", "a.b"], env)).toMatchObject({ exitCode: 0 });
  expect(await cordum(["job", "submit", "b.b"], env)).toMatchObject({ exitCode: 5 });
  expect(JSON.parse((await cordum(["status", "--json"], env)).out).policy).toMatchObject({
    source: "policy.yaml",
    version: "mine",
    default_decision: "deny",
  });
});
