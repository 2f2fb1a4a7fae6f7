/** What a run has undone, is undoing and could not undo, in that order. */
import type { RunDetail, RunStep } from "../../../../src/client/schema.ts";
import { hrefWith, segment } from "../../data/location.ts";
import { Action } from "../../kit/action.tsx";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Id, Section } from "../../kit/layout.tsx";
import { counted } from "../../kit/numbers.ts";
import { type Column, Table } from "../../kit/table.tsx";

type Compensation = NonNullable<RunDetail["compensation"]>;
type StepCompensation = NonNullable<RunStep["compensation"]>;

interface Row {
  readonly id: string;
  readonly own: StepCompensation | undefined;
  readonly isStopped: boolean;
  readonly onRedriven: () => void;
}

export function RunCompensation({ run, reload }: { readonly run: RunDetail; readonly reload: () => void }) {
  const { compensation, steps, ends_as: endsAs, ends_with: endsWith } = run;
  if (compensation === null) return null;
  const rows = orderOf(compensation, steps).map((id) => ({
    id,
    own: steps[id]?.compensation,
    isStopped: compensation.stopped,
    onRedriven: reload,
  }));
  const reason = endsAs === null ? "" : `ending as ${endsAs}${endsWith === null ? "" : `: ${endsWith.message}`}`;
  return (
    <Section title="Compensation" about={progressText(compensation)} {...toneIn(compensation)}>
      {reason !== "" && <p class="message">{reason}</p>}
      <Table label="compensations" columns={COLUMNS} rows={rows} keyOf={({ id }) => id} />
    </Section>
  );
}

/** The order in which the steps are undone: those that have started by time, then the rest. */
export function orderOf({ undone, running, failed, left }: Compensation, steps: RunDetail["steps"]): readonly string[] {
  const startOf = (id: string) => steps[id]?.compensation?.started_at ?? "";
  const started = [...undone, ...running, ...failed].sort((a, b) => startOf(a).localeCompare(startOf(b)));
  return [...started, ...left];
}

export function progressText({ total, undone, running, failed, stopped }: Compensation): string {
  const parts = [`${undone.length} of ${counted(total, "step")} undone`];
  if (running.length > 0) parts.push(`undoing ${running.join(", ")}`);
  if (failed.length > 0) parts.push(`${failed.length} failed`);
  if (stopped) parts.push("stopped");
  return parts.join("; ");
}

const toneIn = ({ failed }: Compensation) => (failed.length > 0 ? { tone: "bad" as const } : {});

/** What became of a step that had completed. */
export function undoText({ state, children }: StepCompensation): string {
  const items = children === undefined ? "" : `, ${counted(children.succeeded, "item")}`;
  switch (state) {
    case "SUCCEEDED":
      return `undone${items}`;
    case "FAILED":
      return `not undone${items}`;
    default:
      return `undoing${items}`;
  }
}

const TONES: Readonly<Record<StepCompensation["state"], Tone>> = { SUCCEEDED: "good", FAILED: "bad", RUNNING: "busy" };

const COLUMNS: readonly Column<Row>[] = [
  { name: "Step", width: "minmax(6rem, 1fr)", cell: ({ id }) => <a href={hrefWith({ step: id })}>{id}</a> },
  {
    name: "State",
    width: "minmax(8.4rem, 1fr)",
    cell: ({ own, isStopped }) =>
      own === undefined ? (
        <Badge tone="wait">{isStopped ? "not undone" : "to be undone"}</Badge>
      ) : (
        <Badge tone={TONES[own.state]}>{undoText(own)}</Badge>
      ),
  },
  {
    name: "Job",
    width: "minmax(8rem, 2fr)",
    priority: 2,
    cell: ({ own }) => own?.job_id && <Id id={own.job_id} to={`/jobs/${segment(own.job_id)}`} />,
  },
  { name: "Error", width: "minmax(8rem, 2fr)", priority: 2, cell: ({ own }) => own?.error?.message ?? "" },
  { name: "", width: "minmax(4.8rem, 9rem)", cell: (row) => <RowActions {...row} /> },
];

function RowActions({ own, onRedriven }: Row) {
  if (!own?.job_id) return null;
  if (own.state === "RUNNING") return <Explain of="job" id={own.job_id} />;
  // A denied or cancelled job has no dead letter.
  if (own.state !== "FAILED" || ["Denied", "Cancelled"].includes(own.error?.name ?? "")) return null;
  return (
    <Action
      label="Retry"
      size="small"
      needs="operate"
      send="POST /dlq/{id}/retry"
      args={{ path: { id: own.job_id } }}
      cli={["dlq retry", own.job_id]}
      done="the compensation runs again"
      onDone={onRedriven}
    />
  );
}
