/** One entry of the audit log: `?entry=INDEX`. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { AuditEntry } from "../../../../src/client/schema.ts";
import { href, hrefWith, path, segment, setParams } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Facts, Id } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { Empty, Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { isSystem } from "./audit-query.ts";
import { hashOfEntry } from "./entry-hash.ts";
import { titleOf, toneOfAction } from "./entry-title.ts";

export function EntryDrawer({ index: text }: { readonly index: string }) {
  const index = Number(text);
  const query = { index, system: isSystem() || undefined };
  const found = useResource(`audit entry ${JSON.stringify(query)}`, (signal) =>
    api.value.request("GET /audit", { query }, { signal }),
  );
  return (
    <Dialog kind="drawer" title={`Entry ${text}`} onClose={() => setParams({ entry: null })}>
      <Show
        of={found}
        what="the entry"
        isEmpty={({ items }) => items.length === 0}
        empty={<Empty title={`the log has no entry ${text}`}>The newest entry has the highest number.</Empty>}
      >
        {({ items: [entry] }) => entry !== undefined && <Entry entry={entry} />}
      </Show>
      <nav class="buttons" aria-label="neighbours">
        <a class="button" href={hrefWith({ entry: String(index + 1) })}>
          Newer
        </a>
        {index > 0 && (
          <a class="button" href={hrefWith({ entry: String(index - 1) })}>
            Older
          </a>
        )}
        <RequestMenu label="this entry" request={{ name: "GET /audit", query }} cli={null} />
      </nav>
    </Dialog>
  );
}

function Entry({ entry }: { readonly entry: AuditEntry }) {
  const { at, kind, what, who, who_name: name, facts, prev, hash } = entry;
  return (
    <>
      <p class="lead">
        <Badge tone={toneOfAction(what)}>{titleOf(kind, what)}</Badge>
      </p>
      <Facts
        of={[
          ["time", <Time key="at" at={at} both />],
          ["actor", <ActorLink key="who" id={who} name={name} />],
          ["kind", kind],
          ["action", what],
          ...Object.entries(facts).map(
            ([fact, value]) => [fact, <Fact key={fact} name={fact} value={value} />] as const,
          ),
        ]}
      />
      <HashNote entry={entry} />
      <Facts
        of={[
          ["hash", <Id key="hash" id={hash} />],
          ["previous hash", <Id key="prev" id={prev} />],
        ]}
      />
    </>
  );
}

function ActorLink({ id, name }: { readonly id: string; readonly name: string | null }) {
  return (
    <>
      {name !== null && <strong>{name} </strong>}
      <Id id={id} />
      <a href={hrefWith({ actor: id, entry: null })}>their entries</a>
    </>
  );
}

/** Facts that name a record of another page. */
const PAGES: Readonly<Record<string, string>> = {
  job: "/jobs",
  run: "/runs",
  run_id: "/runs",
  schedule: "/schedules",
  rollout: "/rollouts",
};

function Fact({ name, value }: { readonly name: string; readonly value: unknown }) {
  const page = PAGES[name];
  if (page === undefined || typeof value !== "string") return <span class="mono">{String(value ?? "–")}</span>;
  return (
    <>
      <Id id={value} to={`${page}/${segment(value)}`} />
      {name === "job" && <a href={href(path.value, { job: value })}>its entries</a>}
    </>
  );
}

/** A changed entry does not match its hash. The links between entries are verified by the control plane. */
function HashNote({ entry }: { readonly entry: AuditEntry }) {
  const computed = useSignal<string | null | undefined>(undefined);
  useEffect(() => {
    let isShown = true;
    void hashOfEntry(entry).then((hash) => {
      if (isShown) computed.value = hash;
    });
    return () => {
      isShown = false;
    };
  }, [entry, computed]);
  if (computed.value === undefined || computed.value === null) return null;
  return computed.value === entry.hash ? (
    <Note tone="good">The hash matches this entry, computed in this browser.</Note>
  ) : (
    <Note tone="bad">The hash does not match this entry: it was changed after it was written.</Note>
  );
}
