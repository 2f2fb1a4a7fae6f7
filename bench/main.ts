// Runs the benchmark suites. See README.md.

import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Children } from "./frame/children.ts";
import { describeMachine, type Machine } from "./frame/machine.ts";
import { type Options, readOptions, type SuiteName, USAGE } from "./frame/options.ts";
import { printHeader, printSuite, toJson } from "./frame/report.ts";
import type { Suite, SuiteOutcome } from "./frame/suite.ts";
import { ADMISSION_SUITE } from "./suites/admission.ts";
import { BACKLOG_SUITE } from "./suites/backlog.ts";
import { FANOUT_SUITE } from "./suites/fanout.ts";
import { JOBS_SUITE } from "./suites/jobs.ts";
import { LATENESS_SUITE } from "./suites/lateness.ts";
import { LISTS_SUITE } from "./suites/lists.ts";
import { LOCK_SUITE } from "./suites/lock.ts";
import { PARKED_SUITE } from "./suites/parked.ts";
import { POLICY_SUITE } from "./suites/policy.ts";
import { PROCESSES_SUITE } from "./suites/processes.ts";
import { ROLLOUT_SUITE } from "./suites/rollout.ts";
import { RUNS_SUITE } from "./suites/runs.ts";
import { SCHEDULES_SUITE } from "./suites/schedules.ts";
import { TIMERS_SUITE } from "./suites/timers.ts";

const SUITES: Readonly<Record<SuiteName, Suite>> = {
  jobs: JOBS_SUITE,
  processes: PROCESSES_SUITE,
  lock: LOCK_SUITE,
  backlog: BACKLOG_SUITE,
  parked: PARKED_SUITE,
  lateness: LATENESS_SUITE,
  timers: TIMERS_SUITE,
  schedules: SCHEDULES_SUITE,
  lists: LISTS_SUITE,
  policy: POLICY_SUITE,
  runs: RUNS_SUITE,
  admission: ADMISSION_SUITE,
  fanout: FANOUT_SUITE,
  rollout: ROLLOUT_SUITE,
};

await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<void> {
  let options: Options;
  try {
    options = readOptions(args);
  } catch (error) {
    logProgress(`${error instanceof Error ? error.message : error}\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  const machine = describeMachine();
  if (!options.isJson) printHeader(machine, options.isQuick);
  const outcomes = await measureAll(options);
  const document = toJson(machine, options.rounds, outcomes);
  if (options.isJson) console.log(JSON.stringify(document, null, 2));
  if (options.isSaved) await save(machine, document);
  if (outcomes.some(({ outcome }) => outcome.faults.length > 0)) process.exitCode = 1;
}

async function measureAll(options: Options): Promise<{ name: SuiteName; outcome: SuiteOutcome }[]> {
  const { rounds, isQuick } = options;
  const children = await Children.open(options.profileDir);
  const outcomes = [];
  try {
    for (const name of options.only) {
      const outcome = await SUITES[name].run({ children, rounds, isQuick, logProgress });
      if (!options.isJson) printSuite(SUITES[name], outcome);
      outcomes.push({ name, outcome });
    }
  } finally {
    await children.close();
  }
  return outcomes;
}

async function save(machine: Machine, document: unknown): Promise<void> {
  const folder = fileURLToPath(new URL("results/", import.meta.url));
  await mkdir(folder, { recursive: true });
  const file = `${folder}${machine.date.slice(0, 10)}-${machine.commit}.json`;
  await writeFile(file, `${JSON.stringify(document, null, 2)}\n`);
  logProgress(`saved as ${file}`);
}

function logProgress(line: string): void {
  process.stderr.write(`bench: ${line}\n`);
}
