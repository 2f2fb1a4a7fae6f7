/** The figures of both arms and the e-values, from the first judged block on. */
import type { RolloutDetail, RolloutPoint } from "../../../../src/client/schema.ts";
import { param } from "../../data/location.ts";
import { Chart, type Series } from "../../kit/chart.tsx";
import { Filters, SelectFilter } from "../../kit/filters.tsx";
import { Section } from "../../kit/layout.tsx";
import { decimal, duration, percent } from "../../kit/numbers.ts";
import { Empty } from "../../kit/state.tsx";
import { gateText } from "./verdict.ts";

const ARMS = [
  ["control", "quiet"],
  ["treatment", "main"],
] as const;

type Arm = NonNullable<RolloutPoint["arms"]>["control"];
type Quantile = "p50" | "p95" | "p99";
type Waits = "run_lock_wait_ms" | "job_result_latency_ms" | "admission_wait_ms";

const WAITS: Readonly<Record<string, readonly [Waits, string]>> = {
  wait: ["run_lock_wait_ms", "run lock wait"],
  latency: ["job_result_latency_ms", "result latency"],
  admission: ["admission_wait_ms", "admission wait"],
};

export function FigureChart({ rollout }: { readonly rollout: RolloutDetail }) {
  const isAdmission = rollout.class === "admission.polled.policy";
  const first = isAdmission ? "admission" : "wait";
  const figure = param("figure") || first;
  const others = isAdmission ? [] : (["latency"] as const);
  const points = rollout.series.filter(({ arms }) => arms !== null);
  return (
    <Section
      title="Arms over time"
      about="totals since the start"
      tools={
        <Filters names={[]}>
          <SelectFilter
            name="figure"
            label="Figure"
            all={WAITS[first]?.[1] ?? ""}
            options={[
              ...others.map((name) => [name, WAITS[name]?.[1] ?? name] as const),
              ["retries", "retries per minute"],
              ["first", "first-retry success"],
              ["units", "units"],
            ]}
          />
          {figure in WAITS && <SelectFilter name="quantile" label="Quantile" all="p95" options={["p50", "p99"]} />}
        </Filters>
      }
    >
      {points.length < POINTS_MIN ? <NoPoints /> : <FigureLines figure={figure} points={points} />}
    </Section>
  );
}

function FigureLines({ figure, points }: { readonly figure: string; readonly points: readonly RolloutPoint[] }) {
  const { title, unit, format, series } = linesOf(figure, (param("quantile") || "p95") as Quantile, points);
  return (
    <Chart
      key={title}
      title={title}
      unit={unit}
      xLabel="time"
      isTime
      x={points.map(({ at }) => Date.parse(at))}
      formatX={timeText}
      format={format}
      series={series}
    />
  );
}

function linesOf(figure: string, quantile: Quantile, points: readonly RolloutPoint[]) {
  const line = (of: (arm: Arm) => number | null): readonly Series[] =>
    ARMS.map(([label, tone]) => ({
      label,
      tone,
      values: points.map(({ arms }) => (arms === null ? null : of(arms[label]))),
    }));
  const [field, name] = WAITS[figure] ?? [];
  if (field !== undefined) {
    const bound = (side: "low" | "high") =>
      line((arm) => arm[field]?.intervals[quantile]?.[side] ?? null).map((one) => ({
        ...one,
        label: `${one.label}, ${side} end`,
        isDashed: true,
      }));
    const bounds = [...bound("low"), ...bound("high")].filter(({ values }) => values.some((value) => value !== null));
    const series = [...line((arm) => arm[field]?.[quantile] ?? null), ...bounds];
    return { title: `${name} ${quantile}`, unit: "duration; dashed: interval", format: duration, series };
  }
  if (figure === "first") {
    return {
      title: "first-retry success",
      unit: "share",
      format: percent,
      series: line((arm) => arm.first_retry_success),
    };
  }
  if (figure === "units") return { title: "units", unit: "count", format: decimal, series: line(({ units }) => units) };
  const series = line((arm) => arm.busy_retries_per_minute);
  return { title: "retries per minute", unit: "retries", format: decimal, series };
}

const GATE_TONES = ["main", "wait", "warn", "good", "quiet"] as const;

export function EvidenceChart({ rollout }: { readonly rollout: RolloutDetail }) {
  const { series: points, judged_gates: gates, e_value_limit: limit } = rollout;
  const lines = gates.map(
    ({ gate }, at): Series => ({
      label: gateText(gate),
      tone: GATE_TONES[at % GATE_TONES.length] ?? "main",
      values: points.map(({ e_values }) => e_values[at] ?? null),
    }),
  );
  return (
    <Section title="Evidence over time" about="for a breach, by gate">
      {points.length < POINTS_MIN ? (
        <NoPoints />
      ) : (
        <Chart
          title="E-value"
          unit="logarithmic"
          xLabel="time"
          isTime
          isLogarithmic
          x={points.map(({ at }) => Date.parse(at))}
          formatX={timeText}
          format={decimal}
          series={[...lines, { label: "limit", tone: "bad", isDashed: true, values: points.map(() => limit) }]}
        />
      )}
    </Section>
  );
}

function NoPoints() {
  return (
    <Empty title="no points yet">
      The first 100 units of the control arm set the scale; then each block of units adds a point.
    </Empty>
  );
}

const timeText = (ms: number): string => new Date(ms).toLocaleTimeString("en-GB");
const POINTS_MIN = 2;
