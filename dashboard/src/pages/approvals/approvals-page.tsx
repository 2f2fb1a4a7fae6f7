/** Jobs that wait for a decision of a person, and the one that is being decided. */
import { useMemo, useRef } from "preact/hooks";
import type { Approval, JobState } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import type { Change } from "../../data/live.ts";
import { hrefWith, param, setParams } from "../../data/location.ts";
import { api } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { Page } from "../../kit/layout.tsx";
import { useShortcuts } from "../../kit/shortcuts.tsx";
import { Split } from "../../kit/split.tsx";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Countdown } from "../../kit/time.tsx";
import "./approvals.css";
import { Review } from "./review.tsx";

/** A request stays in the list until it is loaded again, marked as decided: rows do not move under the reader. */
type Row = Approval & { readonly state?: JobState };

export function ApprovalsPage() {
  const list = useList<Row>(
    "approvals",
    (cursor, signal) => api.value.request("GET /approvals", { query: { limit: 100, cursor } }, { signal }),
    { live: { idOf: ({ job_id }) => job_id, apply: applyChange }, mayAdd: isAffected },
  );
  const shown = list.shown.value;
  const rows = shown.kind === "ready" ? shown.value : null;
  const chosen = param("job") || rows?.at(0)?.job_id || "";
  const held = useRef({ rows, chosen });
  held.current = { rows, chosen };
  const move = (step: 1 | -1) => {
    const { rows, chosen } = held.current;
    const at = Array.from({ length: rows?.count ?? 0 }, (_, index) => rows?.at(index)?.job_id).indexOf(chosen);
    const next = rows?.at(Math.max(0, at + step))?.job_id;
    if (next === undefined) return;
    setParams({ job: next }, { replace: true });
    const link = document.querySelector<HTMLElement>(`.rows a[data-job="${CSS.escape(next)}"]`);
    link?.focus();
    link?.scrollIntoView({ block: "nearest" });
  };
  const shortcuts = useMemo(
    () => [
      { keys: "j", does: "next request", run: () => move(1) },
      { keys: "k", does: "previous request", run: () => move(-1) },
    ],
    [],
  );
  useShortcuts(shortcuts);
  const columns = useMemo(() => columnsFor(chosen), [chosen]);
  const isEmpty = rows?.count === 0 && !rows.hasMore;
  const table = (
    <VirtualTable
      what="requests"
      list={list}
      columns={columns}
      keyOf={({ job_id }) => job_id}
      empty={
        <Empty title="nothing to decide">
          Jobs appear here when a rule of the policy decides <code>require_approval</code>.
        </Empty>
      }
    />
  );
  return (
    <Page title="Approvals" isFilled>
      {isEmpty && chosen === "" ? (
        table
      ) : (
        <Split name="job" what="requests" list={table}>
          {chosen !== "" && <Review key={chosen} id={chosen} onDecided={() => void list.reload()} />}
        </Split>
      )}
    </Page>
  );
}

function columnsFor(chosen: string): readonly Column<Row>[] {
  return [
    {
      name: "Request",
      width: "minmax(7rem, 2fr)",
      cell: ({ job_id, topic }) => (
        <a
          class="mono"
          href={hrefWith({ job: job_id })}
          data-job={job_id}
          aria-current={job_id === chosen ? "true" : undefined}
          title={job_id}
        >
          {topic}
        </a>
      ),
    },
    {
      name: "Arguments",
      width: "minmax(6rem, 1.6fr)",
      cell: ({ input }) => <span class="soft">{preview(input)}</span>,
    },
    {
      name: "Expires",
      width: "8.5rem",
      align: "end",
      cell: ({ state, expires_at }) => {
        if (state !== undefined) return <StateBadge state={state} />;
        return expires_at === null ? "–" : <Countdown at={expires_at} />;
      },
    },
  ];
}

/** The first values, to tell requests of one topic apart: `A-17 · 120`. */
function preview(input: unknown): string {
  if (typeof input !== "object" || input === null) return String(input ?? "");
  const values = Object.values(input).filter((value) => typeof value === "string" || typeof value === "number");
  return values.slice(0, 4).join(" · ").slice(0, 120);
}

function applyChange(row: Row, change: Change): Row {
  if (change.event !== "job" || change.data.job_id !== row.job_id) return row;
  const { state, ...rest } = row;
  return change.data.state === "APPROVAL_REQUIRED" ? rest : { ...rest, state: change.data.state };
}

/** A job of the list leaves it with any other state; without its id the event says only that one may have. */
function isAffected(change: Change): boolean {
  return change.event === "job" && (change.data.state === "APPROVAL_REQUIRED" || change.data.state === "SCHEDULED");
}
