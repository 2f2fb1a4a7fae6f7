// Runs several parts (types, lint, tests, …) and prints a summary.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { root, runTool } from "./run.mjs";

export class Parts {
  #rows = [];
  #tests = { passed: 0, failed: 0, skipped: [] };
  #notes = [];

  /** Runs one part; `work` returns true on success. Later parts run even if one fails. */
  async run(name, work) {
    const began = performance.now();
    let ok = false;
    try {
      ok = await work();
    } catch (error) {
      console.log(error instanceof Error ? error.message : String(error));
    }
    this.#rows.push({ name, ok, seconds: (performance.now() - began) / 1000 });
    return ok;
  }

  /** Buffers the output of a tool, so that tools can run concurrently. */
  runTool(name, tool, args) {
    return this.run(name, async () => {
      const { code, output } = await runTool(tool, args, { show: false });
      if (code !== 0) console.log(`\n--- ${name}\n${output.trimEnd()}`);
      return code === 0;
    });
  }

  /** Runs vitest and adds its counts to the summary. */
  runVitest(name, args, env) {
    return this.run(name, async () => {
      const folder = mkdtempSync(join(tmpdir(), "cordum-vitest-"));
      try {
        const file = join(folder, "report.json");
        const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
        const { code } = await runTool("vitest", ["run", "--allowOnly=false", ...reporters, ...args], { env });
        this.#count(readReport(file), code);
        return code === 0;
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  }

  /** Adds a note to the summary. */
  note(text) {
    this.#notes.push(text);
  }

  /** Prints the summary, with `N passed, N failed` on the last line, and sets the exit code. */
  finish() {
    const width = Math.max(...this.#rows.map((row) => row.name.length), 4);
    console.log(`\n${"part".padEnd(width)}  result  seconds`);
    for (const { name, ok, seconds } of this.#rows) {
      console.log(`${name.padEnd(width)}  ${ok ? "ok    " : "FAILED"}  ${seconds.toFixed(1).padStart(7)}`);
    }
    if (this.#tests.skipped.length > 0) {
      console.log(`\n${this.#tests.skipped.length} tests were skipped:`);
      for (const title of this.#tests.skipped) console.log(`  ${title}`);
    }
    for (const text of this.#notes) console.log(`\n${text}`);
    const failedParts = this.#rows.filter((row) => !row.ok && !row.name.startsWith("tests")).length;
    const failed = this.#tests.failed + failedParts;
    console.log(`\n${this.#tests.passed} passed, ${failed} failed`);
    if (failed > 0 || this.#rows.some((row) => !row.ok)) process.exitCode = 1;
  }

  #count(report, code) {
    const failedBefore = this.#tests.failed;
    for (const file of report?.testResults ?? []) {
      const tests = file.assertionResults;
      this.#tests.passed += tests.filter((test) => test.status === "passed").length;
      const failed = tests.filter((test) => test.status === "failed").length;
      // A file that failed to load has no tests and counts as one failure.
      this.#tests.failed += failed === 0 && file.status === "failed" ? 1 : failed;
      const skipped = tests.filter((test) => test.status !== "passed" && test.status !== "failed");
      this.#tests.skipped.push(...skipped.map((test) => `${relative(root, file.name)}: ${test.fullName}`));
    }
    // Unhandled errors, crashes and "no tests found" have no failed test.
    if (code !== 0 && this.#tests.failed === failedBefore) this.#tests.failed += 1;
  }
}

function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return null;
  }
}
