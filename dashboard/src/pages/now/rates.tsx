/** Throughput and retries since the page was opened, and the retry classes. */
import { useRef } from "preact/hooks";
import type { Overview } from "../../../../src/client/schema.ts";
import { href } from "../../data/location.ts";
import { Chart } from "../../kit/chart.tsx";
import { Section } from "../../kit/layout.tsx";
import { count, decimal, rate } from "../../kit/numbers.ts";
import { type Column, Table } from "../../kit/table.tsx";

interface Point {
  readonly ms: number;
  readonly done: number;
  readonly failed: number;
  readonly retries: number;
}

export function Rates({ of }: { readonly of: Overview }) {
  const points = usePoints(of);
  const [first, last] = [points[0]?.ms ?? 0, points.at(-1)?.ms ?? 0];
  return (
    <div class="columns">
      <Section title="Throughput" about={last > first ? "since this page was opened" : "the line begins now"}>
        {points.length < 2 ? (
          <p class="chart-wait soft">The line begins with the next figures, in a few seconds.</p>
        ) : (
          <Chart
            title="Jobs and retries"
            unit="per second"
            xLabel="time"
            isTime
            x={points.map(({ ms }) => ms)}
            formatX={(ms) => new Date(ms).toLocaleTimeString("en-GB")}
            format={decimal}
            series={[
              { label: "ended", tone: "main", values: points.map(({ done }) => done) },
              { label: "failed", tone: "bad", values: points.map(({ failed }) => failed) },
              { label: "retries", tone: "warn", values: points.map(({ retries }) => retries), isDashed: true },
            ]}
          />
        )}
      </Section>
      <Section title="Retries by class" about="waiting now, with the policy that chooses the delays">
        <Table label="retry classes" columns={CLASS_COLUMNS} rows={of.retries} keyOf={(row) => row.class} />
      </Section>
    </div>
  );
}

type Class = Overview["retries"][number];

const unknown = <span class="soft">–</span>;

const CLASS_COLUMNS: readonly Column<Class>[] = [
  {
    name: "Class",
    width: "minmax(8rem, 1.4fr)",
    cell: (row) => <a href={href("/jobs", { class: row.class })}>{row.class.replaceAll("_", " ")}</a>,
  },
  { name: "Per second", width: "5.8rem", align: "end", cell: ({ per_s }) => (per_s === null ? unknown : rate(per_s)) },
  { name: "Jobs", width: "4rem", align: "end", cell: ({ waiting }) => (waiting === null ? unknown : count(waiting)) },
  {
    name: "Messages",
    width: "5rem",
    align: "end",
    priority: 3,
    cell: ({ parked }) => (parked === null ? unknown : count(parked)),
  },
  { name: "Policy", width: "minmax(8rem, 1.2fr)", priority: 2, cell: ({ policy }) => <code>{policy}</code> },
  { name: "Budget", width: "4.5rem", priority: 3, cell: ({ budget }) => budget },
];

/** The figures of the last ten minutes, as far as this page has seen them. */
function usePoints({ at, throughput }: Overview): readonly Point[] {
  const held = useRef<readonly Point[]>([]);
  const ms = Date.parse(at);
  if (held.current.at(-1)?.ms !== ms) {
    const point = {
      ms,
      done: throughput.jobs_per_s,
      failed: throughput.failed_per_s,
      retries: throughput.retries_per_s,
    };
    held.current = [...held.current, point].slice(-POINTS_MAX);
  }
  return held.current;
}

const POINTS_MAX = 200;
