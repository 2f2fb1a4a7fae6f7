// The short variant of `npm run outage`.
import { expect, test } from "vitest";
import type { Spread } from "../arrival-spread.ts";
import { outage } from "./outage.ts";

const QUICK = { CORDUM_SAFETY_BREAKER_OPEN_MS: "400", CORDUM_SWEEP_EVERY_MS: "200", CORDUM_SWEEP_HORIZON_MS: "400" };
const SMALL = { jobs: 400, outageMs: 4_000, controls: 2 } as const;
const policy = (text: string) => ({ ...QUICK, CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: text });
const overPoisson = ({ peakToMean, poisson }: Spread): number => peakToMean / poisson;

test("dispatches no job without the kernel, loses none, and spreads the checks after its restart", async () => {
  const spread = await outage({ ...SMALL, windowMs: 1_500, env: policy("full:1s:4s") });
  expect(spread).toMatchObject({ jobs: 400, duringOutage: 0, lost: [], twice: [] });
  const burst = await outage({ ...SMALL, windowMs: 3_000, env: policy("fixed:3s") });
  expect(burst).toMatchObject({ jobs: 400, duringOutage: 0, lost: [], twice: [] });
  // Compared with a fixed delay, because absolute values depend on the load of the machine.
  expect(overPoisson(spread.spread) * 1.5).toBeLessThan(overPoisson(burst.spread));
});

test("marks all jobs dispatched under a fail-open lease, and dispatches none after its end", async () => {
  const env = policy("full:200ms:2s");
  const report = await outage({ ...SMALL, jobs: 200, windowMs: 1_000, env, leaseMs: 2_500 });
  expect(report).toMatchObject({ jobs: 200, duringOutage: 100, unmarked: [], afterLease: [], lost: [], twice: [] });
});
