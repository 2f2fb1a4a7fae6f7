import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { startUp, type UpProcess } from "../run.ts";

/** Child processes of `cordum up`, stopped after each test, and a temporary directory per test. */
export class Ups {
  dir = "";
  #started: UpProcess[] = [];

  constructor(name: string) {
    beforeEach(() => {
      this.dir = mkdtempSync(join(tmpdir(), `cordum-${name}-`));
      this.#started = [];
    });
    afterEach(async () => {
      for (const { child, ended } of this.#started) {
        if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
        await ended;
      }
      rmSync(this.dir, { recursive: true, force: true });
    });
  }

  start(argv: readonly string[], env: Readonly<Record<string, string>> = {}): UpProcess {
    const process = startUp(argv, env);
    this.#started.push(process);
    return process;
  }
}
