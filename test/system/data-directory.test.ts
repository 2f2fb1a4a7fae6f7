import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bundle } from "./bundle.ts";

let script: string;
let dir: string;
const children: ChildProcess[] = [];
beforeAll(async () => {
  script = await bundle("hold-directory.ts");
  dir = mkdtempSync(join(tmpdir(), "cordum-hold-"));
});
afterAll(async () => {
  for (const child of children) await kill(child);
  rmSync(dir, { recursive: true, force: true });
});

async function start(): Promise<{ readonly child: ChildProcess; readonly output: string }> {
  const child = spawn(process.execPath, [script, dir], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  const [output] = (await once(createInterface({ input: child.stdout! }), "line")) as [string];
  return { child, output };
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

test("rejects a second process with the pid of the holder and admits it after the holder is killed", async () => {
  const first = await start();
  expect(first.output).toBe("open");
  const second = await start();
  expect(second.output).toContain(`is in use by process ${first.child.pid}:`);
  await kill(first.child);
  const third = await start();
  expect(third.output).toBe("open");
  const fourth = await start();
  expect(fourth.output).toContain(`is in use by process ${third.child.pid}:`);
});
