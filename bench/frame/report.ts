import type { Machine } from "./machine.ts";
import { type Cell, spreadsOf } from "./series.ts";
import type { Column, Suite, SuiteOutcome } from "./suite.ts";

export function printHeader(machine: Machine, isQuick: boolean): void {
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  console.log(`commit ${machine.commit}, ${machine.date}`);
  console.log(`${machine.cores} × ${machine.cpu}, ${machine.memory_gb} GB, ${machine.os}`);
  console.log(versions.join(", "));
  console.log(
    `load average before the start: ${machine.load_before.toFixed(2)}; figures are medians of the rounds (min–max)`,
  );
  if (isQuick) console.log("QUICK: short measurements and small sizes; the figures are not meaningful");
}

export function printSuite(suite: Suite, outcome: SuiteOutcome): void {
  const rounds = Math.max(...outcome.series.cells().flatMap((cell) => [...cell.figures.values()].map((v) => v.length)));
  console.log(`\n${suite.title}; ${rounds} ${rounds === 1 ? "round" : "rounds"}`);
  for (const note of suite.notes) console.log(`  ${note}`);
  console.log();
  const head = ["", ...suite.columns.map((column) => column.title)];
  const rows = outcome.series.cells().map((cell) => [labelOf(cell), ...suite.columns.map((c) => shown(cell, c))]);
  for (const line of aligned([head, ...rows])) console.log(`  ${line}`);
  for (const { name, reason } of outcome.notRun ?? []) console.log(`  ${name}: not run: ${reason}`);
  console.log();
  for (const target of outcome.targets) {
    const mark = target.isReached ? "reached" : "MISSED ";
    console.log(`  ${mark}  ${target.text}: ${target.value.toFixed(2)}`);
  }
  for (const fault of outcome.faults) console.log(`  FAULT  ${fault}`);
}

export function toJson(
  machine: Machine,
  rounds: number,
  suites: readonly { readonly name: string; readonly outcome: SuiteOutcome }[],
): unknown {
  return {
    rounds,
    machine,
    results: suites.flatMap(({ name, outcome }) => outcome.series.cells().map((cell) => resultOf(name, cell))),
    targets: suites.flatMap(({ name, outcome }) =>
      outcome.targets.map(({ text, value, isReached }) => ({
        suite: name,
        target: text,
        value: rounded(value),
        reached: isReached,
      })),
    ),
    not_run: suites.flatMap(({ name, outcome }) => (outcome.notRun ?? []).map((peer) => ({ suite: name, ...peer }))),
    faults: suites.flatMap(({ outcome }) => outcome.faults),
  };
}

function resultOf(suite: string, cell: Cell): unknown {
  const spreads = [...spreadsOf(cell)];
  return {
    suite,
    name: cell.name,
    in_flight: cell.inFlight,
    ...Object.fromEntries(spreads.map(([key, { median }]) => [key, rounded(median)])),
    range: Object.fromEntries(spreads.map(([key, { min, max }]) => [key, [rounded(min), rounded(max)]])),
  };
}

function labelOf(cell: Cell): string {
  return cell.inFlight === null ? cell.name : `${cell.name}, ${cell.inFlight.toLocaleString("en")}`;
}

function shown(cell: Cell, { key, digits }: Column): string {
  const spread = spreadsOf(cell).get(key);
  if (!spread) return "–";
  const [median, min, max] = [spread.median, spread.min, spread.max].map((value) => withDigits(value, digits));
  return cell.figures.get(key)?.length === 1 ? `${median}` : `${median} (${min}–${max})`;
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row.map((text, i) => (i === 0 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0))).join("  "),
  );
}

function withDigits(value: number, digits: number): string {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Four significant digits; JSON has no NaN. */
function rounded(value: number): number | null {
  return Number.isFinite(value) ? Number(value.toPrecision(4)) : null;
}
