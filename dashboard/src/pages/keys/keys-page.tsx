/** API keys with role, tenant and expiry. Secrets are shown once, when a key is created. */
import { useSignal } from "@preact/signals";
import type { ApiKey } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import { href } from "../../data/location.ts";
import { api, may } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Id, Page } from "../../kit/layout.tsx";
import { Empty } from "../../kit/state.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { CreateDialog } from "./create-dialog.tsx";
import { KeyState } from "./key-state.tsx";
import "./key-explanation.tsx";
import "./keys.css";

export function KeysPage() {
  const isCreating = useSignal(false);
  const list = useList<ApiKey>("keys", (cursor, signal) =>
    api.value.request("GET /keys", { query: { limit: 100, cursor } }, { signal }),
  );
  const reload = () => void list.reload();
  return (
    <Page
      title="Keys"
      isFilled
      actions={
        may("admin") && (
          <button
            type="button"
            class="button main"
            onClick={() => {
              isCreating.value = true;
            }}
          >
            Create a key …
          </button>
        )
      }
    >
      <VirtualTable
        what="keys"
        list={list}
        columns={columnsFor(reload)}
        keyOf={({ id }) => id}
        empty={
          <Empty title="no API keys">
            Until the first one exists, the start-up token of the data directory has all permissions.
          </Empty>
        }
      />
      {isCreating.value && (
        <CreateDialog
          onCreated={reload}
          onClose={() => {
            isCreating.value = false;
          }}
        />
      )}
    </Page>
  );
}

const columnsFor = (reload: () => void): readonly Column<ApiKey>[] => [
  {
    name: "Name",
    width: "minmax(5rem, 1.2fr)",
    cell: ({ id, name }) => <span title={id}>{name ?? <span class="soft">no name</span>}</span>,
  },
  { name: "Id", width: "minmax(8rem, 1.6fr)", priority: 3, cell: ({ id }) => <Id id={id} /> },
  { name: "State", width: "6rem", cell: ({ state }) => <KeyState state={state} /> },
  { name: "Role", width: "5.5rem", priority: 2, cell: ({ role }) => role },
  {
    name: "Tenant",
    width: "minmax(5rem, 0.7fr)",
    priority: 2,
    cell: ({ tenant }) => (tenant === "*" ? "all tenants" : tenant),
  },
  {
    name: "Owner",
    width: "minmax(6rem, 1fr)",
    priority: 3,
    cell: ({ person, actor_id: actor }) => person ?? (actor === null ? "" : <span class="mono">{actor}</span>),
  },
  {
    name: "Expires",
    width: "9rem",
    priority: 2,
    cell: ({ expires_at: at, revoked_at: revoked }) => {
      if (revoked !== null) {
        return (
          <>
            revoked <Time at={revoked} />
          </>
        );
      }
      return at === null ? <span class="soft">never</span> : <Time at={at} />;
    },
  },
  { name: "Created", width: "8rem", priority: 3, cell: ({ created_at }) => <Time at={created_at} /> },
  {
    name: "Last used",
    width: "7rem",
    priority: 2,
    cell: ({ id, last_used_at: at }) =>
      at === null ? (
        <span class="soft">–</span>
      ) : (
        <a href={href("/audit", { actor: id })} title="in the audit log">
          <Time at={at} />
        </a>
      ),
  },
  { name: "Explain", width: "4.6rem", cell: ({ id }) => <Explain of="key" id={id} /> },
  {
    name: "",
    width: "7.1rem",
    align: "end",
    cell: ({ id, name, role, state }) => state === "good" && <Revoke id={id} name={name} role={role} onDone={reload} />,
  },
];

interface RevokeProps extends Pick<ApiKey, "id" | "name" | "role"> {
  readonly onDone: () => void;
}

function Revoke({ id, name, role, onDone }: RevokeProps) {
  return (
    <Action
      label="Revoke"
      tone="danger"
      size="small"
      needs="admin"
      send="DELETE /keys/{id}"
      args={{ path: { id } }}
      cli={["key revoke", id]}
      confirm={{
        title: `Revoke ${name ?? id}?`,
        text: `Requests with this key of role ${role} are refused within a second, in every process, and its sessions end. Keys that it created stay valid.`,
      }}
      done="key revoked"
      onDone={onDone}
    />
  );
}
