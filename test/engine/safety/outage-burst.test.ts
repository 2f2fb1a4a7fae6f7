import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { spreadOf } from "../../system/arrival-spread.ts";
import { Harness } from "../harness.ts";

/** Thousands of jobs; runs only in `npm test` because it is slow. */
describe("jobs wait for a kernel that is unavailable for a minute", () => {
  test("5,000: none runs during the outage, all run afterwards", async () => {
    const { harness, during, handled } = await runOutage(defaultSettings(), "hangs", 5_000);
    expect(during).toMatchObject({ handled: 0, pending: 5_000 });
    expect(countOf(harness, "SUCCEEDED")).toBe(5_000);
    expect(handled()).toBe(5_000);
    // Without a breaker each job would be checked about five times.
    expect(during.calls).toBeLessThan(1_000);
  }, 120_000);

  test("checks after recovery are as spread as a Poisson stream, in each of five outages", async () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const { answered } = await runOutage(defaultSettings(), "hangs", 1_000, seed);
      const { peakToMean, poisson } = spreadOf(sinceRecovery(answered), 15_000);
      expect(peakToMean / poisson).toBeLessThanOrEqual(1.3);
    }
  }, 120_000);

  test("a fixed delay produces a burst that the measure detects", async () => {
    const { answered } = await runOutage(withPolicy("fixed:5s"), "refuses", 1_000);
    const { peakToMean, poisson } = spreadOf(sinceRecovery(answered), 15_000);
    expect(peakToMean).toBeGreaterThan(1.3 * poisson);
  }, 120_000);
});

const countOf = (harness: Harness, state: Job["state"]): number =>
  [...harness.sim.net.store.rows(JOBS)].filter(({ value }) => value.state === state).length;

function withPolicy(policy: string): Settings {
  const settings = defaultSettings();
  const { budget } = settings.retry.safety_unavailable;
  return { ...settings, retry: { ...settings.retry, safety_unavailable: { policy: parsePolicy(policy), budget } } };
}

/** Jobs on three processes during a kernel outage of one minute. */
async function runOutage(settings: Settings, health: "refuses" | "hangs", count: number, seed = 1) {
  const harness = new Harness(settings, seed);
  harness.kernel.health = health;
  const requests: { atMs: number; health: string }[] = [];
  harness.kernel.onRequest = () =>
    requests.push({ atMs: harness.sim.net.timeline.nowMs, health: harness.kernel.health });
  const { engine } = await harness.control("c1", "remote");
  for (const name of ["c2", "c3"]) await harness.control(name, "remote");
  let handled = 0;
  for (const worker of ["w1", "w2"]) await harness.worker(worker, ["demo.echo"], async () => handled++, 1_000);
  const submission = anySubmission();
  await harness.run(Promise.all(Array.from({ length: count }, () => admitJob(engine, submission))));
  await harness.pass(60_000);
  const during = { handled, pending: countOf(harness, "PENDING"), calls: requests.length };
  harness.kernel.health = "up";
  await harness.pass(60_000);
  const answered = requests.filter((request) => request.health === "up").map(({ atMs }) => atMs);
  return { harness, answered, during, handled: () => handled };
}

/** Checks after the first answered probe. */
function sinceRecovery(times: readonly number[]): readonly number[] {
  const fromMs = (times[0] ?? 0) + 10;
  return times.filter((atMs) => atMs >= fromMs);
}

function anySubmission() {
  const checked = checkSubmission({ topic: "demo.echo" });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}
