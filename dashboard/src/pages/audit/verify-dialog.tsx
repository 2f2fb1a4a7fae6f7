/** Verifies the hash chain of the log, also against a head that was saved elsewhere, and signs its current head. */
import { type Signal, useSignal } from "@preact/signals";
import type { GetAuditVerifyResponse } from "../../../../src/client/schema.ts";
import { hrefWith } from "../../data/location.ts";
import { Action } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { download } from "../../kit/download.ts";
import { Facts, Id } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { counted } from "../../kit/numbers.ts";
import { isSystem } from "./audit-query.ts";

export function VerifyDialog({ onClose }: { readonly onClose: () => void }) {
  const text = useSignal("");
  const verified = useSignal<GetAuditVerifyResponse | null>(null);
  const saved = readSaved(text.value);
  const system = isSystem() || undefined;
  const flags = system ? ["--system"] : [];
  const query = { system, ...(saved === "bad" ? {} : saved) };
  return (
    <Dialog
      kind="wide"
      title={system ? "Verify the log of all tenants" : "Verify the log"}
      onClose={onClose}
      footer={
        <>
          <Action
            label="Download signed checkpoint"
            needs="operate"
            send="GET /audit/checkpoint"
            args={{ query: { system } }}
            cli={["audit checkpoint", ...flags, "--out", "checkpoint.json"]}
            done="checkpoint saved; keep it where administrators of the store cannot change it"
            onDone={(checkpoint) =>
              download("audit-checkpoint.json", "application/json", [`${JSON.stringify(checkpoint, null, 2)}\n`])
            }
          />
          <Action
            label="Verify"
            tone="main"
            needs="operate"
            isDisabled={saved === "bad"}
            send="GET /audit/verify"
            args={{ query }}
            cli={["audit verify", ...flags, ...("head" in query ? ["--head", query.head as string] : [])]}
            done={({ ok }) => (ok ? "log intact" : "log broken")}
            onDone={(result) => {
              verified.value = result;
            }}
          />
        </>
      }
    >
      <p>
        Each entry contains the hash of the previous one: an entry that was changed, removed or inserted breaks the
        chain. A chain that was rewritten from the start is only found by comparing it with a head that was saved
        elsewhere.
      </p>
      <SavedField text={text} isBad={saved === "bad"} />
      {verified.value !== null && <Result result={verified.value} onClose={onClose} />}
    </Dialog>
  );
}

function SavedField({ text, isBad }: { readonly text: Signal<string>; readonly isBad: boolean }) {
  return (
    <label class="field">
      <span>A saved head or checkpoint (optional)</span>
      <textarea
        class="mono"
        rows={3}
        spellcheck={false}
        value={text.value}
        placeholder="64 hexadecimal digits, or the JSON of a checkpoint"
        aria-invalid={isBad}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
      <span class="tone-bad" role="status">
        {isBad ? "this is neither a head nor a checkpoint" : ""}
      </span>
    </label>
  );
}

function Result({ result, onClose }: { readonly result: GetAuditVerifyResponse; readonly onClose: () => void }) {
  const { entries, head, problem, tenant } = result;
  const length = counted(entries, "entry", "entries");
  if (problem !== null) {
    const { index, why } = problem;
    return (
      <Note
        tone="bad"
        tools={
          <a class="button" href={hrefWith({ entry: String(index) })} onClick={onClose}>
            Open entry {index}
          </a>
        }
      >
        <strong>The log is broken at entry {index}:</strong> {why}. {length} before it are intact.
      </Note>
    );
  }
  return (
    <>
      <Note tone="good">The log is intact: {length}.</Note>
      <Facts
        of={[
          ["log of", tenant === "*" ? "all tenants" : `tenant ${tenant}`],
          ["head", <Id key="head" id={head} />],
        ]}
      />
    </>
  );
}

/** A head, or the checkpoint that contains one; null without a text. */
export function readSaved(text: string): { readonly head: string; readonly entries?: number } | null | "bad" {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  if (HEAD.test(trimmed)) return { head: trimmed };
  try {
    const { head, entries } = JSON.parse(trimmed) as { readonly head?: unknown; readonly entries?: unknown };
    if (typeof head === "string" && HEAD.test(head) && Number.isSafeInteger(entries)) {
      return { head, entries: entries as number };
    }
  } catch {}
  return "bad";
}

const HEAD = /^[0-9a-f]{64}$/;
