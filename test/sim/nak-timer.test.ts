import { describe, expect, test } from "vitest";
import { NakTimer } from "../../src/sim/adapters/consumer-group.ts";
import { Timeline } from "../../src/sim/timeline.ts";

const LOOK_MS = 10;

function open() {
  const timeline = new Timeline();
  const released: string[] = [];
  const timer = new NakTimer<string>(timeline, (item) => released.push(`${item} at ${timeline.nowMs}`));
  const add = (item: string, delayMs: number): void => timer.add(item, delayMs, LOOK_MS);
  return { timeline, released, add };
}

describe("shared redelivery timer", () => {
  test("releases entries when it fires after they are due, close due times together", async () => {
    const { timeline, released, add } = open();
    add("soon", 1);
    add("later", 30);
    add("slightly later", 30.5);
    await timeline.runUntil(1_000);
    expect(released).toEqual(["soon at 10", "later at 31", "slightly later at 31"]);
  });

  test("releases nothing while new entries keep resetting it", async () => {
    const { timeline, released, add } = open();
    add("due", 30);
    for (let ms = 5; ms <= 200; ms += 5) timeline.postQuiet(ms, () => add(`other ${ms}`, 60_000));
    await timeline.runUntil(1_000);
    expect(released).toEqual(["due at 210"]);
  });

  test("still releases due entries when new ones are rare", async () => {
    const { timeline, released, add } = open();
    add("due", 30);
    for (let ms = 20; ms <= 200; ms += 20) timeline.postQuiet(ms, () => add(`other ${ms}`, 60_000));
    await timeline.runUntil(1_000);
    expect(released).toEqual(["due at 30"]);
  });
});
