/** The steps as a table with their times on one axis. The table is the alternative to the drawing. */
import { useRef } from "preact/hooks";
import type { RunDetail, RunStep } from "../../../../src/client/schema.ts";
import { everySecond } from "../../data/clock.ts";
import { hrefWith } from "../../data/location.ts";
import { StateBadge, toneOf } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Section } from "../../kit/layout.tsx";
import { duration } from "../../kit/numbers.ts";
import { type Column, Table } from "../../kit/table.tsx";
import { criticalPath, durationOf } from "./plan.ts";

type Row = RunStep & { readonly id: string; readonly isCritical: boolean };

export function RunSteps({ run }: { readonly run: RunDetail }) {
  const critical = criticalPath(run.steps);
  const rows = Object.entries(run.steps).map(([id, step]) => ({ id, isCritical: critical.has(id), ...step }));
  const isOpen = rows.some((step) => step.started_at !== null && step.ended_at === null);
  const nowMs = isOpen ? everySecond.value : 0;
  const ends = rows.map(({ ended_at }) => (ended_at === null ? nowMs : Date.parse(ended_at)));
  const from = Date.parse(run.created_at);
  const to = Math.max(from + 1, ...ends);
  return (
    <Section title="Steps" about={`in the order of the definition; the bars cover ${duration(to - from)}`}>
      <Table label="steps" columns={columnsFor(from, to, nowMs)} rows={rows} keyOf={({ id }) => id} />
    </Section>
  );
}

function columnsFor(from: number, to: number, nowMs: number): readonly Column<Row>[] {
  return [
    { name: "Step", width: "minmax(7rem, 1.4fr)", cell: ({ id }) => <a href={hrefWith({ step: id })}>{id}</a> },
    { name: "State", width: "7.5rem", cell: ({ state }) => <StateBadge state={state} /> },
    { name: "Type", width: "6.5rem", priority: 3, cell: ({ type }) => type },
    { name: "Critical", width: "4rem", priority: 3, cell: ({ isCritical }) => (isCritical ? "yes" : "") },
    { name: "When", width: "minmax(6rem, 3fr)", priority: 2, cell: (row) => <Span {...{ row, from, to, nowMs }} /> },
    {
      name: "Duration",
      width: "5.5rem",
      align: "end",
      cell: (row) => {
        const spentMs = durationOf(row, nowMs);
        return spentMs === null ? "" : duration(spentMs);
      },
    },
    { name: "", width: "4.6rem", align: "end", cell: ({ job_id }) => job_id && <Explain of="job" id={job_id} /> },
  ];
}

interface SpanProps {
  readonly row: Row;
  readonly from: number;
  readonly to: number;
  readonly nowMs: number;
}

function Span({ row, from, to, nowMs }: SpanProps) {
  const bar = useRef<HTMLSpanElement>(null);
  const spentMs = durationOf(row, nowMs);
  if (spentMs === null || row.started_at === null) return null;
  const share = (ms: number) => `${(ms / (to - from)) * 100}%`;
  const left = share(Date.parse(row.started_at) - from);
  return (
    <span class={`span ${toneOf(row.state)}`} aria-hidden="true">
      <span ref={bar} style={{ left, width: share(spentMs) }} />
    </span>
  );
}
