/** Both arms side by side, each figure with its interval, and beside the measured change the predicted one. */
import type { RolloutArm, RolloutDetail, RolloutFigures } from "../../../../src/client/schema.ts";
import { Section } from "../../kit/layout.tsx";
import { count, counted, decimal, duration, percent } from "../../kit/numbers.ts";
import { Time } from "../../kit/time.tsx";
import { type FigureRow, FigureTable } from "./figure-table.tsx";

interface Figure {
  readonly name: string;
  readonly of: (arm: RolloutArm) => number | null;
  readonly interval?: (arm: RolloutArm) => Interval | null;
  readonly predicted?: (figures: RolloutFigures) => number | null;
  readonly format: (value: number) => string;
  /** Where the predicted value has another unit. */
  readonly formatPredicted?: (value: number) => string;
  /** Counts of arms of different size have no ratio. */
  readonly hasRatio?: boolean;
}

type Interval = { readonly low: number; readonly high: number };
type Waits = "run_lock_wait_ms" | "job_result_latency_ms" | "admission_wait_ms";

const QUANTILES = ["p50", "p95", "p99"] as const;

function quantiles(name: string, field: Waits): readonly Figure[] {
  return QUANTILES.map((quantile) => ({
    name: `${name} ${quantile}`,
    of: (arm) => arm[field]?.[quantile] ?? null,
    interval: (arm) => arm[field]?.intervals[quantile] ?? null,
    ...(field === "admission_wait_ms" ? {} : { predicted: (figures) => figures[field][quantile] }),
    format: duration,
    hasRatio: true,
  }));
}

const FIGURES: readonly Figure[] = [
  { name: "units", of: ({ units }) => units, format: count },
  ...quantiles("run lock wait", "run_lock_wait_ms"),
  ...quantiles("result latency", "job_result_latency_ms"),
  ...quantiles("admission wait", "admission_wait_ms"),
  {
    name: "retries per unit",
    of: (arm) => arm.busy_retries_per_unit,
    predicted: ({ busy_retries }) => busy_retries,
    formatPredicted: (value) => counted(value, "retry", "retries"),
    format: decimal,
    hasRatio: true,
  },
  { name: "retries per minute", of: (arm) => arm.busy_retries_per_minute, format: decimal },
  {
    name: "first-retry success",
    of: (arm) => arm.first_retry_success,
    predicted: (figures) => figures.first_retry_success,
    format: percent,
    hasRatio: true,
  },
  { name: "results", of: ({ results }) => results, format: count },
  { name: "dead letters", of: (arm) => arm.dead_letters, format: count },
];

export function Arms({ rollout }: { readonly rollout: RolloutDetail }) {
  const { arms, prediction } = rollout;
  const shown = FIGURES.filter(
    ({ of, predicted }) =>
      of(arms.control) !== null ||
      of(arms.treatment) !== null ||
      (prediction !== null && predicted !== undefined && predicted(prediction.control) !== null),
  );
  return (
    <Section title="Arms" about="measured units whose horizon has ended; intervals hold at every inspection">
      <FigureTable
        label="arms, figures"
        columns={["Control", "Treatment", "Ratio", ...(prediction === null ? [] : ["Predicted"])]}
        rows={shown.map((figure) => rowOf(figure, rollout))}
      />
      <PredictionNote rollout={rollout} />
    </Section>
  );
}

function rowOf(figure: Figure, { arms, prediction }: RolloutDetail): FigureRow {
  const { name, of, predicted, format, formatPredicted = format, hasRatio = false } = figure;
  const cells = [
    <Estimate key="control" figure={figure} arm={arms.control} />,
    <Estimate key="treatment" figure={figure} arm={arms.treatment} />,
    hasRatio ? ratioText(of(arms.treatment), of(arms.control)) : "",
  ];
  if (prediction === null) return { name, cells };
  const change = predicted !== undefined && (
    <Predicted
      control={predicted(prediction.control)}
      treatment={predicted(prediction.treatment)}
      format={formatPredicted}
    />
  );
  return { name, cells: [...cells, change] };
}

function Estimate({ figure: { of, interval, format }, arm }: { readonly figure: Figure; readonly arm: RolloutArm }) {
  const value = of(arm);
  const range = interval?.(arm) ?? null;
  return (
    <>
      {value === null ? <span class="soft">–</span> : format(value)}
      {range !== null && (
        <span class="soft interval">
          {format(range.low)} to {format(range.high)}
        </span>
      )}
    </>
  );
}

interface PredictedProps {
  readonly control: number | null;
  readonly treatment: number | null;
  readonly format: (value: number) => string;
}

function Predicted({ control, treatment, format }: PredictedProps) {
  if (control === null || treatment === null) return <span class="soft">–</span>;
  return (
    <>
      {ratioText(treatment, control)}
      <span class="soft interval">
        {format(control)} → {format(treatment)}
      </span>
    </>
  );
}

function PredictionNote({ rollout: { prediction } }: { readonly rollout: RolloutDetail }) {
  if (prediction === null) {
    return <p class="soft">No prediction: no lock contention was recorded before the start.</p>;
  }
  return (
    <p class="soft">
      Predicted at the start from {count(prediction.acquisitions)} recorded lock acquisitions,{" "}
      <Time at={prediction.from} both /> to <Time at={prediction.to} both />. Its load differs from that of the rollout:
      compare the ratios, not the values.
    </p>
  );
}

/** Treatment over control: `0.74×`. */
function ratioText(treatment: number | null, control: number | null): string {
  if (treatment === null || control === null || control === 0) return "–";
  return `${decimal(treatment / control)}×`;
}
