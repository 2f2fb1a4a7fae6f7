import { readFileSync } from "node:fs";
import { DEFAULT_POLICY, DEMO_POLICY } from "../policy/built-in.ts";
import { compile, type Snapshot } from "../policy/compile.ts";
import { readPolicy } from "../policy/document.ts";
import { CliError, EXIT } from "./exit.ts";

export interface LoadedPolicy {
  readonly snapshot: Snapshot;
  /** For operators: where it comes from. */
  readonly source: string;
}

export function loadPolicy(file: string | null, demo: boolean): LoadedPolicy {
  if (file === null) {
    return demo
      ? { snapshot: compile(DEMO_POLICY), source: "built-in for the demo: everything but `demo.forbidden`" }
      : { snapshot: compile(DEFAULT_POLICY), source: "built-in: everything for tenant `default`" };
  }
  const read = readPolicy({ name: file, text: readText(file) });
  if (read.kind === "ok") return { snapshot: compile(read.document), source: file };
  const problems = read.problems.map((problem) => `\n  ${problem}`).join("");
  throw new CliError(
    EXIT.usage,
    `the policy is wrong, so nothing was started:${problems}`,
    `cordum up --policy ${file}`,
    {
      problems: read.problems,
    },
  );
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.usage, `cannot read the policy \`${file}\`: ${why}`, "cordum up --policy FILE");
  }
}
