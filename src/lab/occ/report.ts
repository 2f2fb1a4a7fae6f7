/** Rows, charts and findings of `cordum lab occ`, with the published figures. */
import { figureAt, figureOf, findRow, type Outcome } from "../experiment.ts";
import type { Chart, Line } from "../report/chart.ts";
import { describePolicy, formatMs, formatNumber, formatRatio } from "../report/format.ts";
import { median } from "../statistics.ts";

export const KNOWN_ROWS = {
  none: "retries at once",
  exponential: "a delay that doubles up to the cap, without jitter",
  equal: "half of the exponential delay is random",
  full: "uniform from 0 to the exponential delay",
  decorrelated: "uniform from the base to three times the previous delay",
  decorrelated_clipped: "as decorrelated, with delays clipped at the cap, as published",
} as const;

/** Means of 20 runs with 100 clients. */
export const PUBLISHED = {
  params: { baseMs: 5, capMs: 2_000, latencyMs: 10, latencyMsSd: 2 },
  clients: 100,
  rows: {
    none: { time_ms: 2_059, calls: 2_436 },
    exponential: { time_ms: 62_391, calls: 1_843 },
    equal: { time_ms: 6_671, calls: 813 },
    full: { time_ms: 4_925, calls: 794 },
    decorrelated: { time_ms: 4_621, calls: 1_017 },
    decorrelated_clipped: { time_ms: 4_621, calls: 1_017 },
  },
} as const;

export function occCharts(outcome: Outcome): readonly Chart[] {
  const clients = clientsShown(outcome);
  const shown = outcome.rows.filter(({ key }) => key.clients === clients);
  const binMs = Number(outcome.params.binMs);
  const isSweep = outcome.rows.some(({ key }) => key.clients !== clients);
  const descriptions: Readonly<Record<string, string>> = KNOWN_ROWS;
  return [
    {
      kind: "histograms",
      name: "arrivals",
      title: `Writes over time, ${clients} clients that update one row`,
      caption:
        `Writes that reach the server per ${formatMs(binMs)}. One of the writes in a peak succeeds, the others are conflicts. A ` +
        "high level or separate peaks are wasted writes; a low level that ends early is efficient.",
      binMs,
      what: "calls",
      untilMs: Math.max(1, 1.25 * median(shown.map((row) => figureOf(row, "time_ms")))),
      histograms: shown.map((row) => {
        const policy = String(row.key.policy);
        const calls = formatNumber(figureOf(row, "calls"), 0);
        return {
          name: policy,
          counts: row.series.arrivals ?? [],
          note: `${calls} calls, last client done after ${formatMs(figureOf(row, "time_ms"))}`,
          description: descriptions[policy] ?? describePolicy(policy),
        };
      }),
    },
    {
      kind: "distribution",
      name: "waits",
      title: `Time until a client is done, ${clients} clients`,
      caption:
        "Share of the clients whose update is accepted within a given time. A curve further to the left is faster.",
      x: { label: "time until the update of a client is accepted", unit: "ms", isLog: true },
      of: "clients",
      samples: shown.map(({ key, series }) => ({ name: String(key.policy), values: series.waits_ms ?? [] })),
    },
    ...(isSweep ? sweepCharts(outcome) : []),
  ];
}

export function occFindings(outcome: Outcome): readonly string[] {
  const clients = clientsShown(outcome);
  const find = (policy: string) => findRow(outcome.rows, { policy, clients });
  const [none, exponential, full] = [find("none"), find("exponential"), find("full")];
  const findings: string[] = [];
  if (none !== undefined && full !== undefined) {
    findings.push(
      `${clients} clients: retries without a delay make ${formatRatio(none, full, "calls")} as many calls as full jitter; ` +
        `full jitter takes ${formatRatio(full, none, "time_ms")} as long.`,
    );
  }
  if (exponential !== undefined && full !== undefined) {
    findings.push(
      `${clients} clients: exponential delays without jitter stay synchronized and take ` +
        `${formatRatio(exponential, full, "time_ms")} as long as full jitter.`,
    );
  }
  const { live, params } = outcome;
  const liveNote =
    `Live clients read and write a real record and add the network of the model (${formatNumber(Number(params.latencyMs))} ms ` +
    "one way) to every call.";
  return [...findings, ...publishedFindings(outcome), ...(live === undefined ? [] : [liveNote])];
}

/** 100, where the published figures are, else the maximum. */
function clientsShown({ rows }: Outcome): number {
  const all = rows.map(({ key }) => Number(key.clients));
  return all.includes(PUBLISHED.clients) ? PUBLISHED.clients : Math.max(...all);
}

function publishedFindings({ params, rows }: Outcome): readonly string[] {
  if (Object.entries(PUBLISHED.params).some(([name, value]) => params[name] !== value)) return [];
  return Object.entries(PUBLISHED.rows).flatMap(([policy, published]) => {
    const row = findRow(rows, { policy, clients: PUBLISHED.clients });
    if (row === undefined) return [];
    const compared = (name: "time_ms" | "calls", unit: string) => {
      const value = figureOf(row, name);
      const deviation = 100 * (value / published[name] - 1);
      const signed = `${deviation >= 0 ? "+" : ""}${formatNumber(deviation, 1)}`;
      return `${formatNumber(value, 0)} ${unit} (published ${formatNumber(published[name])}, ${signed} %)`;
    };
    const note = policy === "decorrelated" ? "; the published policy clips delays at the cap" : "";
    return [
      `${policy}, ${PUBLISHED.clients} clients: ${compared("time_ms", "ms")}, ${compared("calls", "calls")}${note}.`,
    ];
  });
}

function sweepCharts(outcome: Outcome): readonly Chart[] {
  const x = { label: "clients that update the row at the same time", unit: "" };
  return [
    {
      kind: "lines",
      name: "time",
      title: "Time until the last client is done",
      caption:
        "Exponential delays without jitter are the slowest, because all clients retry at the same time. The shaded area is the " +
        "range over the seeds.",
      x,
      y: { label: "time until the last client is done", unit: "ms", isLog: true },
      lines: linesOf(outcome, "time_ms"),
    },
    {
      kind: "lines",
      name: "calls",
      title: "Calls until all clients are done",
      caption: "Without a delay the calls grow with the square of the clients. Jittered delays keep them low.",
      x,
      y: { label: "calls", unit: "" },
      lines: linesOf(outcome, "calls"),
    },
  ];
}

function linesOf({ rows }: Outcome, path: string): readonly Line[] {
  return [...new Set(rows.map(({ key }) => String(key.policy)))].map((name) => {
    const own = rows.filter(({ key }) => key.policy === name);
    return {
      name,
      points: own.map((row) => [Number(row.key.clients), figureOf(row, path)]),
      spread: own.flatMap(({ key, spread }) => {
        if (spread === null) return [];
        const [low, high] = [figureAt(spread.min, path) ?? 0, figureAt(spread.max, path) ?? 0];
        return [[Number(key.clients), low, high] as const];
      }),
    };
  });
}
