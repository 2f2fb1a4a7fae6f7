/** Every step of a rollout with its author and reason, from the audit log. */
import type { AuditEntry } from "../../../../src/client/schema.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Section } from "../../kit/layout.tsx";
import { Show } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { shareText } from "./verdict.ts";

export function History({ id }: { readonly id: string }) {
  const entries = useResource(`history of ${id}`, async (signal) => {
    const query = { system: true, action: "rollout", limit: ENTRIES };
    const { items } = await api.value.request("GET /audit", { query }, { signal });
    return items.filter(({ facts }) => facts.rollout === id);
  });
  return (
    <Section title="History" about="from the audit log">
      <Show of={entries} what="the history" isEmpty={(items) => items.length === 0}>
        {(items) => <Table label="history" columns={COLUMNS} rows={items} keyOf={({ hash }) => hash} />}
      </Show>
    </Section>
  );
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: "Time", width: "7rem", cell: ({ at }) => <Time at={at} /> },
  { name: "Step", width: "minmax(6rem, 1fr)", cell: ({ what }) => what.replaceAll("_", " ") },
  {
    name: "Share",
    width: "4.5rem",
    align: "end",
    priority: 2,
    cell: ({ facts: { share } }) => typeof share === "number" && shareText(share),
  },
  { name: "By", width: "minmax(6rem, 1fr)", priority: 2, cell: ({ who, who_name }) => who_name ?? who },
  {
    name: "Reason",
    width: "minmax(8rem, 3fr)",
    cell: ({ facts: { reason } }) => <span title={String(reason ?? "")}>{String(reason ?? "")}</span>,
  },
];

/** The newest steps of all rollouts. */
const ENTRIES = 200;
