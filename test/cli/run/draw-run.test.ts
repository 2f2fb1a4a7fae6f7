import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  cellsOf,
  type DrawOptions,
  drawRun,
  formatElapsed,
  type PictureStep,
  type RunPicture,
} from "../../../src/cli/run/draw-run.ts";
import { topologicalOrder, transitiveReduction } from "../../../src/cli/run/run-graph.ts";
import { edgesIn } from "./read-picture.ts";

const LOOK: DrawOptions = { width: 80, height: null, color: false, unicode: true, nowMs: 13_000 };

function step(id: string, dependsOn: readonly string[], more: Partial<PictureStep> = {}): PictureStep {
  const nothing = { startedMs: null, endedMs: null, children: null, note: null, actions: [] };
  return { id, dependsOn, state: "PENDING", ...nothing, ...more };
}

function run(steps: readonly PictureStep[], more: Partial<RunPicture> = {}): RunPicture {
  const state = { state: "RUNNING", startedMs: 0, endedMs: null, error: null, waitsFor: null };
  return { runId: "r1", workflow: "photos v3", ...state, steps, ...more };
}

const PHOTOS = run([
  step("fetch", [], { state: "SUCCEEDED", startedMs: 0, endedMs: 1_200 }),
  step("resize", ["fetch"], {
    state: "RUNNING",
    startedMs: 1_200,
    children: { count: 10_000, succeeded: 1_237, failed: 3, cancelled: 0 },
  }),
  step("check", ["fetch"], { state: "SUCCEEDED", startedMs: 1_200, endedMs: 1_200, note: "→ then" }),
  step("report", ["fetch"]),
  step("publish", ["check"], {
    state: "RUNNING",
    startedMs: 2_000,
    note: "waits for a human",
    actions: ["cordum approval approve r1:publish@1", "cordum approval list"],
  }),
  step("apologise", ["check"], { state: "SKIPPED", note: "the arm was not chosen" }),
  step("tell", ["resize", "publish", "fetch"]),
  step("close", ["tell", "report"]),
]);

describe("picture", () => {
  test("shows the graph, times, counts and pending actions", () => {
    expect(drawRun(PHOTOS, LOOK)).toEqual([
      "run r1  photos v3  RUNNING  13 s  3 of 8 steps done",
      "✓        fetch      SUCCEEDED     1.2 s",
      "├─╮",
      "│ ●      resize     RUNNING        12 s  ▓░░░░░░░░░ 1,240/10,000  3 failed",
      "├─│─╮",
      "│ │ ✓    check      SUCCEEDED            → then",
      "│ │ │",
      "○ │ │    report     PENDING",
      "│ │ ├─╮",
      "│ │ │ ◆  publish    RUNNING        11 s  waits for a human",
      "│ │ │ │    cordum approval approve r1:publish@1",
      "│ │ │ │",
      "│ │ · │  apologise  SKIPPED              the arm was not chosen",
      "│ ├───╯",
      "│ ○      tell       PENDING",
      "├─╯",
      "○        close      PENDING",
    ]);
  });

  test("omits plain line rows on a short screen", () => {
    const lines = drawRun(PHOTOS, { ...LOOK, height: 15 });
    expect(lines.slice(5, 9)).toEqual([
      "│ │ ✓    check      SUCCEEDED            → then",
      "○ │ │    report     PENDING",
      "│ │ ├─╮",
      "│ │ │ ◆  publish    RUNNING        11 s  waits for a human",
    ]);
    expect(lines).toHaveLength(15);
  });

  test("shows the most relevant steps and counts of the others on a small screen", () => {
    expect(drawRun(PHOTOS, { ...LOOK, width: 44, height: 5, unicode: false })).toEqual([
      "run r1  photos v3  RUNNING  13 s  3 of 8 st~",
      "?  publish    RUNNING        11 s  waits fo~",
      "     cordum approval approve r1:publish@1",
      ">  resize     RUNNING        12 s  #.......~",
      "and 2 SUCCEEDED, 3 PENDING, 1 SKIPPED",
    ]);
  });

  test("shows a shorter command instead of a truncated one", () => {
    const lines = drawRun(PHOTOS, { ...LOOK, width: 36 });
    expect(lines).toContain("│ │ │ │    cordum approval list");
    expect(lines.join("\n")).not.toContain("approval approve");
  });

  test("shows the duration and error of an ended run", () => {
    const failed = { state: "FAILED", startedMs: 0, endedMs: 61_000, note: "no disk" };
    const end = { state: "FAILED", endedMs: 61_000, error: "step a failed: no disk" };
    expect(drawRun(run([step("a", [], failed), step("b", ["a"], { state: "CANCELLED" })], end), LOOK)).toEqual([
      "run r1  photos v3  FAILED  61 s  2 of 2 steps done",
      "✗  a  FAILED         61 s  no disk",
      "│",
      "■  b  CANCELLED",
      "error: step a failed: no disk",
    ]);
  });

  test("shows what the run waits for and the next command", () => {
    const waitsFor = "paused: no new steps start; cordum run resume r1";
    expect(drawRun(run([step("a", [])], { state: "PAUSED", waitsFor }), LOOK).at(-1)).toBe(waitsFor);
  });

  test("uses ASCII characters on an ASCII terminal", () => {
    const steps = [step("a", []), step("b", ["a"]), step("c", ["a"]), step("d", ["b", "c"])];
    const drawn = drawRun(run(steps), { ...LOOK, unicode: false }).slice(1);
    expect(drawn.map((line) => line.slice(0, 6).trimEnd())).toEqual(
      ["o    a", "+-+", "| o  b", "| |", "o |  c", "+-+", "o    d"].map((line) => line.trimEnd()),
    );
  });

  test("colors only on request, and escapes control characters", () => {
    const evil = step("a", [], { state: "FAILED", note: "\u001b[2Jgone\n" });
    const plain = drawRun(run([evil]), LOOK);
    expect(plain.join("\n")).not.toContain("\u001b");
    expect(plain[1]).toContain("\\u001b[2Jgone\\n");
    const [, colored = ""] = drawRun(run([evil]), { ...LOOK, color: true });
    expect(colored).toContain("\u001b[31m✗\u001b[0m");
    expect(uncolored(colored)).toBe(plain[1]);
  });
});

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [9_949, "9.9 s"],
  [9_950, "10 s"],
  [119_000, "119 s"],
  [125_000, "2 min 05 s"],
  [3 * 3_600_000 + 61_000, "3 h 01 min"],
  [75 * 3_600_000, "3 days 03 h"],
])("formats %d ms as %s", (ms, text) => expect(formatElapsed(ms)).toBe(text));

