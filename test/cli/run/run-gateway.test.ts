// Workflow and run commands against a real gateway with a worker.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startDemoWorker } from "../../../src/cli/up/demo.ts";
import type { Stop } from "../../../src/ports/bus.ts";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";
import { cordum, type Ran, startUp, type UpProcess } from "../run.ts";

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cordum-run-"));
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

const file = (name: string, text: string) => {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
};

const ORDER = `id: order
steps:
  fetch: {topic: demo.echo}
  each: {topic: demo.echo, depends_on: [fetch], for_each: "[1, 2, 3]"}
  ask: {type: approval, depends_on: [fetch], allow_submitter: true}
  done: {topic: demo.echo, depends_on: [each, ask], input: "ready"}
`;

describe("against a gateway", () => {
  let gateway: TestGateway;
  let stopWorker: Stop;
  let run: (...argv: readonly string[]) => Promise<Ran>;
  let json: (...argv: readonly string[]) => ReturnType<typeof JSON.parse>;

  beforeEach(async () => {
    gateway = await openTestGateway();
    stopWorker = await startDemoWorker(gateway.world);
    const env = { CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) };
    run = (...argv) => cordum(argv, env);
    json = async (...argv) => JSON.parse((await run(...argv, "--json")).out);
    await run("workflow", "apply", file("order.yaml", ORDER));
  });

  afterEach(async () => {
    await stopWorker();
    await gateway.close();
  });

  test("shows what a run undoes and has undone, and stops it", async () => {
    const saga = `id: saga
steps:
  charge: {topic: demo.echo, compensate: {topic: demo.echo}}
  book: {topic: demo.echo, depends_on: [charge], compensate: {topic: ops.unserved}}
  mail: {topic: demo.broken, depends_on: [book]}
`;
    await run("workflow", "apply", file("saga.yaml", saga));
    const id = (await run("run", "start", "saga", "{}")).out.trim();
    await expect.poll(async () => (await run("run", "get", id)).out).toContain("undoing: book");
    const shown = (await run("run", "get", id)).out;
    expect(shown).toMatch(/ends with +permanent demo failure/);
    expect(shown).toMatch(/compensation +undone: 0 of 2; undoing: book/);
    expect((await run("run", "explain", id)).out).toMatch(/book +SCHEDULED +undoing: /);
    expect((await run("run", "cancel", id, "--no-compensate")).out).toBe(`run ${id} is now ENDING\n`);
    await run("job", "cancel", `${id}:book.undo@1`);
    const watched = await run("run", "watch", id);
    expect(watched.exitCode).toBe(1);
    const ended = (await run("run", "get", id)).out;
    expect(ended).toContain("permanent demo failure; undone: 0 of 2; failed to undo: book; not undone: charge");
    expect(ended).toMatch(/book +SUCCEEDED.*failed to undo: /);
  });

  test("applies, starts, pauses, explains, approves, watches and reruns", async () => {
    expect((await json("workflow", "apply", join(dir, "order.yaml"))).items).toMatchObject([
      { workflow_id: "order", version: 1, created: false },
    ]);
    expect((await run("workflow", "get", "order", "--version", "1")).out).toContain("done   worker    each, ask");

    const id = (await run("run", "start", "order", '{"a":1}', "--key", "k", "--label", "a=b")).out.trim();
    expect((await run("run", "start", "order", '{"a":1}', "--key", "k", "--label", "a=b")).out.trim()).toBe(id);
    expect(await run("run", "start", "order", '{"a":2}', "--key", "k")).toMatchObject({ exitCode: 4 });

    expect(await run("run", "pause", id)).toMatchObject({ exitCode: 0, out: `run ${id} is now PAUSED\n` });
    expect((await run("run", "get", id)).out).toContain(`paused: no new steps start; cordum run resume ${id}`);
    expect(await run("run", "resume", id)).toMatchObject({ exitCode: 0, out: `run ${id} is now RUNNING\n` });
    expect(await run("run", "rerun", id, "--from", "done")).toMatchObject({ exitCode: 4 });

    const watched = run("run", "watch", id);
    while (!(await run("run", "explain", id)).out.includes(`approval approve ${id}:ask@1`));
    expect((await run("run", "get", id)).out).toMatch(
      new RegExp(`◆.*ask .*\n.* cordum approval approve ${id}:ask@1\n`),
    );
    expect(await run("approval", "approve", `${id}:ask@1`)).toMatchObject({ exitCode: 0 });
    const { exitCode, out } = await watched;
    expect(exitCode).toBe(0);
    expect(out).toContain("  each  SUCCEEDED  ▓▓▓▓▓▓▓▓▓▓ 3/3\n");
    expect(out).toContain(`run ${id}  SUCCEEDED\n`);

    expect(await run("run", "cancel", id)).toMatchObject({ exitCode: 4 });
    expect(await run("run", "rerun", id, "--from", "dune")).toMatchObject({ exitCode: 3 });
    expect((await json("run", "timeline", id)).items.at(-1)).toMatchObject({ event: "run_succeeded" });
    expect((await run("run", "list", "--state", "SUCCEEDED")).out).toContain(`${id}  SUCCEEDED  order`);
    const again = await json("run", "rerun", id, "--from", "done", "--keep-approvals");
    expect(await run("run", "watch", again.run_id)).toMatchObject({ exitCode: 0 });

    expect(await run("workflow", "delete", "order")).toMatchObject({ exitCode: 0 });
    expect(await run("run", "start", "order")).toMatchObject({ exitCode: 3 });
    expect((await run("run", "get", id)).out).toContain("order v1  SUCCEEDED");
  });

  test("--wait prints the output or the error; --dry-run starts nothing", async () => {
    await run("workflow", "apply", file("good.yaml", "id: good\nsteps:\n  a: {topic: demo.echo}\n"));
    await run("workflow", "apply", file("bad.yaml", "id: bad\nsteps:\n  a: {topic: demo.broken}\n"));
    const dry = await json("run", "start", "good", "[1]", "--dry-run");
    expect(dry.steps).toMatchObject([{ step_id: "a", decision: { decision: "ALLOW" }, input: [1], input_known: true }]);
    expect((await json("run", "list")).items).toEqual([]);
    const good = await run("run", "start", "good", '{"hello":"world"}', "--wait");
    expect(good.exitCode).toBe(0);
    expect(JSON.parse(good.out)).toEqual({ a: { hello: "world" } });
    const bad = await run("run", "start", "bad", "--wait");
    expect(bad).toMatchObject({ exitCode: 1, out: "" });
    expect(bad.err).toMatch(/FAILED after .*permanent demo failure.*\nnext: cordum run timeline \S+\n$/);
  });

  test("a for_each condition shows every arm that was chosen", async () => {
    const ask = (list: string) => `{type: condition, condition: item > 1, for_each: "${list}"}`;
    await run(
      "workflow",
      "apply",
      file("ask.yaml", `id: ask\nsteps:\n  some: ${ask("[1, 2]")}\n  none: ${ask("[]")}\n`),
    );
    const id = (await run("run", "start", "ask")).out.trim();
    const { out } = await run("run", "get", id);
    expect(out).toMatch(/some +SUCCEEDED.* → else, then\n/);
    expect(out).toMatch(/none +SUCCEEDED.* → nothing\n/);
    expect((await json("run", "get", id)).steps).toMatchObject({
      some: { arm: null, arms: ["else", "then"], output: [false, true] },
      none: { arm: null, arms: [], output: [] },
    });
  });
});

