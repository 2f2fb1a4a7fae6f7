/** All rollouts, newest first, and the dialog that starts one. */
import type { Rollout } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import { hrefWith, param, segment } from "../../data/location.ts";
import { api, may } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Page } from "../../kit/layout.tsx";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import "./rollout-explanation.tsx";
import "./rollouts.css";
import { StartDialog } from "./start-dialog.tsx";
import { shareText } from "./verdict.ts";

export function RolloutsPage() {
  const list = useList<Rollout>(
    "rollouts",
    (cursor, signal) => api.value.request("GET /rollouts", { query: { limit: 100, cursor } }, { signal }),
    { mayAdd: ({ event }) => event === "rollout" },
  );
  return (
    <Page
      title="Rollouts"
      isFilled
      actions={
        may("system") && (
          <a class="button main" href={hrefWith({ start: "1" })}>
            Start a rollout
          </a>
        )
      }
    >
      <p class="soft">
        A rollout uses another retry policy for a share of the runs and jobs, compares them with the others at the same
        time, and rolls back by itself if the change makes things worse.
      </p>
      <VirtualTable
        what="rollouts"
        list={list}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty={<Empty title="no rollouts yet">Every rollout is listed here, also after it has ended.</Empty>}
      />
      {param("start") !== "" && may("system") && <StartDialog />}
    </Page>
  );
}

const COLUMNS: readonly Column<Rollout>[] = [
  { name: "Rollout", width: "4.2rem", cell: ({ id }) => <a href={`/rollouts/${segment(id)}`}>{id}</a> },
  { name: "State", width: "7.4rem", cell: ({ state }) => <StateBadge state={state} /> },
  { name: "Class", width: "minmax(6rem, 1fr)", cell: (rollout) => rollout.class },
  {
    name: "Change",
    width: "minmax(10rem, 1.8fr)",
    priority: 2,
    cell: ({ control, policy }) => (
      <span class="mono" title={`${control} → ${policy}`}>
        {control} → {policy}
      </span>
    ),
  },
  { name: "Share", width: "4.5rem", align: "end", priority: 2, cell: ({ share }) => shareText(share) },
  { name: "Started", width: "6.5rem", priority: 3, cell: ({ started_at }) => <Time at={started_at} /> },
  {
    name: "Reason",
    width: "minmax(8rem, 2fr)",
    priority: 3,
    cell: ({ reason }) => <span title={reason}>{reason}</span>,
  },
  { name: "", width: "4.6rem", cell: ({ id }) => <Explain of="rollout" id={id} /> },
];
