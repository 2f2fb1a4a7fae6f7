/** Charts and findings of `cordum lab safety-outage`. */
import { figureAt, figureOf, findRow, type Outcome, type Summary } from "../experiment.ts";
import type { Band, Chart, Line } from "../report/chart.ts";
import { describePolicy, formatMs, formatNumber } from "../report/format.ts";

/** The default of `retry.safety_unavailable.policy`. */
export const DEFAULT_POLICY = "full:1s:30s";
const CAPPED_POLICY = "capped_exponential:1s:30s:500ms";
const BASELINE_POLICY = "fixed:5s";
/** Histograms start this long before the end of the outage. */
export const LEAD_MS = 30_000;

export function outageCharts(outcome: Outcome): readonly Chart[] {
  return [...arrivalCharts(outcome), ...lagCharts(outcome)];
}

export function outageFindings(outcome: Outcome): readonly string[] {
  const { live } = outcome;
  return [
    ...spreadFindings(outcome),
    ...breakerFindings(outcome),
    ...leaseFindings(outcome),
    ...(live === undefined ? [] : [LIVE_NOTE]),
  ];
}

const LIVE_NOTE =
  "Live rows have a burst load without a lease. The live kernel is a process behind gRPC that sleeps for the service time of " +
  "each check; checks sent in one batch are answered in one batch.";

function arrivalCharts({ rows, params }: Outcome): readonly Chart[] {
  const shown = rows.filter(
    ({ key }) =>
      key.load === "burst" && key.mode === "closed" && (key.breaker === "off" || key.policy === DEFAULT_POLICY),
  );
  if (shown.length === 0) return [];
  const leadMs = Math.min(LEAD_MS, Number(params.outageMs));
  const binMs = Number(params.binMs);
  return [
    {
      kind: "histograms",
      name: "arrivals",
      title: `Safety checks around the end of an outage, ${formatNumber(Number(params.contenders))} waiting jobs`,
      caption:
        `Checks that reach the kernel per ${formatMs(binMs)}. Retries with equal delays arrive as bursts, most of which time ` +
        "out at the recovered kernel. Jittered retries arrive as an even stream that the kernel can serve.",
      binMs,
      what: "checks",
      untilMs: leadMs + SHOWN_MS,
      bands: [{ from: 0, to: leadMs, label: "outage" }],
      histograms: shown.map((row) => ({
        name: `${row.key.policy}, breaker ${row.key.breaker}`,
        counts: row.series.arrivals ?? [],
        note: noteOf(row),
        description:
          row.key.breaker === "on"
            ? "the breaker passes a few probes during the outage"
            : describePolicy(String(row.key.policy)),
      })),
    },
  ];
}

function noteOf(row: Summary): string {
  const ratio = figureAt(row.figures, "arrivals.peak_to_mean");
  const drained = figureAt(row.figures, "drain_ms") === null ? "not drained" : `drained after ${drainText(row)}`;
  return ratio === null ? drained : `peak-to-mean ratio ${formatNumber(ratio, 1)}, ${drained}`;
}

function lagCharts({ rows, params }: Outcome): readonly Chart[] {
  const outageMs = Number(params.outageMs);
  const burstMs = Math.max(0, outageMs - Number(params.waitedMs));
  const chart = (load: string, fromMs: number, since: string, caption: string): readonly Chart[] => {
    const lines = rows
      .filter(({ key }) => key.load === load && (key.mode === "closed" || key.policy === DEFAULT_POLICY))
      .filter(({ key }) => key.breaker === "on" || key.policy === BASELINE_POLICY)
      .map((row) => lagLine(row, fromMs));
    if (lines.length === 0) return [];
    const bands: readonly Band[] = [{ from: 0, to: outageMs - fromMs, label: "outage" }];
    return [
      {
        kind: "lines",
        name: `lag-${load}`,
        title: `Waiting jobs, ${load} load`,
        caption,
        x: { label: `time since the ${since}`, unit: "ms" },
        y: { label: "waiting jobs", unit: "" },
        bands,
        lines,
      },
    ];
  };
  const steady =
    "The backlog grows during the outage. A fail-open lease empties it with unchecked jobs. After the outage each policy has its " +
    "own drain time.";
  const burst =
    "All jobs arrive at once and wait for the kernel. Steps are bursts of retries of which the kernel serves a part; a smooth " +
    "slope is an even stream of retries.";
  return [...chart("steady", 0, "start of the outage", steady), ...chart("burst", burstMs, "burst", burst)];
}

