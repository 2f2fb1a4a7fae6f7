/** What `cordum lab safety-outage` shows and says. */
import { figureAt, type Outcome, type Summary } from "../experiment.ts";
import { formatMs, formatNumber } from "../report/numbers.ts";
import type { Band, Chart, Line } from "../report/picture.ts";
import { describePolicy } from "../report/policy-words.ts";

/** As shipped. */
export const DEFAULT_POLICY = "full:1s:30s";
const CAPPED_POLICY = "capped_exponential:1s:30s:500ms";
const FOUNDING_POLICY = "fixed:5s";
const LOADS = [
  { load: "burst", name: "after a burst" },
  { load: "steady", name: "under a steady load" },
] as const;
/** The pictures of waves begin so long before the kernel is back. */
export const LEAD_MS = 30_000;

export function outagePictures(outcome: Outcome): readonly Chart[] {
  return [...wavePictures(outcome), ...lagPictures(outcome)];
}

export function outageConclusions(outcome: Outcome): readonly string[] {
  return [...herdSaid(outcome), ...breakerSaid(outcome), ...leaseSaid(outcome), ...liveSaid(outcome)];
}

/** What live leaves out, and what is different in it. */
function liveSaid({ live }: Outcome): readonly string[] {
  if (live === undefined) return [];
  return [
    "Live there is the burst without a lease alone: a steady load and a lease take minutes. The kernel is a process that is " +
      "reached over gRPC; it sleeps over each check as long as the simulated one works for it, and checks that are sent " +
      "together are answered together.",
  ];
}

interface RowName {
  readonly load: string;
  readonly mode: string;
  readonly policy: string;
  readonly breaker: string;
}

function find({ rows }: Outcome, name: RowName): Summary | undefined {
  return rows.find(({ key }) => Object.entries(name).every(([part, value]) => key[part] === value));
}

function wavePictures(outcome: Outcome): readonly Chart[] {
  const shown = outcome.rows.filter(
    ({ key }) =>
      key.load === "burst" && key.mode === "closed" && (key.breaker === "off" || key.policy === DEFAULT_POLICY),
  );
  if (shown.length === 0) return [];
  const leadMs = Math.min(LEAD_MS, Number(outcome.params.outageMs));
  return [
    {
      kind: "waves",
      name: "waves",
      title: `${formatNumber(Number(outcome.params.contenders))} jobs ask a kernel that has just come back`,
      caption:
        "Each hill is a crowd of jobs that ask the safety kernel at the same moment: where everybody waits equally long they " +
        "come back as a wall, and the kernel cannot answer most of them in time; where chance spreads them they come as a " +
        "low carpet, and all are answered.",
      binMs: Number(outcome.params.binMs),
      what: "checks",
      untilMs: leadMs + WAVE_SHOWN_MS,
      bands: [{ from: 0, to: leadMs, label: "the kernel is away" }],
      histograms: shown.map(({ key, figures, series }) => ({
        name: `${key.policy}, breaker ${key.breaker}`,
        counts: series.arrivals ?? [],
        note: waveNote(figures),
        description: saidOf(key),
      })),
    },
  ];
}

function saidOf({ policy, breaker }: Summary["key"]): string {
  return breaker === "on" ? "only a few ask while it is away, for all the others" : describePolicy(String(policy));
}

function waveNote(figures: Summary["figures"]): string {
  const drainMs = figureAt(figures, "drain_ms");
  const ratio = figureAt(figures, "arrivals.peak_to_mean");
  const drained = drainMs === null ? "never drained" : `drained after ${formatMs(drainMs)}`;
  return ratio === null ? drained : `peak ${formatNumber(ratio, 1)} × its mean, ${drained}`;
}

