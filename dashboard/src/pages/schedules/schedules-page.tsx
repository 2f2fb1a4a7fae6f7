/** Schedules of workflows with their next and last starts. */
import { useSignal } from "@preact/signals";
import type { Schedule } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import { navigate, segment } from "../../data/location.ts";
import { api, may } from "../../data/session.ts";
import { addExplainer, Explain } from "../../kit/explain.tsx";
import { Page } from "../../kit/layout.tsx";
import { count } from "../../kit/numbers.ts";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { ApplyDialog } from "./apply-dialog.tsx";
import { ScheduleExplanation } from "./schedule-explanation.tsx";
import { ScheduleState, timingText } from "./schedule-state.tsx";

addExplainer("schedule", ScheduleExplanation);

export function SchedulesPage() {
  const isCreating = useSignal(false);
  const list = useList<Schedule>(
    "schedules",
    (cursor, signal) => api.value.request("GET /schedules", { query: { limit: 100, cursor } }, { signal }),
    { mayAdd: (change) => change.event === "run" },
  );
  return (
    <Page
      title="Schedules"
      isFilled
      actions={
        may("operate") && (
          <button
            type="button"
            class="button main"
            onClick={() => {
              isCreating.value = true;
            }}
          >
            Create a schedule …
          </button>
        )
      }
    >
      <VirtualTable
        what="schedules"
        list={list}
        columns={COLUMNS}
        keyOf={({ tenant_id, id }) => `${tenant_id} ${id}`}
        empty={
          <Empty title="no schedules">
            A schedule starts a workflow by cron expression or interval. Create one here, or with cordum schedule apply
            FILE.
          </Empty>
        }
      />
      {isCreating.value && (
        <ApplyDialog
          before={null}
          onApplied={({ id }) => navigate(`/schedules/${segment(id)}`)}
          onClose={() => {
            isCreating.value = false;
          }}
        />
      )}
    </Page>
  );
}

const COLUMNS: readonly Column<Schedule>[] = [
  {
    name: "Schedule",
    width: "minmax(5.6rem, 1.4fr)",
    cell: ({ id }) => (
      <a class="mono" href={`/schedules/${segment(id)}`}>
        {id}
      </a>
    ),
  },
  { name: "State", width: "5.8rem", cell: ({ state }) => <ScheduleState state={state} /> },
  {
    name: "When",
    width: "minmax(8rem, 1.2fr)",
    priority: 2,
    cell: (schedule) => <span class="mono">{timingText(schedule)}</span>,
  },
  {
    name: "Next start",
    width: "minmax(6rem, 7rem)",
    cell: ({ next_slot: next }) => <Time at={next?.starts_at ?? null} />,
  },
  {
    name: "Last start",
    width: "7rem",
    priority: 2,
    cell: ({ last_start: last }) =>
      last === null ? (
        <span class="soft">–</span>
      ) : (
        <a href={`/runs/${segment(last.run_id)}`}>
          <Time at={last.started_at} />
        </a>
      ),
  },
  { name: "Workflow", width: "minmax(6rem, 1fr)", priority: 3, cell: ({ workflow_id }) => workflow_id },
  { name: "Overlap", width: "4.5rem", priority: 3, cell: ({ overlap }) => overlap },
  {
    name: "Not started",
    width: "6rem",
    priority: 3,
    align: "end",
    cell: ({ counts: { skipped, missed, failed } }) => (
      <span
        class={missed + failed > 0 ? "tone-bad" : ""}
        title={`${skipped} skipped, ${missed} missed, ${failed} failed`}
      >
        {count(skipped + missed + failed)}
      </span>
    ),
  },
  { name: "", width: "4.6rem", cell: ({ id }) => <Explain of="schedule" id={id} /> },
];
