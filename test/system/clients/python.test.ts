/** Runs the tests of `clients/python` against an embedded control plane. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tokenHeader } from "../../cli/run.ts";
import { Program } from "../program.ts";

const PYTHON = "python3";
const CLIENT = join(import.meta.dirname, "..", "..", "..", "clients", "python");
const dir = mkdtempSync(join(tmpdir(), "cordum-python-"));
let program: Program;

beforeAll(async () => {
  if (spawnSync(PYTHON, ["--version"]).status !== 0) {
    throw new Error("`python3` is missing; install Python 3.9 or newer to test clients/python");
  }
  program = await Program.build();
});

afterAll(async () => {
  await program?.remove();
  rmSync(dir, { recursive: true, force: true });
});

test("the Python client and worker pass their tests on the embedded deployment", async () => {
  const waits = { CORDUM_DISPATCH_DEADLINE_MS: "2000", CORDUM_SWEEP_EVERY_MS: "100", CORDUM_LOG_LEVEL: "warn" };
  const url = await program.up(["--data", join(dir, "data"), "--port", "0"], waits).url;
  const { code, output } = await runTests({ CORDUM_URL: url, CORDUM_API_KEY: tokenHeader(url)["x-api-key"] ?? "" });
  expect(output).toMatch(/Ran \d+ tests/);
  expect(code, output).toBe(0);
});

async function runTests(env: Readonly<Record<string, string>>) {
  const child = spawn(PYTHON, ["-B", "-m", "unittest", "discover", "-s", "tests", "-v"], {
    cwd: CLIENT,
    env: { ...process.env, PYTHONPATH: join(CLIENT, "src"), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const [code] = await once(child, "close");
  return { code: Number(code), output };
}
