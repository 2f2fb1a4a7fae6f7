/** Jobs and messages that ended without success: by cause, or one by one. */
import type { DeadLetter, DeadLetterGroup } from "../../../../src/client/schema.ts";
import { firstPage, useList } from "../../data/list.ts";
import type { Change } from "../../data/live.ts";
import { hrefWith, param, segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Badge } from "../../kit/badge.tsx";
import { BulkButtons } from "../../kit/bulk/dialog.tsx";
import { filterOfAddress } from "../../kit/bulk/filter.ts";
import type { BulkAction } from "../../kit/bulk/operation.ts";
import { BulkProgress } from "../../kit/bulk/progress.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Filters, SelectFilter, TextFilter } from "../../kit/filters.tsx";
import { Page, Tabs } from "../../kit/layout.tsx";
import { count } from "../../kit/numbers.ts";
import { Prose } from "../../kit/prose.tsx";
import { Empty, Show } from "../../kit/state.tsx";
import { type Column, Table, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import "./dead-letters.css";
import { bulkQuery, bulkTarget, FILTERS, runner } from "./query.ts";

const TABS = [
  ["groups", "By cause"],
  ["list", "One by one"],
] as const;

export function DeadLettersPage() {
  const isList = param("view") === "list";
  return (
    <Page title="Dead letters" isFilled={isList}>
      <Tabs name="view" tabs={TABS} />
      <BulkProgress runner={runner} path="/dead-letters" />
      {isList ? <Letters /> : <Groups />}
    </Page>
  );
}

/** A job that ends without success may have one. */
const mayAdd = (change: Change): boolean =>
  change.event === "job" && (change.data.state === "FAILED" || change.data.state === "TIMEOUT");

function Groups() {
  const groups = useResource("dead letter groups", (signal) => api.value.request("GET /dlq/groups", {}, { signal }), {
    isAffected: (change) => mayAdd(change) || change.event === "job",
    gapMs: 2_000,
  });
  const nothing = (
    <Empty title="no dead letters">Jobs that fail for good, and messages without a reader, appear here.</Empty>
  );
  return (
    <Show of={groups} what="dead letters" isEmpty={({ items }) => items.length === 0} empty={nothing}>
      {({ items, more }) => (
        <div class="panel groups">
          <Table label="causes" columns={GROUPS} rows={items} keyOf={({ fingerprint }) => fingerprint} />
          {more && <p class="soft">There are more causes; the largest are shown.</p>}
        </div>
      )}
    </Show>
  );
}

const GROUPS: readonly Column<DeadLetterGroup>[] = [
  {
    name: "Count",
    width: "3.5rem",
    align: "end",
    cell: (group) => <strong>{count(group.count)}</strong>,
  },
  {
    name: "Cause",
    width: "minmax(12rem, 4fr)",
    cell: (group) => (
      <>
        <a href={hrefWith({ ...cleared(), view: "list", fingerprint: group.fingerprint })}>
          {group.error}: {group.pattern}
        </a>
        <p class="soft">
          <Prose text={group.fix.what} />
        </p>
      </>
    ),
  },
  { name: "Topic", width: "minmax(7rem, 1fr)", priority: 2, cell: ({ topic }) => <span class="mono">{topic}</span> },
  { name: "Reason", width: "7.5rem", priority: 3, cell: ({ reason }) => <ReasonBadge reason={reason} /> },
  { name: "First", width: "6.5rem", priority: 3, cell: ({ first_seen }) => <Time at={first_seen} /> },
  { name: "Last", width: "6.5rem", priority: 2, cell: ({ last_seen }) => <Time at={last_seen} /> },
  {
    name: "",
    width: "minmax(4.8rem, 15rem)",
    align: "end",
    cell: ({ fingerprint, reason, sample_id }) => (
      <div class="row-actions">
        <BulkButtons
          target={TARGET}
          query={bulkQuery({ fingerprint })}
          actions={actionsOf(reason !== "undecodable")}
          isSmall
        />
        {!sample_id.includes("/") && <Explain of="job" id={sample_id} />}
      </div>
    ),
  },
];

const cleared = () => Object.fromEntries(FILTERS.map((name) => [name, null]));

function ReasonBadge({ reason }: { readonly reason: string }) {
  return <Badge tone={reason === "timeout" ? "warn" : "bad"}>{reason}</Badge>;
}

const REASONS = ["permanent", "undecodable", "budget", "timeout"];
const AGES = [
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
] as const;

function Letters() {
  const filter = filterOfAddress(FILTERS);
  const list = useList<DeadLetter>(
    `dead letters ${JSON.stringify(filter)}`,
    (cursor, signal) =>
      api.value.request("GET /dlq", { query: { ...filter, ...firstPage(cursor), limit: 100 } }, { signal }),
    { mayAdd },
  );
  const isGroup = filter.fingerprint !== undefined;
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <>
      <div class="filter-line">
        <Filters names={FILTERS}>
          {isGroup ? (
            <TextFilter name="fingerprint" label="Group" />
          ) : (
            <>
              <TextFilter name="topic" label="Topic" placeholder="any" />
              <SelectFilter name="reason" label="Reason" options={REASONS} all="any" />
              <TextFilter name="error" label="Error" placeholder="any" />
            </>
          )}
          <SelectFilter name="newer_than" label="Younger than" options={AGES} all="any age" />
          <SelectFilter name="older_than" label="Older than" options={AGES} all="any age" />
        </Filters>
        <span class="grow" />
        <BulkButtons target={TARGET} query={bulkQuery(filter)} actions={actionsOf(filter.reason !== "undecodable")} />
      </div>
      <VirtualTable
        what="dead letters"
        list={list}
        columns={LETTERS}
        keyOf={({ id }) => id}
        empty={
          <Empty title={isFiltered ? "no dead letters match" : "no dead letters"}>
            {isFiltered ? "Clear the filters to see all." : "Jobs that fail for good appear here."}
          </Empty>
        }
      />
    </>
  );
}

