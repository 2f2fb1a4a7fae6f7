/** Runs the tests of `clients/python` against an embedded control plane. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tokenHeader } from "../../cli/run.ts";
import { Program } from "../program.ts";
import { PythonProcess, requirePython } from "./python-process.ts";

const dir = mkdtempSync(join(tmpdir(), "cordum-python-"));
let program: Program;

beforeAll(async () => {
  requirePython();
  program = await Program.build();
});

afterAll(async () => {
  await program?.stop();
  rmSync(dir, { recursive: true, force: true });
});

test("the Python client and worker pass their tests on the embedded deployment", async () => {
  const waits = { CORDUM_DISPATCH_DEADLINE_MS: "2000", CORDUM_SWEEP_EVERY_MS: "100", CORDUM_LOG_LEVEL: "warn" };
  const url = await program.up(["--data", join(dir, "data"), "--port", "0"], waits).url;
  const { code, output } = await runTests({ CORDUM_URL: url, CORDUM_API_KEY: tokenHeader(url)["x-api-key"] ?? "" });
  expect(output).toMatch(/Ran \d+ tests/);
  expect(code, output).toBe(0);
});

function runTests(env: Readonly<Record<string, string>>) {
  return new PythonProcess(["-m", "unittest", "discover", "-s", "tests", "-v"], env).ended;
}
