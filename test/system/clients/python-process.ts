/** Python programs that use `clients/python`. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { LineProcess } from "../line-process.ts";

const PYTHON = "python3";
export const PYTHON_CLIENT = join(import.meta.dirname, "..", "..", "..", "clients", "python");

export function requirePython(): void {
  if (spawnSync(PYTHON, ["--version"]).status === 0) return;
  throw new Error("`python3` is missing; install Python 3.9 or newer to test clients/python");
}

export class PythonProcess extends LineProcess {
  constructor(argv: readonly string[], env: Readonly<Record<string, string>>) {
    super({
      command: PYTHON,
      argv: ["-B", "-u", ...argv],
      cwd: PYTHON_CLIENT,
      env: { PYTHONPATH: join(PYTHON_CLIENT, "src"), ...env },
    });
  }
}
