/** Compares the figures of the lab with the default settings. Each verdict can fail, and then recommends another value. */
import { SETTINGS } from "../config/table.ts";
import { figureAt, findRow, type Outcome, type RowKey, type Summary } from "./experiment.ts";
import { formatMs, formatNumber } from "./report/format.ts";

export interface Verdict {
  readonly setting: string;
  /** The default value. */
  readonly value: string;
  readonly isSupported: boolean;
  readonly reason: string;
}

/** Verdicts whose rows are missing are omitted. */
export function verdictsOf(outcomes: readonly Outcome[]): readonly Verdict[] {
  const rows: RowsOf = (experiment) => outcomes.find((outcome) => outcome.experiment === experiment)?.rows ?? [];
  return VERDICTS.flatMap((judge) => {
    const judged = judge(rows);
    if (judged === null) return [];
    const [setting, isSupported, reason] = judged;
    const found = SETTINGS.find(({ name }) => name === setting);
    if (found === undefined) throw new Error(`there is no setting \`${setting}\``);
    return { setting, value: String(found.default), isSupported, reason };
  });
}

/** The rows of the first outcome of an experiment. */
type RowsOf = (experiment: string) => readonly Summary[];

type Judged = readonly [setting: string, isSupported: boolean, reason: string] | null;

const VERDICTS: readonly ((rows: RowsOf) => Judged)[] = [
  lockBusyPolicy,
  coalesce,
  engineWait,
  deliveriesMax,
  strategy,
  pollPolicy,
  safetyPolicy,
  breaker,
];

function lockBusyPolicy(rows: RowsOf): Judged {
  const [baseline, bounded] = [lockRow(rows, "baseline"), lockRow(rows, BOUNDED)];
  if (baseline === undefined || bounded === undefined) return null;
  // Only names of retry policies have a colon.
  const policies = rows("lock-busy").filter(({ key }) => String(key.policy).includes(":"));
  const best = policies.reduce((least, row) => (at(row, "drain_ms") < at(least, "drain_ms") ? row : least), bounded);
  const isSupported = at(baseline, "drain_ms") > 10 * at(bounded, "drain_ms") && isNear(bounded, best, "drain_ms");
  const comparison =
    best === bounded
      ? "no retry policy is faster"
      : `fastest retry policy: \`${best.key.policy}\`, ${formatMs(at(best, "drain_ms"))}`;
  return [
    "retry.lock_busy.policy",
    isSupported,
    `drain time of ${formatNumber(at(bounded, "applied"))} results ${formatMs(at(bounded, "drain_ms"))}, baseline ` +
      `\`fixed:500ms\` ${formatMs(at(baseline, "drain_ms"))}; ${comparison}${isSupported ? "" : `; set \`${best.key.policy}\``}`,
  ];
}

function coalesce(rows: RowsOf): Judged {
  const [shipped, queue] = [lockRow(rows, "default"), lockRow(rows, "hand_over")];
  if (shipped === undefined || queue === undefined) return null;
  return [
    "run_lock.coalesce",
    at(shipped, "drain_ms") < at(queue, "drain_ms"),
    `${formatNumber(at(shipped, "commits"))} commits and drain time ${formatMs(at(shipped, "drain_ms"))}, without coalescing ` +
      `${formatNumber(at(queue, "commits"))} commits and ${formatMs(at(queue, "drain_ms"))}`,
  ];
}

function engineWait(rows: RowsOf): Judged {
  const [shipped, short, queue] = ["default", "hand_over_500ms", "hand_over"].map((row) => lockRow(rows, row));
  if (shipped === undefined || short === undefined || queue === undefined) return null;
  return [
    "run_lock.engine_wait_ms",
    at(shipped, "busy_retries") === 0,
    `${formatNumber(at(shipped, "busy_retries"))} waiters time out with coalescing. With \`run_lock.coalesce: false\` a wait of ` +
      `500 ms drains in ${formatNumber(at(short, "ratio"), 2)} × the ideal time, a wait of 60 s in ` +
      `${formatNumber(at(queue, "ratio"), 2)} ×: set it to the expected drain time`,
  ];
}

function deliveriesMax(rows: RowsOf): Judged {
  const [capped, bounded] = [lockRow(rows, "baseline_capped"), lockRow(rows, BOUNDED)];
  if (capped === undefined || bounded === undefined) return null;
  const [lost, all] = [at(capped, "dead_lettered"), at(capped, "dead_lettered") + at(capped, "applied")];
  return [
    "bus.max_deliver",
    at(bounded, "deliveries_max") < 50,
    `at most ${formatNumber(at(bounded, "deliveries_max"))} deliveries per result; with \`fixed:500ms\` the limit turns ` +
      `${formatNumber(lost)} of ${formatNumber(all)} valid results into dead letters`,
  ];
}

