/** What `cordum lab occ` shows and says. */
import { figureAt, type Outcome, type Summary } from "../experiment.ts";
import { formatMs, formatNumber } from "../report/numbers.ts";
import type { Chart, Line } from "../report/picture.ts";
import { describePolicy } from "../report/policy-words.ts";
import { median } from "../statistics.ts";

export function occPictures(outcome: Outcome): readonly Chart[] {
  const clients = clientsShown(outcome);
  const shown = outcome.rows.filter(({ key }) => key.clients === clients);
  const ends = shown.map(({ figures }) => figureAt(figures, "time_ms") ?? 0);
  const many = new Set(outcome.rows.map(({ key }) => key.clients)).size > 1;
  return [
    {
      kind: "waves",
      name: "waves",
      title: `${clients} clients update one row at the same moment`,
      caption:
        "Each hill is a crowd of clients knocking at the same time, though only one of them can be let in: " +
        "a high wall or a row of separate hills is wasted work, a low carpet that ends early is what we want.",
      binMs: Number(outcome.params.binMs),
      what: "calls",
      untilMs: Math.max(1, 1.25 * median(ends)),
      histograms: shown.map(({ key, figures, series }) => ({
        name: String(key.policy),
        counts: series.arrivals ?? [],
        note: `${formatNumber(figureAt(figures, "calls") ?? 0, 0)} calls, the last client is done after ${formatMs(
          figureAt(figures, "time_ms") ?? 0,
        )}`,
        description: WORDS[String(key.policy)] ?? describePolicy(String(key.policy)),
      })),
    },
    {
      kind: "distribution",
      name: "waits",
      title: `How long each of the ${clients} clients waits`,
      caption:
        "Follow a line to the right: it shows how many clients have got their change in after that time, " +
        "so a line that reaches the top further to the left leaves nobody waiting long.",
      x: { label: "time until a client's own change is in", unit: "ms", isLog: true },
      of: "clients",
      samples: shown.map(({ key, series }) => ({ name: String(key.policy), values: series.waits_ms ?? [] })),
    },
    ...(many ? sweeps(outcome) : []),
  ];
}

const WORDS: Readonly<Record<string, string>> = {
  none: "who was too late comes back at once",
  exponential: "who was too late comes back after a time that doubles, the same for everybody",
  equal: "the same, but half of that time is by chance",
  full: "the same, but all of that time is by chance",
  decorrelated: "by chance, up to three times as long as the last time",
  decorrelated_clipped: "the same, cut off at the longest time: as published",
};

export function occConclusions(outcome: Outcome): readonly string[] {
  const clients = clientsShown(outcome);
  const shown = outcome.rows.filter(({ key }) => key.clients === clients);
  const find = (policy: string) => shown.find(({ key }) => key.policy === policy);
  const [none, exponential, full] = [find("none"), find("exponential"), find("full")];
  const said: string[] = [];
  if (none !== undefined && full !== undefined) {
    said.push(
      `With ${clients} clients, coming back at once makes ${times(none, full, "calls")} as many calls as full jitter; ` +
        `full jitter takes ${times(full, none, "time_ms")} as long in exchange.`,
    );
  }
  if (exponential !== undefined && full !== undefined) {
    said.push(
      `Longer delays alone do not help: without chance everybody comes back together, and the plain exponential takes ` +
        `${times(exponential, full, "time_ms")} as long as full jitter.`,
    );
  }
  return [...said, ...besidePublished(outcome), ...liveSaid(outcome)];
}

function liveSaid({ live, params }: Outcome): readonly string[] {
  if (live === undefined) return [];
  return [
    `Live, each try reads and writes a real record, and each client waits for the network of the model besides ` +
      `(${formatNumber(Number(params.latencyMs))} ms one way): what the servers and this machine take comes on top of it.`,
  ];
}

/** Means of 20 at 100 clients, of the model as its authors wrote it. */
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

/** 100, where the figures are known, else the most. */
function clientsShown({ rows }: Outcome): number {
  const all = rows.map(({ key }) => Number(key.clients));
  return all.includes(PUBLISHED.clients) ? PUBLISHED.clients : Math.max(...all);
}

function besidePublished({ params, rows }: Outcome): readonly string[] {
  if (Object.entries(PUBLISHED.params).some(([name, value]) => params[name] !== value)) return [];
  return Object.entries(PUBLISHED.rows).flatMap(([policy, known]) => {
    const row = rows.find(({ key }) => key.policy === policy && key.clients === PUBLISHED.clients);
    if (row === undefined) return [];
    const beside = (name: "time_ms" | "calls") => {
      const here = figureAt(row.figures, name) ?? 0;
      const off = 100 * (here / known[name] - 1);
      return `${formatNumber(here, 0)}${name === "calls" ? " calls" : " ms"} (published ${formatNumber(known[name])}, ${signed(off)} %)`;
    };
    const why = policy === "decorrelated" ? "; ours never clips a delay at the cap, the published one does" : "";
    return [`${policy}, ${PUBLISHED.clients} clients: ${beside("time_ms")}, ${beside("calls")}${why}.`];
  });
}

function sweeps(outcome: Outcome): readonly Chart[] {
  const x = { label: "clients that want to change the row at once", unit: "" };
  return [
    {
      kind: "lines",
      name: "time",
      title: "Time until the last client is done",
      caption:
        "The more clients, the longer it takes; waiting ever longer without any chance in it is by far the slowest, " +
        "because everybody waits equally long and meets again. The shade is the spread over the seeds.",
      x,
      y: { label: "time until the last client is done", unit: "ms", isLog: true },
      lines: linesOf(outcome, "time_ms"),
    },
    {
      kind: "lines",
      name: "calls",
      title: "Calls to the server until all clients are done",
      caption:
        "Each call is work for the server: without a delay it grows with the square of the crowd, and a delay of which " +
        "part is chance keeps it low.",
      x,
      y: { label: "calls", unit: "" },
      lines: linesOf(outcome, "calls"),
    },
  ];
}

function linesOf({ rows }: Outcome, path: string): readonly Line[] {
  return [...new Set(rows.map(({ key }) => String(key.policy)))].map((name) => {
    const own = rows.filter(({ key }) => key.policy === name);
    const at = (row: Summary): number => Number(row.key.clients);
    return {
      name,
      points: own.map((row) => [at(row), figureAt(row.figures, path) ?? 0]),
      spread: own.flatMap((row) =>
        row.spread === null
          ? []
          : [[at(row), figureAt(row.spread.min, path) ?? 0, figureAt(row.spread.max, path) ?? 0] as const],
      ),
    };
  });
}

function times(more: Summary, less: Summary, path: string): string {
  return `${formatNumber((figureAt(more.figures, path) ?? 0) / Math.max(1, figureAt(less.figures, path) ?? 0), 1)} ×`;
}

function signed(value: number): string {
  return value >= 0 ? `+${formatNumber(value, 1)}` : formatNumber(value, 1);
}
