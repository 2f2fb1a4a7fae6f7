import { parseArgs } from "node:util";
import { campaign, WORLDS } from "./campaign.ts";

const CAMPAIGN_MINUTES_MAX = 5;

// The long variant of the fault tests: see scripts/faults.mjs.
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e6)) },
    faults: { type: "string" },
  },
});
const print = (line: string) => process.stdout.write(`${line}\n`);
const worlds = (positionals.length > 0 ? positionals : Object.keys(WORLDS)) as (keyof typeof WORLDS)[];
const unknown = worlds.find((world) => !(world in WORLDS));
if (unknown !== undefined)
  throw new Error(`unknown world \`${unknown}\`; give one of ${Object.keys(WORLDS).join(", ")}`);
const minutes = Number(values.minutes) / worlds.length;
const firstSeed = Number(values.seed);
// A campaign keeps all of its jobs: a long one would fill its disk. Each next one has the next seed.
const campaigns = Math.ceil(minutes / CAMPAIGN_MINUTES_MAX);
const forMs = (minutes * 60_000) / campaigns;
const all = worlds.flatMap((world) =>
  Array.from({ length: campaigns }, (_, index) => ({ world, seed: firstSeed + index })),
);

let problems = 0;
for (const { world, seed } of all) {
  const options = { world, seed, forMs, faults: values.faults?.split(",") ?? null, print };
  const { acknowledged, executions, lost, duplicated, silent, faults } = await campaign(options);
  const counts = Object.entries(faults).map(([name, count]) => `${count} ${name}`);
  print(`${world}: seed ${seed}, ${counts.join(", ")}`);
  print(`${world}: ${acknowledged} acknowledged, ${executions} executions`);
  print(`${world}: ${lost.length} lost, ${duplicated.length} duplicated, ${silent.length} silent`);
  for (const problem of [...lost, ...duplicated, ...silent].slice(0, 50)) print(`  ${problem}`);
  problems += lost.length + duplicated.length + silent.length;
}
process.exit(problems === 0 ? 0 : 1);
