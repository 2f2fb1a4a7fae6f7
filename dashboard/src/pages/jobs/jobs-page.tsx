/** All jobs, newest first. */
import type { Job, JobState } from "../../../../src/client/schema.ts";
import { firstPage, useList } from "../../data/list.ts";
import type { Change } from "../../data/live.ts";
import { param, segment } from "../../data/location.ts";
import { api } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { BulkButtons, type BulkTarget } from "../../kit/bulk/dialog.tsx";
import { describeFilter, filterOfAddress } from "../../kit/bulk/filter.ts";
import { type BulkAction, BulkRunner } from "../../kit/bulk/operation.ts";
import { BulkProgress } from "../../kit/bulk/progress.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Filters, SelectFilter, TextFilter } from "../../kit/filters.tsx";
import { Page } from "../../kit/layout.tsx";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { isFinal, JOB_STATES } from "./job-states.ts";

const FILTERS = ["state", "topic", "label", "since", "class", "trace"] as const;
const SINCE = [
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
] as const;
const CLASSES = ["lock_busy", "safety_unavailable", "store_unavailable", "no_worker", "throttled", "unclassified"];

const TEXTS = {
  state: "state",
  topic: "topic",
  label: "label",
  since: "submitted in the last",
  class: "waiting for a retry of class",
};

export function JobsPage() {
  const filter = filterOfAddress(Object.keys(TEXTS));
  const trace = param("trace");
  const query = { ...filter, ...(trace === "" ? {} : { trace_id: trace }) };
  const list = useList<Job>(
    `jobs ${JSON.stringify(query)}`,
    (cursor, signal) =>
      api.value.request("GET /jobs", { query: { ...query, ...firstPage(cursor), limit: 100 } }, { signal }),
    {
      live: { idOf: ({ job_id }) => job_id, apply: applyChange },
      mayAdd: (change) => isShown(change, filter.state, filter.topic),
    },
  );
  return (
    <Page title="Jobs" isFilled>
      <BulkProgress runner={TARGET.runner} path="/jobs" />
      <div class="filter-line">
        <Filters names={FILTERS}>
          <SelectFilter name="state" label="State" options={JOB_STATES} />
          <TextFilter name="topic" label="Topic" placeholder="any" />
          <TextFilter name="label" label="Label" placeholder="name=value" />
          <SelectFilter name="since" label="Submitted in the last" options={SINCE} all="any time" />
          <SelectFilter name="class" label="Waits for a retry" options={CLASSES} all="any" />
          <TextFilter name="trace" label="Trace" placeholder="any" />
        </Filters>
        <span class="grow" />
        {trace === "" && (
          <BulkButtons
            target={TARGET}
            query={{ filter, text: describeFilter(filter, TEXTS, "all jobs") }}
            actions={actionsOn(filter.state)}
          />
        )}
      </div>
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
  { name: "State", width: "11rem", cell: ({ state }) => <StateBadge state={state} /> },
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

/** Those with an effect on jobs of the state. */
function actionsOn(state: string | undefined): readonly BulkAction[] {
  if (state === undefined) return ["retry", "cancel"];
  if (state === "FAILED" || state === "TIMEOUT") return ["retry"];
  return isFinal(state as JobState) ? [] : ["cancel"];
}

const TARGET: BulkTarget<Job> = {
  runner: new BulkRunner("POST /jobs/bulk"),
  what: "jobs",
  command: "job",
  columns: [
    { name: "Job", width: "minmax(8rem, 1.4fr)", cell: ({ job_id }) => <span class="mono">{job_id}</span> },
    { name: "State", width: "11rem", cell: ({ state }) => <StateBadge state={state} /> },
    { name: "Topic", width: "minmax(6rem, 1fr)", priority: 2, cell: ({ topic }) => topic },
    { name: "Submitted", width: "7rem", priority: 2, cell: ({ created_at }) => <Time at={created_at} /> },
  ],
  keyOf: ({ job_id }) => job_id,
};

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
