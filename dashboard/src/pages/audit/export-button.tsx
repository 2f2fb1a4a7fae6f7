/** Saves the entries of the filter as a file with one JSON document a line, oldest last. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { download } from "../../kit/download.ts";
import { count, counted } from "../../kit/numbers.ts";
import { notify, notifyError } from "../../kit/toast.tsx";
import { type AuditQuery, auditFlags } from "./audit-query.ts";

export function ExportButton({ query }: { readonly query: AuditQuery }) {
  /** Entries read so far; null: no export is under way. */
  const read = useSignal<number | null>(null);
  const stopping = useRef(new AbortController());
  useEffect(() => () => stopping.current.abort(), []);
  const start = async () => {
    stopping.current = new AbortController();
    const { signal } = stopping.current;
    read.value = 0;
    try {
      const lines: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await api.peek().request("GET /audit", { query: { ...query, limit: 200, cursor } }, { signal });
        for (const entry of page.items) lines.push(`${JSON.stringify(entry)}\n`);
        read.value = lines.length;
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined && lines.length < ENTRIES_MAX);
      download(`audit-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.ndjson`, TYPE, lines);
      const rest = cursor === undefined ? "" : "; there are older ones: narrow the filter, or use the command line";
      notify("audit log exported", `${counted(lines.length, "entry", "entries")}${rest}`);
    } catch (error) {
      if (!signal.aborted) notifyError(error);
    }
    read.value = null;
  };
  return (
    <span class="action">
      {read.value === null ? (
        <button type="button" class="button" onClick={() => void start()}>
          Export
        </button>
      ) : (
        <button type="button" class="button" onClick={() => stopping.current.abort()}>
          Stop: {count(read.value)} read
        </button>
      )}
      <RequestMenu
        label="Export"
        request={{ name: "GET /audit", query: { ...query, limit: 200 } }}
        cli={["audit list", ...auditFlags(query), "--limit", "200", "--json"]}
      />
    </span>
  );
}

const ENTRIES_MAX = 100_000;
const TYPE = "application/x-ndjson";
