/** Creates a key and shows its secret, once. */
import { type Signal, useSignal } from "@preact/signals";
import type { ApiKeyCreated, CreateKeyRequest } from "../../../../src/client/schema.ts";
import { who } from "../../data/session.ts";
import { Action, copyText } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Facts } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { Time } from "../../kit/time.tsx";
import { ROLES, type Role } from "./roles.ts";

const ROLE_NAMES = (Object.keys(ROLES) as Role[]).map((role) => [role, role] as const);

const DAY_MS = 86_400_000;
const LIFETIMES: readonly (readonly [number, string])[] = [
  [3_600_000, "1 hour"],
  [DAY_MS, "1 day"],
  [30 * DAY_MS, "30 days"],
  [90 * DAY_MS, "90 days"],
  [365 * DAY_MS, "1 year"],
  [0, "no expiry"],
];

interface CreateDialogProps {
  readonly onCreated: () => void;
  readonly onClose: () => void;
}

export function CreateDialog({ onCreated, onClose }: CreateDialogProps) {
  const created = useSignal<ApiKeyCreated | null>(null);
  if (created.value !== null) return <Created made={created.value} onClose={onClose} />;
  return (
    <Form
      onClose={onClose}
      onCreated={(key) => {
        created.value = key;
        onCreated();
      }}
    />
  );
}

interface FormProps {
  readonly onCreated: (key: ApiKeyCreated) => void;
  readonly onClose: () => void;
}

function Form({ onCreated, onClose }: FormProps) {
  const isForAll = who.value?.tenant === "*";
  const [name, person, actor] = [useSignal(""), useSignal(""), useSignal("")];
  const tenant = useSignal(isForAll ? "default" : "");
  const role = useSignal<Role>("operator");
  const lifetime = useSignal(90 * DAY_MS);
  const text = ({ value }: Signal<string>) => value.trim() || undefined;
  const body: CreateKeyRequest = {
    role: role.value,
    tenant: text(tenant),
    name: text(name),
    person: text(person),
    actor_id: text(actor),
    expires_in_ms: lifetime.value || undefined,
  };
  const buttons = (
    <>
      <button type="button" class="button" onClick={onClose}>
        Back
      </button>
      <Action
        label="Create"
        tone="main"
        needs="admin"
        isDisabled={isForAll && body.tenant === undefined}
        send="POST /keys"
        args={{ body }}
        cli={["key create", ...flagsOf(body)]}
        done="key created"
        onDone={onCreated}
      />
    </>
  );
  return (
    <Dialog title="Create a key" onClose={onClose} footer={buttons}>
      <TextField label="Name" value={name} placeholder="what it is for" />
      <Choice label="Role" value={role} options={ROLE_NAMES} hint={ROLES[role.value]} />
      {isForAll && <TextField label="Tenant" value={tenant} hint="* for all tenants" />}
      <Choice
        label="Valid for"
        value={lifetime}
        options={LIFETIMES}
        hint="at most as long as the key you are signed in with"
      />
      <TextField
        label="Owner (optional)"
        value={person}
        placeholder="a mail address"
        hint="a person cannot approve jobs submitted with any key of theirs"
      />
      <TextField
        label="Bound to the actor (optional)"
        value={actor}
        placeholder="agent:support-7"
        hint="submissions get this actor id, another one is refused"
      />
    </Dialog>
  );
}

interface ChoiceProps<T> {
  readonly label: string;
  readonly value: Signal<T>;
  readonly options: readonly (readonly [T, string])[];
  readonly hint: string;
}

function Choice<T extends string | number>({ label, value, options, hint }: ChoiceProps<T>) {
  return (
    <label class="field">
      <span>{label}</span>
      <select
        value={String(value.value)}
        onChange={(event) => {
          const [chosen] = options[event.currentTarget.selectedIndex] ?? [];
          if (chosen !== undefined) value.value = chosen;
        }}
      >
        {options.map(([one, text]) => (
          <option key={one} value={String(one)}>
            {text}
          </option>
        ))}
      </select>
      <span class="hint">{hint}</span>
    </label>
  );
}

function flagsOf({ role, tenant, name, person, actor_id, expires_in_ms }: CreateKeyRequest): readonly string[] {
  const flags = { role, tenant, name, person, "actor-id": actor_id };
  return [
    ...Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag}`, value])),
    ...(expires_in_ms === undefined ? [] : ["--expires-in", `${expires_in_ms / 3_600_000}h`]),
  ];
}

interface TextFieldProps {
  readonly label: string;
  readonly value: Signal<string>;
  readonly placeholder?: string;
  readonly hint?: string;
}

function TextField({ label, value, placeholder, hint }: TextFieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        maxLength={256}
        autoComplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={value.value}
        onInput={(event) => {
          value.value = event.currentTarget.value;
        }}
      />
      {hint !== undefined && <span class="hint">{hint}</span>}
    </label>
  );
}

function Created({ made, onClose }: { readonly made: ApiKeyCreated; readonly onClose: () => void }) {
  const { key, id, role, tenant, expires_at: expires } = made;
  return (
    <Dialog
      title="Key created"
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={() => void copyText(key)}>
            Copy the key
          </button>
          <button type="button" class="button main" onClick={onClose}>
            I have stored it
          </button>
        </>
      }
    >
      <Note tone="warn">
        This is the only time that the key is shown. Store it now; a lost key is replaced, not recovered.
      </Note>
      <input
        class="mono secret"
        type="text"
        readOnly
        aria-label="key"
        value={key}
        onFocus={(event) => event.currentTarget.select()}
      />
      <Facts
        of={[
          ["id", id],
          ["role", role],
          ["tenant", tenant === "*" ? "all tenants" : tenant],
          ["expires", expires === null ? "never" : <Time key="expires" at={expires} both />],
        ]}
      />
    </Dialog>
  );
}
