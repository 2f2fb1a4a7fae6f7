import { CHECKERS } from "../../sim/checks/violations.ts";
import { FAULT_PROFILES, type FaultProfile } from "../../sim/faults.ts";
import { MUTANTS, mutantNamed } from "../../sim/mutants/registry.ts";
import { type Report, simulate, type WorldMutation } from "../../sim/simulate.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { textTable } from "../table.ts";

export interface SimCommandOptions {
  readonly seed?: number;
  /** Number of seeds, starting at `seed`. */
  readonly seeds?: number;
  /** Jobs per seed. */
  readonly runs?: number;
  readonly faults?: string;
  readonly mutant?: string;
  /** The former name of `mutant`. */
  readonly plant?: string;
  readonly json?: boolean;
}

/** `write` receives lines or the JSON document, `show` the progress. */
export async function runSim(
  options: SimCommandOptions,
  write: (text: string) => void,
  show: (text: string) => void = () => {},
): Promise<ExitCode> {
  const { seed: first = 1, seeds = 1, runs = RUNS_DEFAULT, json = false } = options;
  const faults = profileNamed(options.faults);
  const mutantName = options.mutant ?? options.plant;
  const mutant = mutantName === undefined ? null : findMutant(mutantName);
  const cpuBefore = process.cpuUsage();
  const total: Total = { events: 0, jobs: 0, crashes: 0, virtualMs: 0, findings: [], hash: "" };
  for (let seed = first; seed < first + seeds; seed += 1) {
    show(`sim: ${seed - first} of ${seeds} seeds, ${total.findings.length} violations`);
    add(total, await simulate({ seed, runs, faults, mutant }));
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  const cpuMs = Math.round((user + system) / 1_000);
  const repeat = (seed: number): string =>
    `cordum sim --seed ${seed} --runs ${runs} --faults ${faults}${mutant === null ? "" : ` --mutant ${mutant.name}`}`;

  if (json) {
    const violations = total.findings.map((finding) => ({ ...finding, repeat: repeat(finding.seed) }));
    const { events, hash } = total;
    const document =
      options.seeds === undefined
        ? { seed: first, hash, events, cpu_ms: cpuMs, violations }
        : { seeds, events, cpu_ms: cpuMs, violations };
    write(`${JSON.stringify(document, null, 2)}\n`);
  } else {
    write(describe(total, { first, seeds, runs, faults, cpuMs }));
    write(describeFindings(total.findings, repeat));
  }
  return total.findings.length === 0 ? EXIT.ok : EXIT.error;
}

const RUNS_DEFAULT = 150;
const FINDINGS_SHOWN_MAX = 25;

interface Finding {
  readonly seed: number;
  readonly checker: keyof typeof CHECKERS;
  readonly id: string;
  readonly hint: string;
  readonly at_ms: number;
}

interface Total {
  events: number;
  jobs: number;
  crashes: number;
  virtualMs: number;
  hash: string;
  readonly findings: Finding[];
}

function add(total: Total, report: Report): void {
  total.events += report.events;
  total.crashes += report.crashes;
  total.virtualMs += report.virtualMs;
  total.hash = report.hash;
  for (const count of Object.values(report.jobs)) total.jobs += count;
  for (const { checker, id, hint, atMs } of report.violations) {
    total.findings.push({ seed: report.seed, checker, id, hint, at_ms: atMs });
  }
}

function describe(
  total: Total,
  figures: { first: number; seeds: number; runs: number; faults: FaultProfile; cpuMs: number },
): string {
  const { first, seeds, runs, faults, cpuMs } = figures;
  const perSecond = Math.round(total.events / Math.max(0.001, cpuMs / 1_000));
  const lines: [string, string][] = [
    ["seeds", seeds === 1 ? `${first} (hash ${total.hash})` : `${first} to ${first + seeds - 1}`],
    ["workload", `${runs} jobs per seed, faults ${faults}`],
    [
      "simulated",
      `${total.jobs} jobs, ${total.crashes} crashes, ${Math.round(total.virtualMs / 1_000)} virtual seconds`,
    ],
    ["events", `${total.events} in ${cpuMs} ms of CPU time, ${perSecond} per second`],
    ["violations", String(total.findings.length)],
  ];
  return lines.map(([key, text]) => `${key.padEnd(12)}${text}\n`).join("");
}

function describeFindings(findings: readonly Finding[], repeat: (seed: number) => string): string {
  const [first] = findings;
  if (first === undefined) return "";
  const shown = findings.slice(0, FINDINGS_SHOWN_MAX);
  const rows = shown.map(({ seed, checker, at_ms, id, hint }) => [String(seed), checker, String(at_ms), id, hint]);
  const names = [...new Set(shown.map(({ checker }) => checker))];
  const more = findings.length - shown.length;
  return [
    `\n${textTable(["SEED", "CHECKER", "AT MS", "ID", "DETAIL"], rows)}`,
    more > 0 ? `and ${more} more\n` : "",
    `\n${names.map((name) => `${name}: ${CHECKERS[name]}\n`).join("")}`,
    `\nto reproduce: ${repeat(first.seed)}\n`,
  ].join("");
}

function profileNamed(name = "swarm"): FaultProfile {
  const profile = FAULT_PROFILES.find((known) => known === name);
  if (profile !== undefined) return profile;
  throw new CliError(
    EXIT.usage,
    `unknown fault profile \`${name}\``,
    `cordum sim --faults ${FAULT_PROFILES.join("|")}`,
  );
}

function findMutant(name: string): WorldMutation {
  const mutant = mutantNamed(name);
  if (mutant !== undefined) return mutant;
  const names = MUTANTS.map((known) => known.name);
  throw new CliError(
    EXIT.usage,
    `mutant not found: \`${name}\`; known mutants: ${names.join(", ")}`,
    "cordum sim --help",
  );
}