describe("cordum up --workflows", () => {
  let started: UpProcess[];

  beforeEach(() => {
    started = [];
  });

  afterEach(async () => {
    for (const { child, ended } of started) {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await ended;
    }
  });

  const up = () => {
    const process = startUp(["--port", "0", "--data", join(dir, "data"), "--workflows", dir]);
    started.push(process);
    return process;
  };

  test("an invalid workflow prevents the start; changes are applied while running", async () => {
    const bad = file("b.yaml", "id: b\nsteps:\n  a: {topic: demo.echo, depends_on: [zero]}\n");
    file("a.yaml", "id: a\nsteps:\n  a: {topic: demo.echo}\n");
    const refused = await up().ended;
    expect(refused.exitCode).toBe(2);
    expect(refused.err).toContain(`invalid workflows:\n  ${bad}:3:`);
    expect(refused.err).toContain(`next: cordum up --workflows ${dir}\n`);

    file("b.yaml", "id: b\nsteps:\n  a: {topic: demo.echo}\n");
    const running = up();
    const env = { CORDUM_URL: await running.url };
    const listed = async () => JSON.parse((await cordum(["workflow", "list", "--json"], env)).out).items;
    const versions = async () => (await listed()).map((one: { workflow_id: string; version: number }) => one.version);
    expect(await versions()).toEqual([1, 1]);
    file("b.yaml", "id: b\nsteps:\n  a: {topic: demo.slow}\n");
    await running.printed('"version":2');
    expect((await versions()).sort()).toEqual([1, 2]);
  });
});
