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

async function start(): Promise<{ readonly child: ChildProcess; readonly said: string }> {
  const child = spawn(process.execPath, [script, dir], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  const [said] = (await once(createInterface({ input: child.stdout! }), "line")) as [string];
  return { child, said };
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

test("a second process is told who has the directory, and gets it the moment that one is killed", async () => {
  const first = await start();
  expect(first.said).toBe("open");
  const second = await start();
  expect(second.said).toContain(`is in use by process ${first.child.pid}:`);
  await kill(first.child);
  const third = await start();
  expect(third.said).toBe("open");
  const fourth = await start();
  expect(fourth.said).toContain(`is in use by process ${third.child.pid}:`);
});
