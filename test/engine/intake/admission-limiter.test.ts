import { describe, expect, test } from "vitest";
import { AdmissionLimiter } from "../../../src/engine/intake/admission-limiter.ts";
import type { StartOutcome } from "../../../src/engine/intake/start-run.ts";
import type { RunLimitReached } from "../../../src/engine/runs/create-run.ts";

const FULL: RunLimitReached = { kind: "full", current: 2, limit: 2 };
const STARTED: StartOutcome = { kind: "started", runId: "r", state: "RUNNING" };

/** Starts whose answers are given by hand, in the order in which they began. */
function scene(widthMax: number, org = "acme") {
  const line = new AdmissionLimiter();
  const begun: { answer(outcome: StartOutcome): void; fail(error: Error): void }[] = [];
  const ask = () => line.run(org, widthMax, () => new Promise((answer, fail) => void begun.push({ answer, fail })));
  return { line, begun, ask };
}

/** Enough for whatever waits for nothing. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

describe("starts of one org", () => {
  test("go at once where there is room for all of them", async () => {
    const { begun, ask } = scene(10);
    const asked = Array.from({ length: 10 }, ask);
    expect(begun).toHaveLength(10);
    for (const { answer } of begun) answer(STARTED);
    expect(await Promise.all(asked)).toEqual(Array(10).fill(STARTED));
  });

  test("a crowd costs as many decisions as it takes to know that there is no room", async () => {
    const { begun, ask } = scene(2);
    const asked = Array.from({ length: 100 }, ask);
    expect(begun).toHaveLength(2);
    for (const { answer } of begun.splice(0)) answer(STARTED);
    await settle();
    expect(begun).toHaveLength(2);
    begun.shift()?.answer(FULL);
    const told = { kind: "told", full: FULL };
    begun.shift()?.answer(FULL);
    expect(await Promise.all(asked)).toEqual([STARTED, STARTED, FULL, FULL, ...Array(96).fill(told)]);
    expect(begun).toHaveLength(0);
  });

  test("who came after the one that was refused had begun finds out for itself", async () => {
    const { begun, ask } = scene(1);
    const first = ask();
    const later = ask();
    begun.shift()?.answer(FULL);
    expect(await first).toEqual(FULL);
    await settle();
    // A run may have ended before it asked.
    begun.shift()?.answer(STARTED);
    expect(await later).toEqual(STARTED);
  });

  test("a failure is told to nobody else, and makes nobody wait", async () => {
    const { begun, ask } = scene(1);
    const asked = [ask(), ask(), ask()].map((one) => one.catch((error: Error) => error.message));
    begun.shift()?.fail(new Error("the store is away"));
    await settle();
    expect(begun).toHaveLength(2);
    for (const { answer } of begun.splice(0)) answer(STARTED);
    expect(await Promise.all(asked)).toEqual(["the store is away", STARTED, STARTED]);
  });

  test("others are not waited for, and nothing is kept of a line that is over", async () => {
    const { line, begun, ask } = scene(1);
    const mine = ask();
    const others = line.run("other", 1, async () => STARTED);
    expect(await others).toEqual(STARTED);
    begun.shift()?.answer(FULL);
    await mine;
    const again = ask();
    begun.shift()?.answer(STARTED);
    expect(await again).toEqual(STARTED);
  });
});
