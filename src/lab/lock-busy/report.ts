/** Charts and findings of `cordum lab lock-busy`. */
import { figureOf, findRow, type Outcome, type Summary } from "../experiment.ts";
import type { Chart } from "../report/chart.ts";
import { describePolicy, formatMs, formatNumber, formatRatio } from "../report/format.ts";
import { median } from "../statistics.ts";

export function lockBusyCharts({ rows, params }: Outcome): readonly Chart[] {
  const drainsMs = rows.map((row) => figureOf(row, "drain_ms")).filter((drainMs) => drainMs > 0);
  const binMs = Number(params.binMs);
  return [
    {
      kind: "histograms",
      name: "arrivals",
      title: `Lock attempts over time, ${formatNumber(Number(params.contenders))} simultaneous results`,
      caption:
        `Attempts to acquire the run lock per ${formatMs(binMs)}. Peaks at regular intervals are synchronized retries, of ` +
        "which one succeeds. A low, even level is a stream of jittered retries. A single peak at the start is the lock queue.",
      binMs,
      what: "attempts",
      untilMs: Math.max(SHOWN_MS_MIN, drainsMs.length === 0 ? 0 : 2 * median(drainsMs)),
      histograms: rows.map((row) => ({
        name: String(row.key.policy),
        counts: row.series.arrivals ?? [],
        note: noteOf(row),
        description: DESCRIPTIONS[String(row.key.policy)] ?? describePolicy(String(row.key.policy)),
      })),
    },
    {
      kind: "distribution",
      name: "waits",
      title: "Result latency",
      caption:
        "Share of the results that are applied within a given time after their first delivery. A curve further to the left " +
        "is faster; a long flat end is a slow tail.",
      x: { label: "time from the first delivery of a result to its commit", unit: "ms", isLog: true },
      of: "results",
      samples: rows.map(({ key, series }) => ({ name: String(key.policy), values: series.latencies_ms ?? [] })),
    },
  ];
}

export function lockBusyFindings({ rows, params }: Outcome): readonly string[] {
  const find = (policy: string): Summary | undefined => findRow(rows, { policy });
  const [baseline, bounded, shipped] = [find("baseline"), find(JITTER), find("default")];
  const [capped, queue, shortQueue] = [find("baseline_capped"), find("hand_over"), find("hand_over_500ms")];
  const findings: string[] = [];
  if (baseline && bounded) {
    findings.push(
      `Drain time: baseline (\`fixed:500ms\`) ${formatMs(figureOf(baseline, "drain_ms"))}, \`${JITTER}\` ` +
        `${formatMs(figureOf(bounded, "drain_ms"))}. The baseline takes ${formatRatio(baseline, bounded, "drain_ms")} as ` +
        `long and gets ${formatRatio(baseline, bounded, "busy_retries")} as many busy replies.`,
    );
  }
  if (capped) {
    findings.push(
      `With the baseline cap of 100 deliveries, ${formatNumber(figureOf(capped, "dead_lettered"))} of ` +
        `${formatNumber(Number(params.contenders))} valid results become dead letters.`,
    );
  }
  if (queue) {
    findings.push(
      `Lock queue: drain time ${formatNumber(figureOf(queue, "ratio"), 2)} × the ideal, ` +
        `${formatNumber(figureOf(queue, "attempts_per_acquisition"), 2)} attempts per acquisition.` +
        (shortQueue
          ? ` With a queue wait of 500 ms and retries, ${formatNumber(figureOf(shortQueue, "ratio"), 2)} × the ideal.`
          : ""),
    );
  }
  if (shipped) {
    findings.push(
      `Default settings: ${formatNumber(figureOf(shipped, "commits"))} commits for ` +
        `${formatNumber(figureOf(shipped, "applied"))} results, drain time ${formatMs(figureOf(shipped, "drain_ms"))}.`,
    );
  }
  return [...findings, ...jitterFindings(find)];
}

function jitterFindings(find: (policy: string) => Summary | undefined): readonly string[] {
  const [bounded, wide, full] = [find(JITTER), find("bounded:500ms:0.9"), find("full:2500ms:5s")];
  if (!bounded || !wide || !full) return [];
  const tail = (row: Summary): string =>
    `\`${row.key.policy}\` ${formatMs(figureOf(row, "result_latency_ms.p99"))} with ` +
    `${formatNumber(figureOf(row, "busy_retries"))} busy replies`;
  return [`Result latency p99 by jitter width: ${tail(bounded)}, ${tail(wide)}, ${tail(full)}.`];
}

function noteOf(row: Summary): string {
  const dead = figureOf(row, "dead_lettered");
  const lost = dead > 0 ? `, ${formatNumber(dead)} dead letters` : "";
  const busy = formatNumber(figureOf(row, "busy_retries"), 0);
  return `${busy} busy replies, drained after ${formatMs(figureOf(row, "drain_ms"))}${lost}`;
}

/** The rows that are not a retry policy. */
const DESCRIPTIONS: Readonly<Record<string, string>> = {
  baseline: describePolicy("fixed:500ms"),
  baseline_capped: `${describePolicy("fixed:500ms")}; a dead letter after 100 deliveries`,
  hand_over: "waits in the lock queue",
  hand_over_500ms: "waits in the lock queue for 500 ms, then retries",
  default: "results of one process share one place in the lock queue and one commit",
};

const JITTER = "bounded:500ms:0.3";
const SHOWN_MS_MIN = 2_000;
