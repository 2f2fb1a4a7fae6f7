// The small form of `npm run outage`: a few hundred jobs, a kernel that is away for a few seconds.
import { expect, test } from "vitest";
import type { Spread } from "../arrival-spread.ts";
import { outage } from "./outage.ts";

const QUICK = { CORDUM_SAFETY_BREAKER_OPEN_MS: "400", CORDUM_SWEEP_EVERY_MS: "200", CORDUM_SWEEP_HORIZON_MS: "400" };
const SMALL = { jobs: 400, outageMs: 4_000, controls: 2 } as const;
const policy = (text: string) => ({ ...QUICK, CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: text });
const overChance = ({ peakToMean, poisson }: Spread): number => peakToMean / poisson;

test("kill -9 of the safety kernel while jobs wait: none goes meanwhile, none is lost, and they do not come back as a wave", async () => {
  const spread = await outage({ ...SMALL, windowMs: 1_500, env: policy("full:1s:4s") });
  expect(spread).toMatchObject({ jobs: 400, meanwhile: 0, lost: [], twice: [] });
  const wave = await outage({ ...SMALL, windowMs: 3_000, env: policy("fixed:3s") });
  expect(wave).toMatchObject({ jobs: 400, meanwhile: 0, lost: [], twice: [] });
  // How near to chance it is shows in the simulator; here, on a machine that does other things too, one beside the other.
  expect(overChance(spread.spread) * 1.5).toBeLessThan(overChance(wave.spread));
});

test("under a lease each that goes is marked, and none goes that came after its end", async () => {
  const env = policy("full:200ms:2s");
  const report = await outage({ ...SMALL, jobs: 200, windowMs: 1_000, env, leaseMs: 2_500 });
  expect(report).toMatchObject({ jobs: 200, meanwhile: 100, unmarked: [], afterLease: [], lost: [], twice: [] });
});
