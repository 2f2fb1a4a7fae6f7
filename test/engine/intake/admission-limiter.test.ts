import { describe, expect, test } from "vitest";
import { AdmissionLimiter } from "../../../src/engine/intake/admission-limiter.ts";
import type { StartOutcome } from "../../../src/engine/intake/start-run.ts";
import type { RunLimitReached } from "../../../src/engine/runs/run-limit.ts";

const FULL: RunLimitReached = { kind: "full", current: 2, limit: 2 };
const STARTED: StartOutcome = { kind: "started", runId: "r", state: "RUNNING" };

/** Starts whose outcomes the test settles by hand, in order. */
function openLimiter(widthMax: number, org = "acme") {
  const limiter = new AdmissionLimiter();
  const started: { answer(outcome: StartOutcome): void; fail(error: Error): void }[] = [];
  const start = () =>
    limiter.run(org, widthMax, () => new Promise((answer, fail) => void started.push({ answer, fail })));
  return { limiter, started, start };
}

/** Runs pending microtasks. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

describe("starts of one tenant", () => {
  test("run concurrently up to the width", async () => {
    const { started, start } = openLimiter(10);
    const results = Array.from({ length: 10 }, start);
    expect(started).toHaveLength(10);
    for (const { answer } of started) answer(STARTED);
    expect(await Promise.all(results)).toEqual(Array(10).fill(STARTED));
  });

  test("a burst takes only as many decisions as needed to see that the limit is reached", async () => {
    const { started, start } = openLimiter(2);
    const results = Array.from({ length: 100 }, start);
    expect(started).toHaveLength(2);
    for (const { answer } of started.splice(0)) answer(STARTED);
    await settle();
    expect(started).toHaveLength(2);
    started.shift()?.answer(FULL);
    const shared = { kind: "refused_with_another", full: FULL };
    started.shift()?.answer(FULL);
    expect(await Promise.all(results)).toEqual([STARTED, STARTED, FULL, FULL, ...Array(96).fill(shared)]);
    expect(started).toHaveLength(0);
  });

  test("a start that arrives after the refused one began is decided on its own", async () => {
    const { started, start } = openLimiter(1);
    const first = start();
    const later = start();
    started.shift()?.answer(FULL);
    expect(await first).toEqual(FULL);
    await settle();
    // A run may have ended in between.
    started.shift()?.answer(STARTED);
    expect(await later).toEqual(STARTED);
  });

  test("a failure is neither shared with nor delays the queued starts", async () => {
    const { started, start } = openLimiter(1);
    const results = [start(), start(), start()].map((one) => one.catch((error: Error) => error.message));
    started.shift()?.fail(new Error("store unavailable"));
    await settle();
    expect(started).toHaveLength(2);
    for (const { answer } of started.splice(0)) answer(STARTED);
    expect(await Promise.all(results)).toEqual(["store unavailable", STARTED, STARTED]);
  });

  test("tenants do not wait for each other, and an empty queue keeps no state", async () => {
    const { limiter, started, start } = openLimiter(1);
    const own = start();
    const other = limiter.run("other", 1, async () => STARTED);
    expect(await other).toEqual(STARTED);
    started.shift()?.answer(FULL);
    await own;
    const again = start();
    started.shift()?.answer(STARTED);
    expect(await again).toEqual(STARTED);
  });
});
