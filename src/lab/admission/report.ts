/** Charts and findings of `cordum lab admission`. */
import { figureOf, findRow, type Outcome, type Summary } from "../experiment.ts";
import type { Chart } from "../report/chart.ts";
import { formatMs, formatNumber } from "../report/format.ts";

/** The default of `admission.polled.policy`. */
export const DEFAULT_POLL = "bounded:10ms:0.5";
const BASELINE_POLL = "fixed:10ms";

export function admissionCharts(outcome: Outcome): readonly Chart[] {
  const grid = gridOf(outcome);
  if (grid.length === 0) return [];
  const [fewest, most] = [Math.min(...burstsOf(grid)), Math.max(...burstsOf(grid))];
  const shown = grid.filter(({ key }) => {
    return key.contenders === fewest && (key.client === "fixed" || key.client === "jittered");
  });
  const largest = grid.filter(({ key }) => key.contenders === most);
  const servers = largest.filter(({ key }) => key.client === largest[0]?.key.client);
  const clients = largest.filter(({ key }) => key.policy === largest[0]?.key.policy);
  return [
    ...(shown.length === 0 ? [] : [arrivalsChart(shown, outcome)]),
    {
      kind: "distribution",
      name: "requests",
      title: `Response times, ${formatNumber(most)} simultaneous requests`,
      caption:
        "Share of the requests that are answered within a given time. A curve further to the left is faster. Requests that " +
        "poll the admission lock end at the maximum wait of the server.",
      x: { label: "response time", unit: "ms", isLog: true },
      of: "requests",
      samples: servers.map(({ key, series }) => ({ name: String(key.policy), values: series.requests_ms ?? [] })),
    },
    {
      kind: "lines",
      name: "admitted",
      title: `Admitted callers over time, ${formatNumber(most)} callers`,
      caption:
        "Each step is an admitted caller. Clients that retry at the same time fill the slots once per interval, and the slots " +
        "are idle between their retries.",
      x: { label: "time since the burst", unit: "ms" },
      y: { label: "admitted callers", unit: "" },
      lines: clients.map(({ key, series }) => ({
        name: `client ${key.client}`,
        points: stepsOf(series.waits_ms ?? []),
      })),
    },
  ];
}

export function admissionFindings(outcome: Outcome): readonly string[] {
  const grid = gridOf(outcome);
  return [...serverFindings(grid), ...clientFindings(grid), ...sweepFindings(outcome)];
}

const gridOf = ({ rows }: Outcome): readonly Summary[] => rows.filter(({ key }) => key.part === "grid");

const burstsOf = (grid: readonly Summary[]): readonly number[] => [
  ...new Set(grid.map(({ key }) => Number(key.contenders))),
];

/** A cumulative count as points; `sorted` ascending. */
function stepsOf(sorted: readonly number[]): readonly (readonly [number, number])[] {
  return [
    [0, 0],
    ...sorted.flatMap((atMs, index): [number, number][] => [
      [atMs, index],
      [atMs, index + 1],
    ]),
  ];
}

function arrivalsChart(rows: readonly Summary[], { params }: Outcome): Chart {
  const binMs = Number(params.binMs);
  return {
    kind: "histograms",
    name: "arrivals",
    title: `Admission attempts over time, ${formatNumber(Number(rows[0]?.key.contenders ?? 0))} callers, 2 slots`,
    caption:
      `Attempts to take a slot or the admission lock per ${formatMs(binMs)}. Clients with a fixed delay retry in ` +
      "synchronized peaks, jittered clients as an even stream. A polled lock multiplies the attempts of each request.",
    binMs,
    what: "attempts",
    untilMs: Number(params.budgetMs),
    histograms: rows.map((row) => ({
      name: `${row.key.policy}, client ${row.key.client}`,
      counts: row.series.arrivals ?? [],
      note:
        `${formatNumber(figureOf(row, "asks"))} attempts, ` +
        `${formatNumber(figureOf(row, "admitted"))} callers admitted`,
      description: CLIENT_DESCRIPTIONS[String(row.key.client)] ?? "",
    })),
  };
}

const CLIENT_DESCRIPTIONS: Readonly<Record<string, string>> = {
  none: "rejected callers give up",
  fixed: "rejected callers retry after 1 s",
  jittered: "rejected callers retry with full jitter: full:250ms:4s",
  retry_after: "rejected callers retry after the time in Retry-After",
};

function serverFindings(grid: readonly Summary[]): readonly string[] {
  return burstsOf(grid).flatMap((contenders) => {
    const row = (policy: string) => findRow(grid, { policy, contenders, client: "none" });
    const [atomic, polled] = [row("atomic"), row(BASELINE_POLL) ?? row(DEFAULT_POLL)];
    if (atomic === undefined || polled === undefined) return [];
    const p95 = (one: Summary, path: string) => formatMs(figureOf(one, `${path}.p95`));
    return [
      `${formatNumber(contenders)} callers: response time p95 ${p95(atomic, "request_ms")} with \`atomic\`, ` +
        `${p95(polled, "request_ms")} with the polled lock, of which ${formatNumber(figureOf(polled, "share.503"), 0)} % are ` +
        `503. The other org has p95 ${p95(atomic, "other_ms")} and ${p95(polled, "other_ms")}; without the burst ` +
        `${p95(atomic, "other_alone_ms")} and ${p95(polled, "other_alone_ms")}.`,
    ];
  });
}

function clientFindings(grid: readonly Summary[]): readonly string[] {
  const contenders = Math.min(...burstsOf(grid));
  const admitted = (client: string) => {
    const row = findRow(grid, { policy: "atomic", contenders, client });
    return row === undefined ? null : formatNumber(figureOf(row, "admitted"));
  };
  const [fixed, jittered, retryAfter] = [admitted("fixed"), admitted("jittered"), admitted("retry_after")];
  if (fixed === null || jittered === null) return [];
  return [
    `Admitted of ${formatNumber(contenders)} callers: ${fixed} with a fixed retry delay, ${jittered} with full jitter` +
      `${retryAfter === null ? "" : `, ${retryAfter} with \`Retry-After\``}.`,
  ];
}

function sweepFindings({ rows }: Outcome): readonly string[] {
  const sweep = rows.filter(({ key }) => key.part === "sweep");
  const [first, last] = [sweep[0], sweep.at(-1)];
  if (first === undefined || last === undefined || first === last) return [];
  const described = (row: Summary) =>
    `server wait ${formatMs(Number(row.key.max_wait_ms))} and client budget ${formatMs(Number(row.key.budget_ms))} admit ` +
    `${formatNumber(figureOf(row, "admitted_share"), 0)} % with ${formatNumber(figureOf(row, "share.503"), 0)} % 503 responses`;
  return [`Sweep: ${described(first)}; ${described(last)}.`];
}
