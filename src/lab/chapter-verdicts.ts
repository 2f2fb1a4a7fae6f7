/**
 * What the figures of the lab say about the shipped defaults. Each verdict is a comparison that can come out the other way:
 * then it says so, and what to set instead.
 */
import { SETTINGS } from "../config/table.ts";
import { figureAt, type Outcome, type Summary } from "./experiment.ts";
import { formatMs, formatNumber } from "./report/numbers.ts";

export interface Verdict {
  readonly setting: string;
  /** The shipped default. */
  readonly value: string;
  readonly isSupported: boolean;
  readonly reason: string;
}

/** Those that the rows at hand can decide. */
export function verdictsOf(outcomes: readonly Outcome[]): readonly Verdict[] {
  const book = new Book(outcomes);
  return [lockBusyPolicy, coalesce, engineWait, deliveriesMax, strategy, pollPolicy, safetyPolicy, breaker].flatMap(
    (judge) => {
      const verdict = judge(book);
      if (verdict === null) return [];
      const [setting, isSupported, why] = verdict;
      const found = SETTINGS.find(({ name }) => name === setting);
      if (found === undefined) throw new Error(`there is no setting \`${setting}\``);
      return { setting, value: String(found.default), isSupported, reason: why };
    },
  );
}

type Judged = readonly [setting: string, isSupported: boolean, why: string] | null;

/** Rows by what they are; the first experiment of a name counts. */
class Book {
  readonly #outcomes: readonly Outcome[];

  constructor(outcomes: readonly Outcome[]) {
    this.#outcomes = outcomes;
  }

  rows(experiment: string): readonly Summary[] {
    return this.#outcomes.find((outcome) => outcome.experiment === experiment)?.rows ?? [];
  }

  row(experiment: string, key: Readonly<Record<string, string | number>>): Summary | null {
    const isSame = (row: Summary): boolean => Object.entries(key).every(([name, value]) => row.key[name] === value);
    return this.rows(experiment).find(isSame) ?? null;
  }
}

function lockBusyPolicy(book: Book): Judged {
  const [founding, bounded] = [lockRow(book, "founding"), lockRow(book, BOUNDED)];
  if (founding === null || bounded === null) return null;
  // A retry policy is a row whose name is one: `kind:…`.
  const others = book.rows("lock-busy").filter(({ key }) => String(key.policy).includes(":"));
  const best = others.reduce((least, row) => (at(row, "drain_ms") < at(least, "drain_ms") ? row : least), bounded);
  const isFine = at(founding, "drain_ms") > 10 * at(bounded, "drain_ms") && isNear(bounded, best, "drain_ms");
  const beside =
    best === bounded
      ? "no retry policy is faster"
      : `the fastest retry policy, \`${best.key.policy}\`, takes ${formatMs(at(best, "drain_ms"))}`;
  const proposal = isFine ? "" : `; set \`${best.key.policy}\``;
  return [
    "retry.lock_busy.policy",
    isFine,
    `the last of ${formatNumber(at(bounded, "applied"))} results is in after ${formatMs(at(bounded, "drain_ms"))} instead of ` +
      `${formatMs(at(founding, "drain_ms"))} with \`fixed:500ms\`; ${beside}${proposal}`,
  ];
}

function coalesce(book: Book): Judged {
  const [shipped, queue] = [lockRow(book, "default"), lockRow(book, "hand_over")];
  if (shipped === null || queue === null) return null;
  return [
    "run_lock.coalesce",
    at(shipped, "drain_ms") < at(queue, "drain_ms"),
    `results that meet share a turn: ${formatNumber(at(shipped, "commits"))} commits instead of ${formatNumber(at(queue, "commits"))}, all ` +
      `in after ${formatMs(at(shipped, "drain_ms"))} instead of ${formatMs(at(queue, "drain_ms"))}`,
  ];
}

function engineWait(book: Book): Judged {
  const [shipped, hasty, queue] = [
    lockRow(book, "default"),
    lockRow(book, "hand_over_500ms"),
    lockRow(book, "hand_over"),
  ];
  if (shipped === null || hasty === null || queue === null) return null;
  return [
    "run_lock.engine_wait_ms",
    at(shipped, "busy_retries") === 0,
    `with shared turns ${formatNumber(at(shipped, "busy_retries"))} waiters give up before it is their turn. With ` +
      `\`run_lock.coalesce: false\` it is too short for a crowd (${formatNumber(at(hasty, "ratio"), 2)} × the ideal, ` +
      `${formatNumber(at(queue, "ratio"), 2)} × for those who wait on): then set it to as long as the crowd takes`,
  ];
}

