import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CliError } from "../../../src/cli/exit.ts";
import { applyAtStart, applyChanges, loadWorkflows } from "../../../src/cli/up/workflow-dir.ts";
import { loadWorkflow } from "../../../src/engine/runs/workflows.ts";
import { loadSchedule } from "../../../src/engine/schedules/index.ts";
import type { Log } from "../../../src/ports/log.ts";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cordum-workflows-"));
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

const workflow = (id: string, topic = "demo.echo") => `id: ${id}\nsteps:\n  only: {topic: ${topic}}\n`;
const file = (name: string, text: string) => {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
};

describe("load", () => {
  test("reads YAML and JSON files in sorted order", () => {
    file("b.yml", workflow("b"));
    file("c.json", JSON.stringify({ id: "c", steps: { only: { topic: "demo.echo" } } }));
    file("a.yaml", workflow("a"));
    file("README.md", "no workflow");
    mkdirSync(join(dir, "d.yaml"));
    expect(loadWorkflows(dir).texts.map(({ file }) => file)).toEqual(
      ["a.yaml", "b.yml", "c.json"].map((name) => join(dir, name)),
    );
  });

  test("reports all problems of all files with their places", () => {
    const bad = file("bad.yaml", "id: bad\nsteps:\n  only: {topc: demo.echo}\n");
    const worse = file("worse.yaml", "id: [\n");
    file("good.yaml", workflow("good"));
    const error = errorOf(() => loadWorkflows(dir));
    expect(error.exitCode).toBe(2);
    expect(error.message).toContain(`\n  ${bad}:3:10: steps.only.topc: unknown key; did you mean \`topic\`?`);
    expect(error.message).toContain(`\n  ${worse}:`);
    expect(error.next).toBe(`cordum up --workflows ${dir}`);
  });

  test("rejects a workflow that is defined in two files", () => {
    const one = file("one.yaml", workflow("same"));
    const two = file("two.yaml", workflow("same", "demo.slow"));
    expect(errorOf(() => loadWorkflows(dir)).fields).toEqual({
      problems: [`${two}: workflow \`same\` is already defined in ${one}`],
    });
  });

  test("rejects an unreadable schedule", () => {
    mkdirSync(join(dir, "schedules"));
    const bad = file("schedules/bad.yaml", "id: [");
    expect(errorOf(() => loadWorkflows(dir)).message).toContain(`${bad}:1:`);
  });

  test("rejects a missing directory", () => {
    expect(errorOf(() => loadWorkflows(join(dir, "none"))).message).toContain("cannot read workflow directory");
  });
});

describe("apply", () => {
  let gateway: TestGateway;
  let waiting: ((event: string) => void)[];
  const log: Log = {
    write(_, event) {
      for (const resolve of waiting.splice(0)) resolve(event);
    },
  };
  const logged = () => new Promise<string>((resolve) => waiting.push(resolve));

  beforeEach(async () => {
    waiting = [];
    gateway = await openTestGateway();
  });

  afterEach(() => gateway.close());

  const version = async (id: string) => (await loadWorkflow(gateway.engine, "default", id, null))?.version;

  test("applies all files at start and changed files later; skips invalid ones", async () => {
    file("a.yaml", workflow("a"));
    const read = loadWorkflows(dir);
    await applyAtStart(gateway.engine, read, log);
    await applyAtStart(gateway.engine, read, log);
    expect(await version("a")).toBe(1);
    const stop = applyChanges(gateway.engine, read, log);
    const steps: [name: string, text: string, event: string][] = [
      ["a.yaml", workflow("a", "demo.slow"), "workflow_applied"],
      ["b.json", '{"id":"b","steps":{"only":{"topic":"demo.echo"}}}', "workflow_applied"],
      ["a.yaml", "id: a\nsteps: nothing at all\n", "workflow_apply_failed"],
    ];
    for (const [name, text, event] of steps) {
      const next = logged();
      file(name, text);
      expect(await next).toBe(event);
    }
    stop();
    expect([await version("a"), await version("b")]).toEqual([2, 1]);
  });

  test("applies the schedules after the workflows that they start", async () => {
    mkdirSync(join(dir, "schedules"));
    file("z.yaml", workflow("z"));
    const document = "id: nightly\nworkflow_id: z\ncron: 30 2 * * *\n";
    file("schedules/a.yaml", document);
    const read = loadWorkflows(dir);
    await applyAtStart(gateway.engine, read, log);
    const schedule = () => loadSchedule(gateway.engine, "default", "nightly");
    const applied = await schedule();
    expect(applied?.value).toMatchObject({ workflowId: "z", submittedBy: `file ${join(dir, "schedules/a.yaml")}` });
    await applyAtStart(gateway.engine, read, log);
    expect((await schedule())?.version).toBe(1);
    const next = logged();
    const stop = applyChanges(gateway.engine, read, log);
    file("schedules/a.yaml", `${document}overlap: queue\n`);
    expect(await next).toBe("schedule_applied");
    stop();
    expect((await schedule())?.value.overlap).toBe("queue");
    file("schedules/b.yaml", "id: b\nworkflow_id: nope\nevery: 1h\n");
    await expect(applyAtStart(gateway.engine, loadWorkflows(dir), log)).rejects.toThrow(
      "workflow `nope` does not exist",
    );
  });
});

function errorOf(act: () => unknown): CliError {
  try {
    act();
  } catch (error) {
    if (error instanceof CliError) return error;
    throw error;
  }
  throw new Error("no error was thrown");
}
