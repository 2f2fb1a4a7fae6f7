/** Charts and findings of `cordum lab replay`. */
import { figureAt, figureOf, findRow, type Outcome, type Summary } from "../experiment.ts";
import type { Chart } from "../report/chart.ts";
import { describePolicy, formatMs, formatNumber } from "../report/format.ts";
import { maxOf } from "../statistics.ts";

const RECORDED = "recorded";

export function replayCharts({ rows, params }: Outcome): readonly Chart[] {
  const binMs = Number(params.binMs);
  const longest = maxOf(rows.map(({ series }) => series.arrivals?.length ?? 0));
  return [
    {
      kind: "histograms",
      name: "arrivals",
      title: "Lock attempts over time, from the busiest second of the record",
      caption:
        `Attempts to acquire a lock per ${formatMs(binMs)}, of all locks. Peaks at regular intervals are synchronized ` +
        "retries. The row `recorded` has first attempts only.",
      binMs,
      what: "attempts",
      untilMs: Math.min(Math.max(SHOWN_MS_MIN, longest * binMs), SHOWN_MS_MAX),
      histograms: rows.map((row) => ({
        name: nameOf(row),
        counts: row.series.arrivals ?? [],
        note: noteOf(row),
        description: DESCRIPTIONS[nameOf(row)] ?? describePolicy(nameOf(row)),
      })),
    },
    {
      kind: "distribution",
      name: "latencies",
      title: "Result latency",
      caption:
        "Share of the results that are applied within a given time after their first attempt. A curve further to the left is " +
        "faster; a long flat end is a slow tail.",
      x: { label: "time from the first attempt of a result to its commit", unit: "ms", isLog: true },
      of: "results",
      samples: rows.map((row) => ({ name: nameOf(row), values: row.series.latencies_ms ?? [] })),
    },
  ];
}

export function replayFindings({ rows }: Outcome): readonly string[] {
  const findings: string[] = [];
  const recorded = findRow(rows, { policy: RECORDED });
  const inForce = findRow(rows, { policy: "in_force" });
  if (recorded && inForce) {
    findings.push(
      `Accuracy: replayed with the settings in force, lock wait p95 is ${ms(inForce, "wait_ms.p95")} ` +
        `(recorded ${ms(recorded, "wait_ms.p95")}) with ${count(inForce)} retries (recorded ${count(recorded)}).`,
    );
  }
  const [first, second] = rows.filter((row) => row !== recorded);
  if (first && second) {
    findings.push(
      `\`${nameOf(second)}\` instead of \`${nameOf(first)}\`: ${count(second)} retries instead of ${count(first)}, lock wait ` +
        `p95 ${ms(second, "wait_ms.p95")} instead of ${ms(first, "wait_ms.p95")}, result latency p95 ` +
        `${ms(second, "result_latency_ms.p95")} instead of ${ms(first, "result_latency_ms.p95")}.`,
    );
  }
  return findings;
}

/** The chart of arrivals for a terminal: one line per row, equal scales. */
export function waveText({ rows, params }: Outcome, width: number): string {
  const binMs = Number(params.binMs);
  const label = maxOf(rows.map((row) => nameOf(row).length));
  const columns = Math.max(COLUMNS_MIN, Math.min(width, WIDTH_MAX) - label - 2);
  const longest = maxOf(rows.map(({ series }) => series.arrivals?.length ?? 0));
  const bins = Math.min(longest, Math.ceil(SHOWN_MS_MAX / binMs));
  if (bins === 0) return "";
  const perColumn = Math.ceil(bins / columns);
  const waves = rows.map(({ series }) => peaks((series.arrivals ?? []).slice(0, bins), perColumn));
  const peak = maxOf(waves.flat());
  const lines = rows.map((row, at) => `${nameOf(row).padEnd(label)}  ${bars(waves[at] ?? [], peak)}`.trimEnd());
  const shownMs = Math.ceil(bins / perColumn) * perColumn * binMs;
  const title =
    `lock attempts per ${formatMs(binMs)}, ${formatMs(shownMs)} from the busiest second; ` +
    `a column is the peak of ${formatMs(perColumn * binMs)}, the highest is ${formatNumber(peak)}`;
  return `${title}\n${lines.join("\n")}\n`;
}

function peaks(counts: readonly number[], perColumn: number): readonly number[] {
  const columns = Math.ceil(counts.length / perColumn);
  return Array.from({ length: columns }, (_, at) => maxOf(counts.slice(at * perColumn, (at + 1) * perColumn)));
}

function bars(columns: readonly number[], peak: number): string {
  return columns.map((count) => (count === 0 ? " " : BARS[Math.ceil((count / peak) * BARS.length) - 1])).join("");
}

const nameOf = ({ key }: Summary): string => String(key.policy);
const ms = (row: Summary, path: string): string => formatMs(figureAt(row.figures, path) ?? 0);
const count = (row: Summary): string => formatNumber(figureOf(row, "busy_retries"), 0);

const noteOf = (row: Summary): string =>
  `${count(row)} retries, lock wait p95 ${ms(row, "wait_ms.p95")}, result latency p95 ${ms(row, "result_latency_ms.p95")}`;

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  [RECORDED]: "what happened; first attempts only",
  in_force: "the settings in force when the record ends",
  baseline: describePolicy("fixed:500ms"),
  hand_over: "waits in the lock queue",
  default: "the default settings",
};

const BARS = "▁▂▃▄▅▆▇█";
const COLUMNS_MIN = 20;
const WIDTH_MAX = 120;
const SHOWN_MS_MIN = 2_000;
const SHOWN_MS_MAX = 20_000;
