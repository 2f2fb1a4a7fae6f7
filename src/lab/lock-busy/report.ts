/** What `cordum lab lock-busy` shows and says. */
import { figureAt, type Outcome, type Summary } from "../experiment.ts";
import { formatMs, formatNumber } from "../report/numbers.ts";
import type { Chart } from "../report/picture.ts";
import { describePolicy } from "../report/policy-words.ts";
import { median } from "../statistics.ts";

export function lockBusyPictures(outcome: Outcome): readonly Chart[] {
  const { contenders, binMs } = outcome.params;
  const ends = outcome.rows.map((row) => figure(row, "drain_ms")).filter((endMs) => endMs > 0);
  return [
    {
      kind: "waves",
      name: "waves",
      title: `${formatNumber(Number(contenders))} results want the same lock at the same moment`,
      caption:
        "Each hill is a crowd that knocks at the same door at the same time, though only one can be let in: hills that come " +
        "again and again are everybody coming back together, a low carpet is a crowd that chance has spread, and nothing " +
        "but the first hill is a queue in which each is called when it is its turn.",
      binMs: Number(binMs),
      what: "attempts",
      untilMs: Math.max(WAVES_SHOWN_MS_MIN, ends.length === 0 ? 0 : 2 * median(ends)),
      histograms: outcome.rows.map((row) => ({
        name: String(row.key.policy),
        counts: row.series.arrivals ?? [],
        note: waveNote(row),
        description: KNOWN_WORDS[String(row.key.policy)] ?? describePolicy(String(row.key.policy)),
      })),
    },
    {
      kind: "distribution",
      name: "waits",
      title: "How long a result waits until it is in",
      caption:
        "Follow a line to the right: it shows which share of the results is in after that time, so the line furthest to the " +
        "left leaves nobody waiting long, and a long flat end is a few who are out of luck.",
      x: { label: "time from a result's first delivery until it is applied", unit: "ms", isLog: true },
      of: "results",
      samples: outcome.rows.map(({ key, series }) => ({ name: String(key.policy), values: series.latencies_ms ?? [] })),
    },
  ];
}

export function lockBusyConclusions(outcome: Outcome): readonly string[] {
  const find = (policy: string): Summary | undefined => outcome.rows.find(({ key }) => key.policy === policy);
  const [founding, bounded, shipped] = [find("founding"), find(JITTER), find("default")];
  const [capped, queue, hasty] = [find("founding_capped"), find("hand_over"), find("hand_over_500ms")];
  const said: string[] = [];
  if (founding && bounded) {
    said.push(
      `Everybody coming back after the same 500 ms takes ${formatMs(figure(founding, "drain_ms"))}, ` +
        `${times(founding, bounded, "drain_ms")} as long as with ±30 % of chance (${formatMs(figure(bounded, "drain_ms"))}), ` +
        `and asks ${times(founding, bounded, "busy_retries")} as often in vain.`,
    );
  }
  if (capped) {
    const dead = figure(capped, "dead_lettered");
    said.push(
      `With the founding cap of 100 deliveries ${formatNumber(dead)} of ${formatNumber(Number(outcome.params.contenders))} results ` +
        "end as dead letters, though nothing was wrong with them.",
    );
  }
  if (queue) {
    said.push(
      `In the queue each is called when it is its turn: ${formatNumber(figure(queue, "ratio"), 2)} × the ideal and ` +
        `${formatNumber(figure(queue, "attempts_per_acquisition"), 2)} attempts a turn.` +
        (hasty
          ? ` Who gives up after 500 ms and comes back makes it ${formatNumber(figure(hasty, "ratio"), 2)} ×.`
          : ""),
    );
  }
  if (shipped) {
    said.push(
      `As shipped, results that meet share a turn: ${formatNumber(figure(shipped, "commits"))} commits instead of ` +
        `${formatNumber(figure(shipped, "applied"))}, all in after ${formatMs(figure(shipped, "drain_ms"))}.`,
    );
  }
  return [...said, ...wideSaid(find)];
}

function wideSaid(find: (policy: string) => Summary | undefined): readonly string[] {
  const [bounded, wide, full] = [find(JITTER), find("bounded:500ms:0.9"), find("full:2500ms:5s")];
  if (!bounded || !wide || !full) return [];
  const tail = (row: Summary): string =>
    `${formatMs(figure(row, "result_latency_ms.p99"))} (p99) with ${formatNumber(figure(row, "busy_retries"))} attempts in vain`;
  return [
    `What wider jitter does to the last ones: ±30 % ends at ${tail(bounded)}, ±90 % at ${tail(wide)}, anything up to 5 s ` +
      `at ${tail(full)}.`,
  ];
}

function waveNote(row: Summary): string {
  const dead = figure(row, "dead_lettered");
  const lost = dead > 0 ? `, ${formatNumber(dead)} dead letters` : "";
  return `${formatNumber(figure(row, "busy_retries"), 0)} in vain, the last is in after ${formatMs(figure(row, "drain_ms"))}${lost}`;
}

function times(more: Summary, less: Summary, path: string): string {
  return `${formatNumber(figure(more, path) / Math.max(1, figure(less, path)), 1)} ×`;
}

function figure({ figures }: Summary, path: string): number {
  return figureAt(figures, path) ?? 0;
}

/** The rows that are no retry policy. */
const KNOWN_WORDS: Readonly<Record<string, string>> = {
  founding: describePolicy("fixed:500ms"),
  founding_capped: `${describePolicy("fixed:500ms")}; who has come too often is given up`,
  hand_over: "everybody stands in line and is called when it is their turn",
  hand_over_500ms: "everybody stands in line for half a second; who was not called by then comes back later",
  default: "those who come to the same place send one of them, who stands in line for all",
};

const JITTER = "bounded:500ms:0.3";
const WAVES_SHOWN_MS_MIN = 2_000;
