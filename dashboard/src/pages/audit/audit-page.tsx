/** What was decided and changed, by which key, newest first. The entries form a hash chain. */
import { useSignal } from "@preact/signals";
import type { AuditEntry } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import { hrefWith, param } from "../../data/location.ts";
import { api, chosenTenant, may, who } from "../../data/session.ts";
import { Badge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Filters, SelectFilter, TextFilter } from "../../kit/filters.tsx";
import { Page } from "../../kit/layout.tsx";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { auditQuery, FILTERS } from "./audit-query.ts";
import { EntryDrawer } from "./entry-drawer.tsx";
import { titleOf, toneOfAction } from "./entry-title.ts";
import { ExportButton } from "./export-button.tsx";
import { VerifyDialog } from "./verify-dialog.tsx";

const SINCE = [
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
] as const;

/** Kinds and the most frequent actions. */
const ACTIONS = [
  ...["decision", "approval", "fail_open", "policy", "key", "cancel", "dead_letter", "pool", "kill", "breaker"],
  ...["workflow", "run", "schedule", "rollout", "deny", "approved", "rejected", "bypassed", "opened", "published"],
];

export function AuditPage() {
  const query = auditQuery();
  const isVerifying = useSignal(false);
  const list = useList<AuditEntry>(
    `audit ${JSON.stringify(query)}`,
    (cursor, signal) => api.value.request("GET /audit", { query: { ...query, limit: 100, cursor } }, { signal }),
    { mayAdd: () => true },
  );
  const entry = param("entry");
  return (
    <Page
      title="Audit"
      isFilled
      actions={
        may("operate") && (
          <>
            <button
              type="button"
              class="button"
              onClick={() => {
                isVerifying.value = true;
              }}
            >
              Verify …
            </button>
            <ExportButton query={query} />
          </>
        )
      }
    >
      <AuditFilters />
      <VirtualTable
        what="entries"
        list={list}
        columns={COLUMNS}
        keyOf={({ index }) => String(index)}
        empty={
          <Empty title="no entries match">
            Decisions, approvals and changes by keys appear here. Clear the filters to see all.
          </Empty>
        }
      />
      {entry !== "" && <EntryDrawer key={entry} index={entry} />}
      {isVerifying.value && (
        <VerifyDialog
          onClose={() => {
            isVerifying.value = false;
          }}
        />
      )}
    </Page>
  );
}

function AuditFilters() {
  return (
    <Filters names={[...FILTERS, "log"]}>
      {who.value?.tenant === "*" && (
        <SelectFilter
          name="log"
          label="Log"
          options={[["system", "of all tenants"]]}
          all={`of tenant ${chosenTenant.value || "default"}`}
        />
      )}
      <TextFilter name="job" label="Job" placeholder="any id" />
      <TextFilter name="actor" label="Actor" placeholder="key or worker" />
      <TextFilter name="action" label="Action or kind" placeholder="any" suggestions={ACTIONS} />
      <SelectFilter name="since" label="In the last" options={SINCE} all="any time" />
    </Filters>
  );
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  {
    name: "Entry",
    width: "4.5rem",
    cell: ({ index }) => (
      <a class="mono" href={hrefWith({ entry: String(index) })} aria-label={`entry ${index}`}>
        {index}
      </a>
    ),
  },
  { name: "Time", width: "6.5rem", cell: ({ at }) => <Time at={at} /> },
  {
    name: "Action",
    width: "minmax(8rem, 1fr)",
    cell: ({ kind, what }) => <Badge tone={toneOfAction(what)}>{titleOf(kind, what)}</Badge>,
  },
  { name: "Actor", width: "minmax(6rem, 0.8fr)", priority: 2, cell: (entry) => <Actor entry={entry} /> },
  {
    name: "Details",
    width: "minmax(8rem, 3fr)",
    priority: 2,
    cell: ({ facts }) => <span class="soft">{factsText(facts)}</span>,
  },
  {
    name: "",
    width: "4.6rem",
    priority: 3,
    cell: ({ facts: { job } }) => typeof job === "string" && <Explain of="job" id={job} />,
  },
];

function Actor({ entry: { who: id, who_name: name } }: { readonly entry: AuditEntry }) {
  return (
    <a href={hrefWith({ actor: id })} title={`entries of ${id}`} class={name === null ? "mono" : ""}>
      {name ?? id}
    </a>
  );
}

function factsText(facts: AuditEntry["facts"]): string {
  return Object.entries(facts)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(" · ")
    .slice(0, 300);
}
