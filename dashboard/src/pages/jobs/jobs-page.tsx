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

const FILTERS = ["state", "topic", "label", "since", "class", "trace"] as const;
const SINCE = [
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
] as const;
const CLASSES = ["lock_busy", "safety_unavailable", "store_unavailable", "no_worker", "throttled", "unclassified"];

/** The query of the list, as the address has it. Bulk actions use the same. */
export function jobQuery() {
  const [state, topic, label, since, retryClass, trace] = FILTERS.map((name) => param(name) || undefined);
  return { state, topic, label, since, class: retryClass, trace_id: trace };
}

export function JobsPage() {
  const query = jobQuery();
  const list = useList<Job>(
    `jobs ${JSON.stringify(query)}`,
    (cursor, signal) => api.value.request("GET /jobs", { query: { ...query, limit: 100, cursor } }, { signal }),
    {
      live: { idOf: ({ job_id }) => job_id, apply: applyChange },
      mayAdd: (change) => isShown(change, query.state, query.topic),
    },
  );
  return (
    <Page title="Jobs" isFilled>
      <Filters names={FILTERS}>
        <SelectFilter name="state" label="State" options={JOB_STATES} />
        <TextFilter name="topic" label="Topic" placeholder="any" />
        <TextFilter name="label" label="Label" placeholder="name=value" />
        <SelectFilter name="since" label="Submitted in the last" options={SINCE} all="any time" />
        <SelectFilter name="class" label="Waits for a retry" options={CLASSES} all="any" />
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
  if (change.event !== "job" || change.data.job_id !== job.job_id || change.data.record_version <= job.record_version)
    return job;
  const { state, at, record_version } = change.data;
  return { ...job, state, updated_at: at, record_version };
}

/** A job in another state can have left the list, too. */
function isShown(change: Change, state: string | undefined, topic: string | undefined): boolean {
  if (change.event !== "job" || (topic ?? change.data.topic) !== change.data.topic) return false;
  return state === undefined ? change.data.state === "PENDING" || change.data.state === "DISPATCHED" : true;
}
