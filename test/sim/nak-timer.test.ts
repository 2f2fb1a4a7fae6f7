import { describe, expect, test } from "vitest";
import { NakTimer } from "../../src/sim/adapters/nak-timer.ts";
import { Timeline } from "../../src/sim/timeline.ts";

const LOOK_MS = 10;

function open() {
  const timeline = new Timeline();
  const given: string[] = [];
  const timer = new NakTimer<string>(timeline, (thing) => given.push(`${thing} at ${timeline.nowMs}`));
  const add = (thing: string, delayMs: number): void => timer.add(thing, delayMs, LOOK_MS);
  return { timeline, given, add };
}

describe("what is put off with one timer for all", () => {
  test("comes at the first look after it is due, and what is due together comes together", async () => {
    const { timeline, given, add } = open();
    add("soon", 1);
    add("later", 30);
    add("a little later", 30.5);
    await timeline.runUntil(1_000);
    expect(given).toEqual(["soon at 10", "later at 31", "a little later at 31"]);
  });

  test("does not come while more is put off, however long it has been due", async () => {
    const { timeline, given, add } = open();
    add("due", 30);
    for (let ms = 5; ms <= 200; ms += 5) timeline.postQuiet(ms, () => add(`other ${ms}`, 60_000));
    await timeline.runUntil(1_000);
    expect(given).toEqual(["due at 210"]);
  });

  test("is not held up by what is put off now and then", async () => {
    const { timeline, given, add } = open();
    add("due", 30);
    for (let ms = 20; ms <= 200; ms += 20) timeline.postQuiet(ms, () => add(`other ${ms}`, 60_000));
    await timeline.runUntil(1_000);
    expect(given).toEqual(["due at 30"]);
  });
});