describe("any run", () => {
  const STATES = ["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "SKIPPED", "CANCELLED", "TIMEOUT", "DENIED"];
  const anyStep = (index: number) =>
    fc.record({
      deps: fc.uniqueArray(fc.nat(Math.max(0, index - 1)), { maxLength: index === 0 ? 0 : 4 }),
      state: fc.constantFrom(...STATES),
      note: fc.option(fc.string({ unit: "grapheme", maxLength: 120 })),
      count: fc.option(fc.nat(10_000)),
      asks: fc.boolean(),
    });
  const anyRun = (countMax: number) =>
    fc
      .integer({ min: 1, max: countMax })
      .chain((count) => fc.tuple(...Array.from({ length: count }, (_, index) => anyStep(index))))
      .chain((drafts) =>
        fc.shuffledSubarray([...drafts.keys()], { minLength: drafts.length }).map((order) => {
          const steps = drafts.map(({ deps, state, note, count, asks }, index) =>
            step(`s${index}`, index === 0 ? [] : deps.map((dep) => `s${dep}`), {
              state,
              note,
              children: count === null ? null : { count, succeeded: count >> 1, failed: count >> 3, cancelled: 0 },
              actions: asks ? ["cordum approval list"] : [],
            }),
          );
          return run(order.map((index) => steps[index] ?? step("none", [])));
        }),
      );

  test("the picture contains exactly the edges of the reduced graph", () => {
    fc.assert(
      fc.property(anyRun(14), (picture) => {
        const plain = picture.steps.map(({ id, dependsOn }) => step(id, dependsOn));
        const expected = [...transitiveReduction(topologicalOrder(picture.steps))].flatMap(([id, deps]) =>
          deps.map((dep) => `${dep} ${id}`),
        );
        const whole = drawRun({ ...picture, steps: plain }, { ...LOOK, width: 400 }).slice(1);
        expect(edgesIn(whole).sort()).toEqual(expected.sort());
        // Omitting plain rows keeps the edges.
        const short = drawRun({ ...picture, steps: plain }, { ...LOOK, width: 400, height: whole.length }).slice(1);
        if (short.some((line) => line.includes("○"))) expect(edgesIn(short).sort()).toEqual(expected.sort());
      }),
    );
  });

  test("every step has one row, and no line exceeds the width", () => {
    fc.assert(
      fc.property(anyRun(40), fc.integer({ min: 20, max: 120 }), fc.boolean(), (picture, width, color) => {
        const lines = drawRun(picture, { ...LOOK, width, color }).map(uncolored);
        const names = lines.flatMap((line) => /^[^\w]*(s\d+)(?= |$)/.exec(line)?.[1] ?? []);
        expect(names.sort()).toEqual(picture.steps.map(({ id }) => id).sort());
        for (const line of lines) expect(cellsOf(line)).toBeLessThanOrEqual(width);
      }),
    );
  });

  test("the number of lines never exceeds the height", () => {
    fc.assert(
      fc.property(anyRun(40), fc.integer({ min: 3, max: 60 }), (picture, height) => {
        expect(drawRun({ ...picture, error: "why", waitsFor: "what" }, { ...LOOK, height }).length).toBeLessThanOrEqual(
          height,
        );
      }),
    );
  });
});

test("L53: lists dependencies as text for 256 parallel steps", () => {
  const many = Array.from({ length: 254 }, (_, index) => step(`s${index}`, ["first"]));
  const last = step(
    "last",
    many.map(({ id }) => id),
  );
  const lines = drawRun(run([step("first", []), ...many, last]), LOOK);
  expect(lines).toHaveLength(257);
  expect(lines[2]).toBe("○  s0     PENDING              after first");
});

function uncolored(line: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: matches ANSI color codes.
  return line.replace(/\u001b\[\d*m/g, "");
}