function lagLine({ key, series }: Summary, fromMs: number): Line {
  const { lag = [], lag_at_ms: at = [] } = series;
  const name = key.mode === "lease" ? `${key.policy}, lease` : `${key.policy}, breaker ${key.breaker}`;
  const points = lag.map((count, index): [number, number] => [(at[index] ?? 0) - fromMs, count]);
  return { name, points: points.filter(([sinceMs]) => sinceMs >= 0) };
}

function spreadFindings({ rows }: Outcome): readonly string[] {
  return ["off", "on"].flatMap((breaker) => {
    const row = (policy: string) => findRow(rows, { load: "burst", mode: "closed", policy, breaker });
    const [capped, full] = [row(CAPPED_POLICY), row(DEFAULT_POLICY)];
    const peak = (one: Summary | undefined) => one && figureAt(one.figures, "arrivals.peak_to_mean");
    const [cappedPeak, fullPeak] = [peak(capped), peak(full)];
    if (!cappedPeak || !fullPeak || capped === undefined || full === undefined) return [];
    return [
      `Burst load, breaker ${breaker}: peak-to-mean ratio of the retries ${formatNumber(fullPeak, 2)} with full jitter, ` +
        `${formatNumber(figureOf(full, "arrivals.poisson"), 2)} for a Poisson stream, ${formatNumber(cappedPeak, 1)} with the ` +
        `capped exponential (${formatNumber(cappedPeak / fullPeak, 1)} × full jitter). Drain time ${drainText(full)} with full ` +
        `jitter, ${drainText(capped)} with the capped exponential.`,
    ];
  });
}

function breakerFindings({ rows }: Outcome): readonly string[] {
  const checks = (row: Summary) => formatNumber(figureOf(row, "pressure.checks_per_s"), 2);
  const recovery = (row: Summary) => formatMs(figureOf(row, "recovery_ms"));
  return ["burst", "steady"].flatMap((load) => {
    const row = (breaker: string) => findRow(rows, { load, mode: "closed", policy: DEFAULT_POLICY, breaker });
    const [off, on] = [row("off"), row("on")];
    if (off === undefined || on === undefined) return [];
    return [
      `Breaker, ${load} load: ${checks(on)} checks/s reach the kernel during the outage, ${checks(off)} without the breaker. ` +
        `First decision after the outage: ${recovery(on)}, without ${recovery(off)}. Drain time: ${drainText(on)}, without ` +
        `${drainText(off)}.`,
    ];
  });
}

function leaseFindings({ rows }: Outcome): readonly string[] {
  const row = (mode: string) => findRow(rows, { load: "steady", mode, policy: DEFAULT_POLICY, breaker: "on" });
  const [closed, lease] = [row("closed"), row("lease")];
  if (closed === undefined || lease === undefined) return [];
  const wait = (one: Summary) => formatMs(figureOf(one, "wait_ms.p95"));
  return [
    `Fail-open lease: wait p95 ${wait(lease)}, without a lease ${wait(closed)}. ` +
      `${formatNumber(figureOf(lease, "bypassed"))} of ${formatNumber(figureOf(lease, "submitted"))} jobs are dispatched ` +
      "unchecked and labelled `safety_bypassed=true`.",
  ];
}

function drainText({ figures }: Summary): string {
  const drainMs = figureAt(figures, "drain_ms");
  return drainMs === null ? "more than 10 min" : formatMs(drainMs);
}

const SHOWN_MS = 90_000;
