/** All runs, newest first. */
import type { Run } from "../../../../src/client/schema.ts";
import { firstPage, useList } from "../../data/list.ts";
import type { Change } from "../../data/live.ts";
import { param, segment } from "../../data/location.ts";
import { api } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Filters, SelectFilter } from "../../kit/filters.tsx";
import { Page } from "../../kit/layout.tsx";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";

const STATES = ["RUNNING", "PAUSED", "ENDING", "SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"];

export function RunsPage() {
  const state = param("state");
  const list = useList<Run>(
    `runs ${state}`,
    (cursor, signal) =>
      api.value.request(
        "GET /workflow-runs",
        { query: { state: state || undefined, ...firstPage(cursor), limit: 100 } },
        { signal },
      ),
    {
      live: { idOf: ({ run_id }) => run_id, apply: applyChange },
      mayAdd: (change) => change.event === "run" && (state === "" || change.data.state === state),
    },
  );
  return (
    <Page title="Runs" isFilled>
      <Filters names={["state"]}>
        <SelectFilter name="state" label="State" options={STATES} />
      </Filters>
      <VirtualTable
        what="runs"
        list={list}
        columns={COLUMNS}
        keyOf={({ run_id }) => run_id}
        empty={<Empty title="no runs match">Start one: cordum run start WORKFLOW</Empty>}
      />
    </Page>
  );
}

const COLUMNS: readonly Column<Run>[] = [
  {
    name: "Run",
    width: "minmax(9rem, 2fr)",
    cell: (run) => (
      <a class="mono" href={`/runs/${segment(run.run_id)}`}>
        {run.run_id}
      </a>
    ),
  },
  { name: "State", width: "7.5rem", cell: ({ state }) => <StateBadge state={state} /> },
  { name: "Workflow", width: "minmax(8rem, 1.2fr)", priority: 2, cell: (run) => `${run.workflow_id} v${run.version}` },
  { name: "Started", width: "6.5rem", priority: 3, cell: ({ created_at }) => <Time at={created_at} /> },
  { name: "Changed", width: "6.5rem", priority: 2, cell: ({ updated_at }) => <Time at={updated_at} /> },
  { name: "", width: "4.6rem", cell: ({ run_id }) => <Explain of="run" id={run_id} /> },
];

function applyChange(run: Run, change: Change): Run {
  if (change.event !== "run" || change.data.record_version <= run.record_version) return run;
  const { state, at, record_version } = change.data;
  return { ...run, state, updated_at: at, record_version };
}
