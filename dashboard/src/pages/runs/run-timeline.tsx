/** What happened, in order, read in pages (L51). */
import type { TimelineLine } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import { hrefWith, segment } from "../../data/location.ts";
import { api } from "../../data/session.ts";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";

export function RunTimeline({ id }: { readonly id: string }) {
  const list = useList<TimelineLine>(
    `timeline ${id}`,
    (cursor, signal) =>
      api.value.request(
        "GET /workflow-runs/{id}/timeline",
        { path: { id }, query: { limit: 100, cursor } },
        { signal },
      ),
    { mayAdd: ({ event, data }) => event === "run" && data.run_id === id },
  );
  return (
    <div class="run-list">
      <VirtualTable what="events" list={list} columns={COLUMNS} keyOf={({ seq }) => String(seq)} />
    </div>
  );
}

const COLUMNS: readonly Column<TimelineLine>[] = [
  { name: "#", width: "3.5rem", align: "end", priority: 2, cell: ({ seq }) => seq },
  { name: "When", width: "7rem", cell: ({ at }) => <Time at={at} /> },
  { name: "Event", width: "minmax(8rem, 1.2fr)", cell: ({ event }) => event.replaceAll("_", " ") },
  {
    name: "Step",
    width: "minmax(6rem, 1fr)",
    cell: ({ step_id, index }) =>
      step_id !== null && <a href={hrefWith({ step: step_id })}>{index === null ? step_id : `${step_id} ${index}`}</a>,
  },
  {
    name: "Job",
    width: "minmax(6rem, 1.4fr)",
    priority: 3,
    cell: ({ job_id }) =>
      job_id !== null && (
        <a class="mono" href={`/jobs/${segment(job_id)}`}>
          {job_id}
        </a>
      ),
  },
  { name: "By", width: "minmax(5rem, 0.8fr)", priority: 3, cell: ({ who, who_name }) => who_name ?? who ?? "" },
  { name: "Why", width: "minmax(6rem, 1.6fr)", priority: 2, cell: ({ why }) => why ?? "" },
  { name: "Cause", width: "4rem", align: "end", priority: 3, cell: ({ cause }) => (cause === null ? "" : `#${cause}`) },
];
