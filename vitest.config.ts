// Five kinds of tests. `pure` needs nothing but this process. `processes` starts real processes, `servers` also real NATS and
// Redis servers, and `campaigns` mostly wait for faults, restarts and horizons. They assert no durations below seconds and wait more than
// they compute: four of their files run at a time. `timed` compares durations with predictions, so its files run one at a time and
// last. A file that is not named under another kind is pure: none can fall between.

import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const PROCESSES = ["test/cli/up/**/*.test.ts", "test/security/startup-token.test.ts"];

const NEEDS_SERVERS = [
  "test/contract/**/*.nats.test.ts",
  "test/contract/**/*.redis.test.ts",
  "test/security/**/*.redis.test.ts",
  "test/system/**/*.test.ts",
  "test/dashboard/*.test.ts",
  "test/dashboard/change/*.test.ts",
  "test/dashboard/timed/*.test.ts",
];

const CAMPAIGNS = [
  ...["damage", "faults", "governance", "kill", "outage", "rollouts"].map((name) => `test/system/${name}/**/*.test.ts`),
  // A browser and a control plane each.
  "test/dashboard/*.test.ts",
  "test/dashboard/change/*.test.ts",
];

const TIMED = ["test/system/lab/**/*.test.ts", "test/dashboard/timed/*.test.ts"];

/** Files that the caller leaves to `npm test`. */
const LEFT_OUT = (process.env.CORDUM_LEAVE_OUT ?? "").split(",").filter((file) => file !== "");

/** `npm run mutate` allows more: a slow test is not a failed one. */
const PURE_MS_MAX = Number(process.env.CORDUM_TEST_MS_MAX ?? 60_000);

const SETUP = ["test/property-seed.ts"];

/** The longest: begun last, one of them would keep one core busy alone at the end. */
const BEGUN_FIRST = [
  "sim/mutants",
  "sim/seeds",
  "system/kill/kill-workflow",
  "system/kill/kill-compensation",
  "system/damage/damage-embedded",
  "system/rollouts/rollout-live",
  "system/faults/faults",
  "system/governance/governance",
  "dashboard/pages",
].map((name) => `/test/${name}.test.ts`);

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const first = BEGUN_FIRST.flatMap((name) => sorted.filter(({ moduleId }) => moduleId.endsWith(name)));
    return [...first, ...sorted.filter((file) => !first.includes(file))];
  }
}

const withProcesses = (name: string, timeoutMs: number) => ({
  name,
  setupFiles: SETUP,
  pool: "forks" as const,
  maxWorkers: 4,
  sequence: { groupOrder: 2 },
  testTimeout: timeoutMs,
  hookTimeout: timeoutMs,
});

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: "pure",
          setupFiles: SETUP,
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...PROCESSES, ...NEEDS_SERVERS, ...LEFT_OUT],
          pool: "threads",
          isolate: false,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
          testTimeout: PURE_MS_MAX,
          hookTimeout: PURE_MS_MAX,
        },
      },
      { test: { ...withProcesses("processes", 120_000), include: PROCESSES } },
      {
        test: {
          ...withProcesses("servers", 120_000),
          include: NEEDS_SERVERS,
          exclude: [...configDefaults.exclude, ...CAMPAIGNS, ...TIMED],
        },
      },
      {
        test: {
          ...withProcesses("campaigns", 240_000),
          include: CAMPAIGNS,
          exclude: [...configDefaults.exclude, ...TIMED],
        },
      },
      {
        test: {
          ...withProcesses("timed", 120_000),
          include: TIMED,
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
