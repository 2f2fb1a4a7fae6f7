/** What `cordum lab admission` shows and says. */
import { figureAt, type Outcome, type Summary } from "../experiment.ts";
import { formatMs, formatNumber } from "../report/numbers.ts";
import type { Chart } from "../report/picture.ts";

/** Of a server that polls, as shipped. */
export const DEFAULT_POLL = "bounded:10ms:0.5";
const FOUNDING_POLL = "fixed:10ms";

export function admissionPictures(outcome: Outcome): readonly Chart[] {
  const grid = outcome.rows.filter(({ key }) => key.part === "grid");
  if (grid.length === 0) return [];
  const [fewest, most] = [burst(grid, Math.min), burst(grid, Math.max)];
  const waves = grid.filter(({ key }) => key.contenders === fewest && key.client !== "none" && key.client !== "told");
  const crowd = grid.filter(({ key }) => key.contenders === most);
  const servers = crowd.filter(({ key }) => key.client === crowd[0]?.key.client);
  const clients = crowd.filter(({ key }) => key.policy === crowd[0]?.key.policy);
  return [
    ...(waves.length === 0 ? [] : [wavesOf(waves, outcome)]),
    {
      kind: "distribution",
      name: "requests",
      title: `How long the server takes to answer one of ${formatNumber(most)} requests at once`,
      caption:
        "Further to the left is faster: where the slot is taken in one write nobody waits for anybody, and where a lock is " +
        "polled most requests wait until their time is over.",
      x: { label: "time until the answer", unit: "ms", isLog: true },
      of: "requests",
      samples: servers.map(({ key, series }) => ({ name: String(key.policy), values: series.requests_ms ?? [] })),
    },
    {
      kind: "lines",
      name: "let-in",
      title: `Who of ${formatNumber(most)} callers got in, and when`,
      caption:
        "Each step up is somebody who was let in: clients that all come back at the same moment find the slots taken by the " +
        "first of them, and the slots stand empty while nobody asks.",
      x: { label: "time since the burst", unit: "ms" },
      y: { label: "callers let in so far", unit: "" },
      lines: clients.map(({ key, series }) => ({
        name: `client ${key.client}`,
        points: stepsOf(series.waits_ms ?? []),
      })),
    },
  ];
}

export function admissionConclusions(outcome: Outcome): readonly string[] {
  const grid = outcome.rows.filter(({ key }) => key.part === "grid");
  return [...serverSaid(grid), ...clientSaid(grid), ...sweepSaid(outcome)];
}

/** How many there were by then; `sorted` from the first on. */
function stepsOf(sorted: readonly number[]): readonly (readonly [number, number])[] {
  return [
    [0, 0],
    ...sorted.flatMap((atMs, index): [number, number][] => [
      [atMs, index],
      [atMs, index + 1],
    ]),
  ];
}

function burst(rows: readonly Summary[], pick: (...values: number[]) => number): number {
  return pick(...rows.map(({ key }) => Number(key.contenders)));
}

function wavesOf(rows: readonly Summary[], { params }: Outcome): Chart {
  return {
    kind: "waves",
    name: "waves",
    title: `${formatNumber(Number(rows[0]?.key.contenders ?? 0))} callers want one of two slots`,
    caption:
      "Each hill is a crowd that asks for the same key at the same moment: clients that come back after a fixed second come " +
      "as a wall each time, those that come back by chance are spread; a lock that is polled multiplies what they ask.",
    binMs: Number(params.binMs),
    what: "asks for the key",
    untilMs: Number(params.budgetMs),
    histograms: rows.map(({ key, figures, series }) => ({
      name: `${key.policy}, client ${key.client}`,
      counts: series.arrivals ?? [],
      note: `${formatNumber(figureAt(figures, "asks") ?? 0)} asks, ${formatNumber(figureAt(figures, "admitted") ?? 0)} callers let in`,
      description: CLIENT_WORDS[String(key.client)] ?? "",
    })),
  };
}

const CLIENT_WORDS: Readonly<Record<string, string>> = {
  none: "who was refused goes away",
  fixed: "who was refused comes back after exactly a second",
  jittered: "who was refused comes back after a time by chance, which grows",
  told: "who was refused comes back when the answer says so",
};

function serverSaid(grid: readonly Summary[]): readonly string[] {
  const at = (policy: string, contenders: number) =>
    grid.find(({ key }) => key.policy === policy && key.contenders === contenders && key.client === "none")?.figures;
  return [...new Set(grid.map(({ key }) => Number(key.contenders)))].flatMap((contenders) => {
    const atomic = at("atomic", contenders);
    const polled = at(FOUNDING_POLL, contenders) ?? at(DEFAULT_POLL, contenders);
    if (atomic === undefined || polled === undefined) return [];
    const p95 = (figures: Summary["figures"], path: string) => formatMs(figureAt(figures, `${path}.p95`) ?? 0);
    return [
      `${formatNumber(contenders)} at once: an answer takes ${p95(atomic, "request_ms")} (p95) with the slot in one write, and ` +
        `${p95(polled, "request_ms")} behind the polled lock, where ${formatNumber(figureAt(polled, "share.503") ?? 0, 0)} % are told ` +
        `503. The other org waits ${p95(atomic, "other_ms")} and ${p95(polled, "other_ms")}; alone it would be ` +
        `${p95(atomic, "other_alone_ms")} and ${p95(polled, "other_alone_ms")}.`,
    ];
  });
}

function clientSaid(grid: readonly Summary[]): readonly string[] {
  const fewest = grid.length === 0 ? 0 : burst(grid, Math.min);
  const letIn = (client: string) => {
    const row = grid.find(
      ({ key }) => key.policy === "atomic" && key.contenders === fewest && key.client === client,
    )?.figures;
    return row === undefined ? null : (figureAt(row, "admitted") ?? 0);
  };
  const [fixed, jittered, told] = [letIn("fixed"), letIn("jittered"), letIn("told")];
  if (fixed === null || jittered === null) return [];
  return [
    `Of ${formatNumber(fewest)} callers ${formatNumber(fixed)} get in if all come back after the same second, and ${formatNumber(jittered)} if ` +
      `chance spreads them${told === null ? "" : `; ${formatNumber(told)} if they come back when \`Retry-After\` says so`}.`,
  ];
}

/** Patience of one side does not help where the other has none. */
function sweepSaid({ rows }: Outcome): readonly string[] {
  const sweep = rows.filter(({ key }) => key.part === "sweep");
  const [first, last] = [sweep[0], sweep.at(-1)];
  if (first === undefined || last === undefined || first === last) return [];
  const said = ({ key, figures }: Summary) =>
    `${formatMs(Number(key.max_wait_ms))} at the server and ${formatMs(Number(key.budget_ms))} of the caller let ` +
    `${formatNumber(figureAt(figures, "admitted_share") ?? 0, 0)} % in, with ${formatNumber(figureAt(figures, "share.503") ?? 0, 0)} % of ` +
    "the answers a 503";
  return [`Patience: ${said(first)}; ${said(last)}. How many get in is decided by the callers' patience.`];
}