const LETTERS: readonly Column<DeadLetter>[] = [
  {
    name: "Id",
    width: "minmax(8rem, 1.6fr)",
    cell: ({ id }) => (
      <a class="mono" href={`/dead-letters/${segment(id)}`}>
        {id}
      </a>
    ),
  },
  { name: "Topic", width: "minmax(7rem, 1fr)", priority: 2, cell: ({ topic, subject }) => topic ?? subject ?? "" },
  { name: "Reason", width: "7.5rem", cell: ({ reason }) => <ReasonBadge reason={reason} /> },
  {
    name: "Error",
    width: "minmax(8rem, 2.2fr)",
    priority: 2,
    cell: ({ error }) => (error === null ? "" : `${error.name}: ${error.message}`),
  },
  { name: "Tenant", width: "7rem", priority: 3, cell: ({ tenant_id }) => tenant_id },
  {
    name: "Attempts",
    width: "5rem",
    priority: 3,
    align: "end",
    cell: ({ attempt, deliveries }) => attempt ?? deliveries,
  },
  { name: "Dead-lettered", width: "7rem", cell: ({ created_at }) => <Time at={created_at} /> },
  {
    name: "",
    width: "4.6rem",
    priority: 2,
    cell: ({ job_id }) => job_id !== undefined && <Explain of="job" id={job_id} />,
  },
];

const SAMPLE: readonly Column<DeadLetter>[] = [
  { name: "Id", width: "minmax(5.4rem, 1.4fr)", cell: ({ id }) => <span class="mono">{id}</span> },
  { name: "Topic", width: "minmax(6rem, 1fr)", priority: 2, cell: ({ topic, subject }) => topic ?? subject ?? "" },
  { name: "Error", width: "minmax(5rem, 2fr)", cell: ({ error }) => error?.message ?? "" },
  { name: "Dead-lettered", width: "7rem", cell: ({ created_at }) => <Time at={created_at} /> },
];

const actionsOf = (isRetryable: boolean): readonly BulkAction[] => (isRetryable ? ["retry", "drop"] : ["drop"]);
const TARGET = bulkTarget(SAMPLE);
