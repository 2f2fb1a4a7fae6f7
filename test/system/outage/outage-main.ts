import { parseArgs } from "node:util";
import { type OutageOptions, type OutageReport, outage } from "./outage.ts";

// The long variant of the outage tests: see scripts/outage.mjs.
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: "string", default: "5000" },
    seconds: { type: "string", default: "60" },
    times: { type: "string", default: "3" },
  },
});
const times = Number(values.times);
if (!Number.isInteger(times) || times < 1) throw new Error(`--times \`${values.times}\`: give a positive integer`);
const outageMs = Number(values.seconds) * 1_000;
const log = (line: string) => process.stdout.write(`${line}\n`);
const base = { jobs: Number(values.jobs), outageMs, windowMs: 15_000, controls: 3, log };
const baseline = { CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: "fixed:5s" };

const cases: Readonly<Record<string, OutageOptions>> = {
  default: base,
  baseline: { ...base, env: baseline },
  lease: { ...base, leaseMs: outageMs / 2 },
};
/** The largest peak over that of a Poisson stream, for the default policy. */
const OVER_POISSON_MAX = 1.3;

let failures = 0;
const overPoisson: number[] = [];
const rows: string[][] = [];
for (const name of positionals.length > 0 ? positionals : Object.keys(cases)) {
  const options = cases[name];
  if (!options) throw new Error(`unknown case \`${name}\`; give one of ${Object.keys(cases).join(", ")}`);
  for (let time = 1; time <= (name === "default" ? times : 1); time++) {
    log(`${name}:`);
    const report = await outage(options);
    rows.push(rowOf(name, report));
    const { lost, twice, unmarked, afterLease, duringOutage, spread } = report;
    const wrong = [...lost, ...twice, ...unmarked, ...afterLease].length;
    if (wrong > 0 || (options.leaseMs === undefined && duringOutage > 0)) failures++;
    if (name === "default") overPoisson.push(spread.peakToMean / spread.poisson);
  }
}
const head = ["case", "jobs", "during outage", "unmarked", "after lease", "lost", "twice"];
const all = [
  [...head, "checks in 15 s", "bin ms", "peak", "peak:mean", "poisson", "over poisson", "stolen ms"],
  ...rows,
];
const widths = all[0]?.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0))) ?? [];
for (const row of all) log(row.map((cell, at) => cell.padStart(widths[at] ?? 0)).join("  "));
if (overPoisson.length > 0) {
  const worst = Math.max(...overPoisson);
  log(`default: at most ${short(worst)} × the peak of a Poisson stream; the limit is ${OVER_POISSON_MAX}`);
  if (worst > OVER_POISSON_MAX) failures++;
}
process.exit(failures === 0 ? 0 : 1);

function rowOf(name: string, report: OutageReport): string[] {
  const { jobs, duringOutage, unmarked, afterLease, lost, twice, spread } = report;
  const counts = [jobs, duringOutage, unmarked.length, afterLease.length, lost.length, twice.length, spread.arrivals];
  const { binMs, peak, peakToMean, poisson } = spread;
  const figures = [binMs.toFixed(0), String(peak), ...[peakToMean, poisson].map(short)];
  return [name, ...counts.map(String), ...figures, short(peakToMean / poisson), String(report.stolenMs)];
}

function short(figure: number): string {
  return figure.toFixed(2);
}
