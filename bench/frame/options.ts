import { parseArgs } from "node:util";

export interface Options {
  readonly isJson: boolean;
  readonly isQuick: boolean;
  readonly isSaved: boolean;
  readonly rounds: number;
  readonly only: readonly SuiteName[];
  readonly profileDir: string | null;
}

export const SUITE_NAMES = [
  "jobs",
  "processes",
  "lock",
  "backlog",
  "parked",
  "lateness",
  "timers",
  "schedules",
  "lists",
  "policy",
  "runs",
  "admission",
  "fanout",
  "rollout",
] as const;
export type SuiteName = (typeof SUITE_NAMES)[number];

export const USAGE = `usage: npm run bench -- [--json] [--rounds N] [--only ${SUITE_NAMES.join(",")}] [--quick] [--save] [--profile DIR]
  --json         one JSON document on stdout instead of tables
  --rounds N     rounds of every measurement, interleaved (5; with --quick 2)
  --only A,B     these suites only
  --quick        smoke test: short measurements and small sizes, not for figures
  --save         also write bench/results/<date>-<commit>.json
  --profile DIR  write a CPU profile of every measuring process to DIR`;

/** Throws with the rejected option and the accepted values. */
export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      json: { type: "boolean", default: false },
      quick: { type: "boolean", default: false },
      save: { type: "boolean", default: false },
      rounds: { type: "string" },
      only: { type: "string" },
      profile: { type: "string" },
    },
  });
  const rounds = Number(values.rounds ?? (values.quick ? 2 : 5));
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`\`--rounds ${values.rounds}\`: give a whole number from 1`);
  const only = (values.only?.split(",") ?? SUITE_NAMES).map((name) => {
    const known = SUITE_NAMES.find((suite) => suite === name);
    if (!known) throw new Error(`\`--only ${name}\`: unknown suite; choose among ${SUITE_NAMES.join(", ")}`);
    return known;
  });
  return {
    isJson: values.json,
    isQuick: values.quick,
    isSaved: values.save,
    rounds,
    only,
    profileDir: values.profile ?? null,
  };
}
