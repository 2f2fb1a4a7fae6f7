/** Published policies, newest first; one of them is in force. */
import type { PolicyRelease } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import { hrefWith, param, setParams } from "../../data/location.ts";
import { api, who } from "../../data/session.ts";
import { Badge } from "../../kit/badge.tsx";
import { counted } from "../../kit/numbers.ts";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { ReleaseDialog } from "./release-dialog.tsx";

export function ReleasesView() {
  const list = useList<PolicyRelease>("policy releases", (cursor, signal) =>
    api.value.request("GET /policy/snapshots", { query: { limit: 100, cursor } }, { signal }),
  );
  const chosen = param("release");
  const columns = who.value?.tenant === "*" ? [...COLUMNS, OPEN] : COLUMNS;
  return (
    <div class="releases">
      <VirtualTable
        what="releases"
        list={list}
        columns={columns}
        keyOf={({ release_id }) => release_id}
        empty={<Empty title="nothing was published yet">The policy in force is built in, or read from a file.</Empty>}
      />
      {chosen !== "" && who.value?.tenant === "*" && (
        <ReleaseDialog
          key={chosen}
          id={chosen}
          onDone={() => {
            setParams({ release: null });
            void list.reload();
          }}
        />
      )}
    </div>
  );
}

const COLUMNS: readonly Column<PolicyRelease>[] = [
  {
    name: "Name",
    width: "minmax(7rem, 2fr)",
    cell: ({ name }) => <span title={name}>{name}</span>,
  },
  {
    name: "",
    width: "5.6rem",
    cell: ({ in_force }) => in_force && <Badge tone="good">in force</Badge>,
  },
  {
    name: "Version",
    width: "minmax(4rem, 1fr)",
    priority: 2,
    cell: ({ version }) => version ?? <span class="soft">–</span>,
  },
  { name: "Rules", width: "5rem", align: "end", priority: 2, cell: ({ rules }) => counted(rules, "rule") },
  { name: "Published", width: "minmax(6rem, 7rem)", cell: ({ at }) => <Time at={at} /> },
  {
    name: "By",
    width: "minmax(5rem, 1fr)",
    priority: 3,
    cell: ({ by, by_name: name }) => <span title={by}>{name ?? by}</span>,
  },
  { name: "Note", width: "minmax(6rem, 2fr)", priority: 3, cell: ({ note }) => <span title={note ?? ""}>{note}</span> },
];

const OPEN: Column<PolicyRelease> = {
  name: "Details",
  width: "5rem",
  cell: ({ release_id, name }) => (
    <a class="button small ghost" href={hrefWith({ release: release_id })} aria-label={`open ${name}`}>
      Open
    </a>
  ),
};
