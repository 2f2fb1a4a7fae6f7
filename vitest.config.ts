// Three kinds of tests. `pure` needs nothing but this process. `servers` starts real NATS and Redis servers and real
// processes, so its files run one at a time, and after the others. `campaigns` starts them too, but mostly waits for faults,
// restarts and horizons, and asserts no durations below seconds: two of its files run at a time. A file that is not named under
// the other two is pure: none can fall between.

import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const NEEDS_SERVERS = [
  "test/contract/**/*.nats.test.ts",
  "test/contract/**/*.redis.test.ts",
  "test/security/**/*.redis.test.ts",
  "test/system/**/*.test.ts",
];

const CAMPAIGNS = ["damage", "faults", "governance", "kill", "outage", "rollouts"].map(
  (folder) => `test/system/${folder}/**/*.test.ts`,
);

/** Files that the caller leaves to `npm test`. */
const LEFT_OUT = (process.env.CORDUM_LEAVE_OUT ?? "").split(",").filter((file) => file !== "");

/** `npm run mutate` allows more: a slow test is not a failed one. */
const PURE_MS_MAX = Number(process.env.CORDUM_TEST_MS_MAX ?? 60_000);

const SETUP = ["test/property-seed.ts"];

/** The longest: begun last, one of them would keep one core busy alone at the end. */
const BEGUN_FIRST = ["sim/mutants", "sim/seeds", "cli/up/up", "cli/up/roles"].map((name) => `/test/${name}.test.ts`);

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const first = BEGUN_FIRST.flatMap((name) => sorted.filter(({ moduleId }) => moduleId.endsWith(name)));
    return [...first, ...sorted.filter((file) => !first.includes(file))];
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: "pure",
          setupFiles: SETUP,
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...NEEDS_SERVERS, ...LEFT_OUT],
          pool: "threads",
          isolate: false,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
          testTimeout: PURE_MS_MAX,
          hookTimeout: PURE_MS_MAX,
        },
      },
      {
        test: {
          name: "servers",
          setupFiles: SETUP,
          include: NEEDS_SERVERS,
          exclude: [...configDefaults.exclude, ...CAMPAIGNS],
          pool: "forks",
          fileParallelism: false,
          sequence: { groupOrder: 2 },
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: "campaigns",
          setupFiles: SETUP,
          include: CAMPAIGNS,
          pool: "forks",
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
          testTimeout: 240_000,
          hookTimeout: 240_000,
        },
      },
    ],
  },
});
