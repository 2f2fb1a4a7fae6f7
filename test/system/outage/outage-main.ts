import { parseArgs } from "node:util";
import { type OutageOptions, type OutageReport, outage } from "./outage.ts";

// The long form of the outage tests: see scripts/outage.mjs.
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: "string", default: "5000" },
    seconds: { type: "string", default: "60" },
    times: { type: "string", default: "3" },
  },
});
const times = Number(values.times);
// None at all would pass without having tried anything.
if (!Number.isInteger(times) || times < 1)
  throw new Error(`--times \`${values.times}\`: give a whole number from 1 on`);
const outageMs = Number(values.seconds) * 1_000;
const say = (line: string) => process.stdout.write(`${line}\n`);
const base = { jobs: Number(values.jobs), outageMs, windowMs: 15_000, controls: 3, say };
const founding = { CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: "fixed:5s" };

const cases: Readonly<Record<string, OutageOptions>> = {
  default: base,
  founding: { ...base, env: founding },
  lease: { ...base, leaseMs: outageMs / 2 },
};
/** What the peak may be over that of a stream of chance, in each outage, where the policy is ours. */
const OVER_CHANCE_MAX = 1.3;

let failures = 0;
const overChance: number[] = [];
const rows: string[][] = [];
for (const name of positionals.length > 0 ? positionals : Object.keys(cases)) {
  const options = cases[name];
  if (!options) throw new Error(`unknown case \`${name}\`; one of ${Object.keys(cases).join(", ")}`);
  for (let time = 1; time <= (name === "default" ? times : 1); time++) {
    say(`${name}:`);
    const report = await outage(options);
    rows.push(rowOf(name, report));
    const { lost, twice, unmarked, afterLease, meanwhile, spread } = report;
    const wrong = [...lost, ...twice, ...unmarked, ...afterLease].length;
    if (wrong > 0 || (options.leaseMs === undefined && meanwhile > 0)) failures++;
    if (name === "default") overChance.push(spread.peakToMean / spread.poisson);
  }
}
const head = ["case", "jobs", "meanwhile", "unmarked", "after lease", "lost", "twice"];
const all = [[...head, "checks in 15 s", "bin ms", "peak", "peak:mean", "chance", "over chance", "stolen ms"], ...rows];
const widths = all[0]?.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0))) ?? [];
for (const row of all) say(row.map((cell, at) => cell.padStart(widths[at] ?? 0)).join("  "));
if (overChance.length > 0) {
  const worst = Math.max(...overChance);
  say(`default: over chance ${short(worst)} at the worst, at most ${OVER_CHANCE_MAX} is asked`);
  if (worst > OVER_CHANCE_MAX) failures++;
}
process.exit(failures === 0 ? 0 : 1);

function rowOf(name: string, report: OutageReport): string[] {
  const { jobs, meanwhile, unmarked, afterLease, lost, twice, spread } = report;
  const counts = [jobs, meanwhile, unmarked.length, afterLease.length, lost.length, twice.length, spread.arrivals];
  const { binMs, peak, peakToMean, poisson } = spread;
  const figures = [binMs.toFixed(0), String(peak), ...[peakToMean, poisson].map(short)];
  return [name, ...counts.map(String), ...figures, short(peakToMean / poisson), String(report.stolenMs)];
}

function short(figure: number): string {
  return figure.toFixed(2);
}