function lagPictures(outcome: Outcome): readonly Chart[] {
  const outageMs = Number(outcome.params.outageMs);
  const burstMs = Math.max(0, outageMs - Number(outcome.params.waitedMs));
  const axes = (since: string, fromMs: number) => ({
    x: { label: `time since the ${since}`, unit: "ms" },
    y: { label: "jobs that wait", unit: "" },
    bands: [{ from: 0, to: outageMs - fromMs, label: "the kernel is away" }] satisfies readonly Band[],
  });
  const of = (load: string, fromMs: number): readonly Line[] =>
    outcome.rows
      .filter(({ key }) => key.load === load && (key.mode === "closed" || key.policy === DEFAULT_POLICY))
      .filter(({ key }) => key.breaker === "on" || key.policy === FOUNDING_POLICY)
      .map((row) => lagLine(row, fromMs));
  const [burst, steady] = [of("burst", burstMs), of("steady", 0)];
  return [
    ...(steady.length === 0
      ? []
      : [
          {
            kind: "lines" as const,
            name: "lag-steady",
            title: "Jobs that wait, under a steady load",
            caption:
              "While the kernel is away the queue grows with every job that comes; a fail-open lease empties it at a price, " +
              "and after the kernel is back each policy takes its own time.",
            ...axes("kernel went", 0),
            lines: steady,
          },
        ]),
    ...(burst.length === 0
      ? []
      : [
          {
            kind: "lines" as const,
            name: "lag-burst",
            title: "Jobs that wait, after a burst",
            caption:
              "All of them came at one instant and wait for the kernel: steps down are crowds of which the kernel could answer " +
              "only some, a smooth slope is a crowd that was spread.",
            ...axes("burst came", burstMs),
            lines: burst,
          },
        ]),
  ];
}

function lagLine({ key, series }: Summary, fromMs: number): Line {
  const { lag = [], lag_at_ms: at = [] } = series;
  const name = key.mode === "lease" ? `${key.policy}, lease` : `${key.policy}, breaker ${key.breaker}`;
  const points = lag.map((count, index): [number, number] => [(at[index] ?? 0) - fromMs, count]);
  return { name, points: points.filter(([sinceMs]) => sinceMs >= 0) };
}

function herdSaid(outcome: Outcome): readonly string[] {
  const row = (policy: string, breaker: string) => find(outcome, { load: "burst", mode: "closed", policy, breaker });
  return ["off", "on"].flatMap((breaker) => {
    const [capped, full] = [row(CAPPED_POLICY, breaker), row(DEFAULT_POLICY, breaker)];
    const [cappedPeak, fullPeak] = [capped, full].map((one) => one && figureAt(one.figures, "arrivals.peak_to_mean"));
    const chance = full && figureAt(full.figures, "arrivals.poisson");
    if (!cappedPeak || !fullPeak || !chance || capped === undefined || full === undefined) return [];
    return [
      `After a burst, breaker ${breaker}: full jitter comes back with a peak of ${formatNumber(fullPeak, 2)} × its mean, and pure ` +
        `chance would give ${formatNumber(chance, 2)}; the capped exponential, whose jitter vanishes at the cap, ` +
        `${formatNumber(cappedPeak, 1)} ×, which is ${formatNumber(cappedPeak / fullPeak, 1)} × as much. Drained after ` +
        `${drainSaid(full)} and ${drainSaid(capped)}.`,
    ];
  });
}

function breakerSaid(outcome: Outcome): readonly string[] {
  const checks = (one: Summary) => formatNumber(figureAt(one.figures, "pressure.checks_per_s") ?? 0, 2);
  return LOADS.flatMap(({ load, name }) => {
    const row = (breaker: string) => find(outcome, { load, mode: "closed", policy: DEFAULT_POLICY, breaker });
    const [off, on] = [row("off"), row("on")];
    if (off === undefined || on === undefined) return [];
    return [
      `The breaker, ${name}: a kernel that is away gets ${checks(on)} checks a second instead of ${checks(off)}. Its return is ` +
        `noticed after ${recoverySaid(on)} instead of ${recoverySaid(off)}, and the queue is drained after ${drainSaid(on)} ` +
        `instead of ${drainSaid(off)}.`,
    ];
  });
}

function leaseSaid(outcome: Outcome): readonly string[] {
  const row = (mode: string) =>
    find(outcome, { load: "steady", mode, policy: DEFAULT_POLICY, breaker: "on" })?.figures ?? null;
  const [closed, lease] = [row("closed"), row("lease")];
  if (closed === null || lease === null) return [];
  const wait = (figures: Summary["figures"]) => formatMs(figureAt(figures, "wait_ms.p95") ?? 0);
  return [
    `A fail-open lease shortens the wait (p95) from ${wait(closed)} to ${wait(lease)}, and lets ` +
      `${formatNumber(figureAt(lease, "bypassed") ?? 0)} of ${formatNumber(figureAt(lease, "submitted") ?? 0)} jobs out without a verdict; ` +
      "each of them says so in its labels.",
  ];
}

function drainSaid({ figures }: Summary): string {
  const drainMs = figureAt(figures, "drain_ms");
  return drainMs === null ? "more than ten minutes" : formatMs(drainMs);
}

function recoverySaid({ figures }: Summary): string {
  return formatMs(figureAt(figures, "recovery_ms") ?? 0);
}

const WAVE_SHOWN_MS = 90_000;
