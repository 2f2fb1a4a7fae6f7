import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Axis, Chart } from "../../src/lab/report/chart.ts";
import { drawChart } from "../../src/lab/report/draw.ts";
import { scaleFor } from "../../src/lab/report/scale.ts";
import { svgFile } from "../../src/lab/report/svg.ts";
import { pointsOf, readXml, textBox } from "./svg-reader.ts";

const figure = fc.oneof(
  fc.double({ min: 0, max: 1e7, noNaN: true }),
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.constant(0),
);
const name = fc.oneof(fc.constantFrom("full", "bounded:500ms:0.3", `<b>"&'`), fc.string({ maxLength: 60 }));
const axis: fc.Arbitrary<Axis> = fc.record({
  label: fc.constantFrom("time", "jobs"),
  unit: fc.constantFrom("ms", "", "%", "jobs/s"),
  isLog: fc.boolean(),
});
const captions = { name: fc.constant("it"), title: name, caption: name };
const band = fc
  .tuple(figure, figure, name)
  .map(([a, b, label]) => ({ from: Math.min(a, b), to: Math.max(a, b), label }));
const line = fc.record({
  name,
  points: fc.array(fc.tuple(figure, figure), { maxLength: 12 }),
  spread: fc.array(fc.tuple(figure, figure, figure), { maxLength: 5 }),
});
const chart: fc.Arbitrary<Chart> = fc.oneof(
  fc.record({
    kind: fc.constant("lines" as const),
    ...captions,
    x: axis,
    y: axis,
    lines: fc.array(line, { maxLength: 12 }),
    bands: fc.array(band, { maxLength: 2 }),
  }),
  fc.record({
    kind: fc.constant("distribution" as const),
    ...captions,
    x: axis,
    of: fc.constant("jobs"),
    samples: fc.array(fc.record({ name, values: fc.array(figure, { maxLength: 30 }) }), { maxLength: 10 }),
  }),
  fc.record({
    kind: fc.constant("histograms" as const),
    ...captions,
    binMs: fc.integer({ min: 1, max: 1_000 }),
    what: fc.constant("calls"),
    untilMs: fc.double({ min: 1, max: 1e6, noNaN: true }),
    histograms: fc.array(
      fc.record({ name, counts: fc.array(fc.nat(5_000_000), { maxLength: 40 }), note: name, description: name }),
      { maxLength: 10 },
    ),
    bands: fc.array(band, { maxLength: 1 }),
  }),
);

describe("drawChart", () => {
  it("draws well-formed SVG with finite coordinates and all texts inside the frame", () => {
    fc.assert(
      fc.property(chart, (one) => {
        const svg = svgFile(drawChart(one));
        expect(svg).not.toMatch(/NaN|Infinity|undefined/);
        const drawn = readXml(svg);
        const root = drawn[0]!;
        const [, , width = 0, height = 0] = (root.attributes.viewBox ?? "").split(" ").map(Number);
        expect([root.attributes.width, root.attributes.height]).toEqual([String(width), String(height)]);
        const isInside = (x: number, y: number) => x >= 0 && x <= width && y >= 0 && y <= height;
        expect(drawn.flatMap(pointsOf).filter(([x, y]) => !isInside(x, y))).toEqual([]);
        const texts = drawn.filter((element) => element.name === "text").map((text) => ({ ...text, ...textBox(text) }));
        expect(
          texts.filter(({ left, right, top, bottom }) => !isInside(left, top) || !isInside(right, bottom)),
        ).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  it("draws histograms without overlapping texts, with and without a band", () => {
    const histograms = ["short", "capped_exponential:1s:30s:500ms, breaker off"].map((name) => ({
      ...{ name, counts: [200, 0, 100], note: "peak-to-mean ratio 13.0, drained after 1.01 s" },
      description: "retries after 2 s to 2.5 s, random; later after 30 s",
    }));
    for (const bands of [[], [{ from: 0, to: 1_000, label: "outage" }]]) {
      const chart = { kind: "histograms", name: "it", title: "t", caption: "s", binMs: 50, what: "checks" } as const;
      const drawn = readXml(svgFile(drawChart({ ...chart, untilMs: 5_000, histograms, bands })));
      const texts = drawn.filter((element) => element.name === "text").map((text) => ({ ...text, ...textBox(text) }));
      expect(texts.map(({ text }) => text)).toEqual(expect.arrayContaining(bands.map(({ label }) => label)));
      const overlapping = texts.flatMap((one, at) =>
        texts.slice(at + 1).filter((other) => {
          const isSeparate = one.right <= other.left || other.right <= one.left;
          return !isSeparate && one.top < other.bottom - 1 && other.top < one.bottom - 1;
        }),
      );
      expect(overlapping).toEqual([]);
    }
  });

  it("draws line names without overlap", () => {
    const lines = Array.from({ length: 9 }, (_, index) => ({ name: `line ${index}`, points: [[1, 50]] as const }));
    const axes = { x: { label: "x", unit: "" }, y: { label: "y", unit: "" } };
    const drawn = readXml(svgFile(drawChart({ kind: "lines", name: "", title: "", caption: "", ...axes, lines })));
    const heights = drawn.filter(({ text }) => text.startsWith("line ")).map(({ attributes }) => Number(attributes.y));
    const gaps = heights.toSorted((a, b) => a - b).map((height, index, all) => height - (all[index - 1] ?? 0));
    expect(heights).toHaveLength(9);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(13);
  });
});

describe("scaleFor", () => {
  const span = { fromPx: 0, toPx: 100 };
  const marks = (axisOf: Axis, values: number[]) => scaleFor(axisOf, values, span).ticks.map(({ text }) => text);

  it("has ticks on round numbers with readable times", () => {
    expect(marks({ label: "", unit: "" }, [187])).toEqual(["0", "50", "100", "150", "200"]);
    expect(marks({ label: "", unit: "ms", isLog: true }, [350, 101_000])).toEqual(["1 s", "10 s", "100 s"]);
    expect(marks({ label: "", unit: "ms", isLog: true }, [20, 90])).toEqual(["20 ms", "50 ms", "100 ms"]);
    expect(marks({ label: "", unit: "ms" }, [1_500_000])).toEqual([
      "0",
      "5 min",
      "10 min",
      "15 min",
      "20 min",
      "25 min",
    ]);
  });

  it("is monotonic and clamps values outside of its range", () => {
    const values = fc.array(figure, { minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(axis, values, (one, all) => {
        const { toPx } = scaleFor(one, all, span);
        const places = all.toSorted((a, b) => a - b).map(toPx);
        expect(places.every((place) => place >= 0 && place <= 100)).toBe(true);
        expect(places).toEqual(places.toSorted((a, b) => a - b));
        expect(toPx(1e12)).toBe(100);
      }),
    );
  });
});
