/** All jobs, newest first. */
import type { Job } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import type { Change } from "../../data/live.ts";
import { param, segment } from "../../data/location.ts";
import { api } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Filters, SelectFilter, TextFilter } from "../../kit/filters.tsx";
import { Page } from "../../kit/layout.tsx";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { JOB_STATES } from "./job-states.ts";

const FILTERS = ["state", "topic", "trace"];

export function JobsPage() {
  const [state, topic, trace] = [param("state"), param("topic"), param("trace")];
  const list = useList<Job>(
    `jobs ${state} ${topic} ${trace}`,
    (cursor, signal) => {
      const query = {
        state: state || undefined,
        topic: topic || undefined,
        trace_id: trace || undefined,
        limit: 100,
        cursor,
      };
      return api.value.request("GET /jobs", { query: query as never }, { signal });
    },
    { apply: applyChange, mayAdd: (change) => isShown(change, state, topic) },
  );
  return (
    <Page title="Jobs" isFilled>
      <Filters names={FILTERS}>
        <SelectFilter name="state" label="State" options={JOB_STATES} />
        <TextFilter name="topic" label="Topic" placeholder="any" />
        <TextFilter name="trace" label="Trace" placeholder="any" />
      </Filters>
      <VirtualTable
        what="jobs"
        list={list}
        columns={COLUMNS}
        keyOf={({ job_id }) => job_id}
        empty={
          <Empty title="no jobs match">
            {FILTERS.some((name) => param(name) !== "")
              ? "Clear the filters to see all jobs."
              : "Submit one: cordum job submit demo.echo '{}'"}
          </Empty>
        }
      />
    </Page>
  );
}

const COLUMNS: readonly Column<Job>[] = [
  {
    name: "Job",
    width: "minmax(9rem, 2.2fr)",
    cell: (job) => (
      <a class="mono" href={`/jobs/${segment(job.job_id)}`}>
        {job.job_id}
      </a>
    ),
  },
  { name: "State", width: "10.5rem", cell: ({ state }) => <StateBadge state={state} /> },
  { name: "Topic", width: "minmax(8rem, 1.2fr)", priority: 2, cell: ({ topic }) => topic },
  {
    name: "Waits for",
    width: "minmax(8rem, 1.6fr)",
    priority: 3,
    cell: ({ wait, error }) => wait?.reason ?? error?.message ?? "",
  },
  { name: "Attempts", width: "5rem", priority: 3, align: "end", cell: ({ attempt }) => attempt },
  { name: "Tenant", width: "7rem", priority: 3, cell: ({ tenant_id }) => tenant_id },
  { name: "Changed", width: "6.5rem", priority: 2, cell: ({ updated_at }) => <Time at={updated_at} /> },
  { name: "", width: "4.6rem", cell: ({ job_id }) => <Explain of="job" id={job_id} /> },
];

function applyChange(job: Job, change: Change): Job {
  if (change.event !== "job" || change.data.job_id !== job.job_id || change.data.at < job.updated_at) return job;
  const { state, at } = change.data;
  return { ...job, state, updated_at: at };
}

function isShown(change: Change, state: string, topic: string): boolean {
  if (change.event !== "job") return false;
  return (state === "" || change.data.state === state) && (topic === "" || change.data.topic === topic);
}