function deliveriesMax(book: Book): Judged {
  const [capped, bounded] = [lockRow(book, "founding_capped"), lockRow(book, BOUNDED)];
  if (capped === null || bounded === null) return null;
  const [lost, all] = [at(capped, "dead_lettered"), at(capped, "dead_lettered") + at(capped, "applied")];
  return [
    "bus.max_deliver",
    at(bounded, "deliveries_max") < 50,
    `no result needs more than ${formatNumber(at(bounded, "deliveries_max"))} deliveries; with \`fixed:500ms\` it makes dead ` +
      `letters of ${formatNumber(lost)} of ${formatNumber(all)} results that nothing was wrong with`,
  ];
}

function strategy(book: Book): Judged {
  const rows = book.rows("admission").filter(({ key }) => key.part === "grid" && key.client === "none");
  const most = Math.max(...rows.map(({ key }) => Number(key.contenders)));
  const find = (policy: string) => rows.find(({ key }) => key.policy === policy && key.contenders === most);
  const [atomic, polled] = [find("atomic"), find("fixed:10ms")];
  if (atomic === undefined || polled === undefined) return null;
  const isFine = at(atomic, "share.503") === 0 && at(atomic, "request_ms.p95") < at(polled, "request_ms.p95");
  return [
    "admission.strategy",
    isFine,
    `of ${formatNumber(most)} callers at once ${formatNumber(at(atomic, "share.503"), 0)} % are told 503, and ` +
      `${formatNumber(at(polled, "share.503"), 0)} % behind the polled lock; an answer takes ` +
      `${formatMs(at(atomic, "request_ms.p95"))} (p95) instead of ${formatMs(at(polled, "request_ms.p95"))}`,
  ];
}

function pollPolicy(book: Book): Judged {
  const rows = book.rows("admission").filter(({ key }) => key.part === "grid" && key.client === "none");
  const few = Math.min(...rows.map(({ key }) => Number(key.contenders)));
  const find = (policy: string) => rows.find(({ key }) => key.policy === policy && key.contenders === few);
  const [fixed, jittered] = [find("fixed:10ms"), find("bounded:10ms:0.5")];
  if (fixed === undefined || jittered === undefined) return null;
  const isFine = isNear(jittered, fixed, "request_ms.p95") && at(jittered, "share.503") <= at(fixed, "share.503");
  return [
    "admission.polled.policy",
    isFine,
    `${formatNumber(few)} callers at once ask for the lock ${formatNumber(at(jittered, "arrivals.peak"))} times in the fullest bin and ` +
      `${formatNumber(at(fixed, "arrivals.peak"))} times with \`fixed:10ms\`; an answer takes ` +
      `${formatMs(at(jittered, "request_ms.p95"))} and ${formatMs(at(fixed, "request_ms.p95"))} (p95)` +
      (isFine ? "" : "; set `fixed:10ms`"),
  ];
}

function safetyPolicy(book: Book): Judged {
  const find = (policy: string) => book.row("safety-outage", { load: "burst", mode: "closed", breaker: "on", policy });
  const [full, capped] = [find("full:1s:30s"), find("capped_exponential:1s:30s:500ms")];
  if (full === null || capped === null) return null;
  const [own, herd] = [at(full, "arrivals.peak_to_mean"), at(capped, "arrivals.peak_to_mean")];
  return [
    "retry.safety_unavailable.policy",
    at(full, "arrivals.to_poisson") <= 1.3 && herd >= 5 * own,
    `after an outage those who waited come back with a peak of ${formatNumber(own, 2)} × their mean, and pure chance has ` +
      `${formatNumber(at(full, "arrivals.poisson"), 2)} ×; the capped exponential, whose jitter vanishes at the cap, has ` +
      `${formatNumber(herd, 1)} ×`,
  ];
}

function breaker(book: Book): Judged {
  const find = (on: string) =>
    book.row("safety-outage", { load: "steady", mode: "closed", breaker: on, policy: "full:1s:30s" });
  const [on, off] = [find("on"), find("off")];
  if (on === null || off === null) return null;
  return [
    "safety.breaker.failures",
    at(on, "pressure.checks_per_s") < at(off, "pressure.checks_per_s"),
    `a kernel that is away gets ${formatNumber(at(on, "pressure.checks_per_s"), 2)} checks a second instead of ` +
      `${formatNumber(at(off, "pressure.checks_per_s"), 2)}; its return is noticed after ${formatMs(at(on, "recovery_ms"))} instead ` +
      `of ${formatMs(at(off, "recovery_ms"))}`,
  ];
}

const lockRow = (book: Book, policy: string): Summary | null => book.row("lock-busy", { policy });

/** Within a quarter: less is chance, or not worth a setting. */
function isNear(one: Summary, best: Summary, path: string): boolean {
  return at(one, path) <= 1.25 * at(best, path);
}

function at({ figures }: Summary, path: string): number {
  return figureAt(figures, path) ?? Number.NaN;
}

const BOUNDED = "bounded:500ms:0.3";
