// A terminal changes color and progress only.

import { afterEach, describe, expect, test } from "vitest";
import { ProgressLine, processIo } from "../../src/cli/io.ts";
import { ioFor } from "./run.ts";

const NO_COLOR = process.env.NO_COLOR;
const wasTerminal = process.stderr.isTTY;
const makeTerminal = (isTTY: boolean) =>
  Object.defineProperty(process.stderr, "isTTY", { value: isTTY, configurable: true });

afterEach(() => {
  makeTerminal(wasTerminal);
  process.stdout.removeAllListeners("error");
  if (NO_COLOR === undefined) delete process.env.NO_COLOR;
  else process.env.NO_COLOR = NO_COLOR;
});

describe("color", () => {
  test.each([
    [true, undefined, true],
    [true, "", true],
    [true, "1", false],
    [false, undefined, false],
  ])("on a terminal: %s, NO_COLOR=%s: %s", (isTerminal, value, isColored) => {
    makeTerminal(isTerminal);
    if (value === undefined) delete process.env.NO_COLOR;
    else process.env.NO_COLOR = value;
    expect(processIo()).toMatchObject({ isInteractive: isTerminal, color: isColored });
  });
});

describe("progress", () => {
  const shownAfter = (ms: number, isInteractive: boolean): string => {
    let [nowMs, err] = [0, ""];
    const write = (text: string) => {
      err += text;
    };
    const line = new ProgressLine({ ...ioFor({}).io, isInteractive, nowMs: () => nowMs, err: write });
    nowMs = ms;
    line.show("half of it");
    line.clear();
    return err;
  };

  test("is shown on a terminal after a second and cleared at the end", () => {
    expect(shownAfter(1_000, true)).toBe(`\rhalf of it\r\r${" ".repeat(10)}\r`);
    expect(shownAfter(999, true)).toBe("");
    expect(shownAfter(60_000, false)).toBe("");
  });
});
