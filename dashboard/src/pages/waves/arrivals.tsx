/** Arrivals of one retry class, and of each arm of its rollout, beside a Poisson stream. */
import type { Waves } from "../../../../src/client/schema.ts";
import { param } from "../../data/location.ts";
import { may } from "../../data/session.ts";
import { Badge } from "../../kit/badge.tsx";
import { Chart } from "../../kit/chart.tsx";
import { Section } from "../../kit/layout.tsx";
import { count, counted, decimal } from "../../kit/numbers.ts";
import { type Column, Table } from "../../kit/table.tsx";
import { type Verdict, verdictOf } from "./verdict.ts";

type Series = Waves["series"][number];

const VERDICTS: Readonly<Record<Verdict, readonly ["bad" | "good" | "quiet", string]>> = {
  waves: ["bad", "in waves"],
  spread: ["good", "spread out"],
  few: ["quiet", "too few to judge"],
};

const nameOf = ({ arm }: Series): string => arm ?? "all";

const COLUMNS: readonly Column<Series>[] = [
  { name: "Arm", width: "minmax(3.6rem, 1fr)", cell: nameOf },
  {
    name: "Verdict",
    width: "minmax(6.6rem, 1fr)",
    cell: (series) => {
      const [tone, text] = VERDICTS[verdictOf(series)];
      return <Badge tone={tone}>{text}</Badge>;
    },
  },
  { name: "Arrivals", width: "5rem", align: "end", priority: 2, cell: ({ total }) => count(total) },
  { name: "Peak", width: "4rem", align: "end", priority: 2, cell: ({ peak }) => count(peak) },
  { name: "Mean", width: "5rem", align: "end", priority: 3, cell: ({ mean }) => decimal(mean) },
  { name: "Peak:mean", width: "6.2rem", align: "end", cell: ({ peak_to_mean }) => decimal(peak_to_mean) },
  { name: "Poisson", width: "4.6rem", align: "end", cell: ({ poisson }) => decimal(poisson.peak_to_mean) },
];

export function Arrivals({ of, waves }: { readonly of: string; readonly waves: Waves }) {
  const all = waves.series.filter((one) => one.class === of);
  return (
    <Section
      title={of.replaceAll("_", " ")}
      about={`last minute, per ${waves.bin_ms} ms; Poisson: as many arrivals at random times`}
      tools={<Replay of={of} />}
    >
      <Table label={`spread of ${of}`} columns={COLUMNS} rows={all} keyOf={nameOf} />
      {all.map((series) => (
        <Meaning key={nameOf(series)} of={series} binMs={waves.bin_ms} />
      ))}
      {all.map((series) => (
        <Pair key={nameOf(series)} series={series} waves={waves} isOnly={all.length === 1} />
      ))}
    </Section>
  );
}

function Meaning({ of: series, binMs }: { readonly of: Series; readonly binMs: number }) {
  if (series.arm !== null || verdictOf(series) !== "waves") return null;
  return (
    <p>
      Retries return together: up to {counted(series.peak, "retry", "retries")} in {binMs} ms, where as many at random
      times would peak at {count(series.poisson.peak)}. Jitter spreads them: in <code>retry.{series.class}.policy</code>
      , or in the delay if the worker chooses it.
    </p>
  );
}

/** Contention is recorded for replays a minute after it happens. */
function Replay({ of }: { readonly of: string }) {
  if (of !== "lock_busy" || !may("operate")) return null;
  return (
    <a class="button small" href="/lab?experiment=replay">
      Replay under other policies
    </a>
  );
}

/** Two charts with one scale. */
function Pair({ series, waves, isOnly }: { series: Series; waves: Waves; isOnly: boolean }) {
  const shown = Math.min(waves.bins, (Number(param("window")) * 1_000) / waves.bin_ms || waves.bins);
  const from = waves.bins - shown;
  const x = Array.from({ length: shown }, (_, at) => ((at + 1 - shown) * waves.bin_ms) / 1_000);
  const [counts, random] = [series.counts.slice(from), series.poisson.counts.slice(from)];
  const yMax = Math.max(1, ...counts, ...random);
  const shared = { unit: `per ${waves.bin_ms} ms`, x, xLabel: "before now", yMax, isSparse: true, heightPx: 150 };
  const name = isOnly ? "" : `, ${nameOf(series)}`;
  return (
    <div class="columns">
      <Chart
        {...shared}
        title={`Arrivals${name}`}
        formatX={secondsAgo}
        format={decimal}
        series={[{ label: "arrivals", values: counts, tone: TONES[nameOf(series)] ?? "main", isBars: true }]}
      />
      <Chart
        {...shared}
        title={`At random times${name}`}
        formatX={secondsAgo}
        format={decimal}
        series={[{ label: "Poisson", values: random, tone: "quiet", isBars: true }]}
      />
    </div>
  );
}

const TONES = { control: "main", treatment: "wait" } as Readonly<Record<string, "main" | "wait">>;

const secondsAgo = (seconds: number): string => (seconds === 0 ? "now" : `${decimal(seconds)} s`);