function strategy(rows: RowsOf): Judged {
  const grid = gridRows(rows);
  const contenders = Math.max(...grid.map(({ key }) => Number(key.contenders)));
  const [atomic, polled] = ["atomic", "fixed:10ms"].map((policy) => findRow(grid, { policy, contenders }));
  if (atomic === undefined || polled === undefined) return null;
  const isSupported = at(atomic, "share.503") === 0 && at(atomic, "request_ms.p95") < at(polled, "request_ms.p95");
  return [
    "admission.strategy",
    isSupported,
    `${formatNumber(contenders)} callers: ${formatNumber(at(atomic, "share.503"), 0)} % 503 responses and response time p95 ` +
      `${formatMs(at(atomic, "request_ms.p95"))}, with the polled lock ${formatNumber(at(polled, "share.503"), 0)} % and ` +
      `${formatMs(at(polled, "request_ms.p95"))}`,
  ];
}

function pollPolicy(rows: RowsOf): Judged {
  const grid = gridRows(rows);
  const contenders = Math.min(...grid.map(({ key }) => Number(key.contenders)));
  const [fixed, jittered] = ["fixed:10ms", "bounded:10ms:0.5"].map((policy) => findRow(grid, { policy, contenders }));
  if (fixed === undefined || jittered === undefined) return null;
  const isSupported = isNear(jittered, fixed, "request_ms.p95") && at(jittered, "share.503") <= at(fixed, "share.503");
  return [
    "admission.polled.policy",
    isSupported,
    `${formatNumber(contenders)} callers: peak of ${formatNumber(at(jittered, "arrivals.peak"))} lock attempts per bin and ` +
      `response time p95 ${formatMs(at(jittered, "request_ms.p95"))}, with \`fixed:10ms\` ` +
      `${formatNumber(at(fixed, "arrivals.peak"))} and ${formatMs(at(fixed, "request_ms.p95"))}` +
      (isSupported ? "" : "; set `fixed:10ms`"),
  ];
}

function safetyPolicy(rows: RowsOf): Judged {
  const find = (policy: string) => outageRow(rows, { load: "burst", breaker: "on", policy });
  const [full, capped] = [find("full:1s:30s"), find("capped_exponential:1s:30s:500ms")];
  if (full === undefined || capped === undefined) return null;
  const [fullRatio, cappedRatio] = [at(full, "arrivals.peak_to_mean"), at(capped, "arrivals.peak_to_mean")];
  return [
    "retry.safety_unavailable.policy",
    at(full, "arrivals.to_poisson") <= 1.3 && cappedRatio >= 5 * fullRatio,
    `peak-to-mean ratio of the retries after an outage ${formatNumber(fullRatio, 2)}, Poisson stream ` +
      `${formatNumber(at(full, "arrivals.poisson"), 2)}, capped exponential ${formatNumber(cappedRatio, 1)}`,
  ];
}

function breaker(rows: RowsOf): Judged {
  const find = (on: string) => outageRow(rows, { load: "steady", breaker: on, policy: "full:1s:30s" });
  const [on, off] = [find("on"), find("off")];
  if (on === undefined || off === undefined) return null;
  return [
    "safety.breaker.failures",
    at(on, "pressure.checks_per_s") < at(off, "pressure.checks_per_s"),
    `${formatNumber(at(on, "pressure.checks_per_s"), 2)} checks/s during an outage and first decision after ` +
      `${formatMs(at(on, "recovery_ms"))}, without the breaker ${formatNumber(at(off, "pressure.checks_per_s"), 2)} checks/s and ` +
      `${formatMs(at(off, "recovery_ms"))}`,
  ];
}

const lockRow = (rows: RowsOf, policy: string): Summary | undefined => findRow(rows("lock-busy"), { policy });

const outageRow = (rows: RowsOf, key: RowKey): Summary | undefined =>
  findRow(rows("safety-outage"), { ...key, mode: "closed" });

const gridRows = (rows: RowsOf): readonly Summary[] =>
  rows("admission").filter(({ key }) => key.part === "grid" && key.client === "none");

/** Within 25 %. */
function isNear(one: Summary, best: Summary, path: string): boolean {
  return at(one, path) <= 1.25 * at(best, path);
}

function at({ figures }: Summary, path: string): number {
  return figureAt(figures, path) ?? Number.NaN;
}

const BOUNDED = "bounded:500ms:0.3";
