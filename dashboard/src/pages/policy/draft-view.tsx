/** Edits a draft, compares it with the policy in force, and publishes it. */
import { useSignal } from "@preact/signals";
import type { PolicyText } from "../../../../src/client/schema.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { counted } from "../../kit/numbers.ts";
import { Failed, Loading, Show } from "../../kit/state.tsx";
import { Difference } from "./difference.tsx";
import { checked, discardDraft, discarded, draft, setDraft, useCheck } from "./draft.ts";
import { PolicyEditor } from "./editor.tsx";
import { Flips } from "./flips.tsx";
import { PublishDialog } from "./publish-dialog.tsx";
import { RecordedFlips } from "./recorded-flips.tsx";

export function DraftView() {
  const inForce = useResource("policy text", (signal) => api.value.request("GET /policy/text", {}, { signal }), {
    refreshMs: REFRESH_MS,
  });
  return (
    <Show of={inForce} what="the policy">
      {(value) => <Drafting inForce={value} reload={() => void inForce.reload()} />}
    </Show>
  );
}

function Drafting({ inForce, reload }: { readonly inForce: PolicyText; readonly reload: () => void }) {
  const isPublishing = useSignal(false);
  const now = draft.value;
  const text = now?.text ?? inForce.policy;
  useCheck(text, inForce.snapshot);
  const state = checked.value;
  const publishable = state.kind === "valid" && state.text === text && state.diff.before !== state.diff.after;
  return (
    <div class="draft">
      <Section
        title="Draft"
        about={stateText(now !== null)}
        tools={
          <DraftTools
            publishable={publishable}
            publish={() => {
              isPublishing.value = true;
            }}
          />
        }
      >
        {now !== null && now.base !== inForce.snapshot && <Moved text={text} snapshot={inForce.snapshot} />}
        <PolicyEditor
          text={text}
          problems={state.kind === "invalid" ? state.problems : []}
          onChange={(changed) => setDraft({ text: changed, base: draft.peek()?.base ?? inForce.snapshot })}
        />
      </Section>
      <Comparison text={text} />
      {isPublishing.value && state.kind === "valid" && (
        <PublishDialog
          text={text}
          diff={state.diff}
          onClose={() => {
            isPublishing.value = false;
            reload();
          }}
        />
      )}
    </div>
  );
}

function stateText(isDraft: boolean): string {
  const state = checked.value;
  if (state.kind === "checking") return "checking …";
  if (state.kind === "failed") return "not checked";
  if (state.kind === "invalid") return counted(state.problems.length, "problem");
  return isDraft
    ? "valid, kept in this window until it is published or discarded"
    : "the policy in force; change it to begin a draft";
}

interface ToolsProps {
  readonly publishable: boolean;
  readonly publish: () => void;
}

function DraftTools({ publishable, publish }: ToolsProps) {
  return (
    <>
      {draft.value !== null && (
        <button type="button" class="button" onClick={discardDraft}>
          Discard the draft
        </button>
      )}
      {discarded.value !== null && (
        <button type="button" class="button" onClick={() => setDraft(discarded.peek())}>
          Restore the draft
        </button>
      )}
      <button
        type="button"
        class="button main"
        disabled={!publishable}
        title={publishable ? undefined : "the draft is invalid, or does not differ from the policy in force"}
        onClick={publish}
      >
        Publish …
      </button>
    </>
  );
}

/** Another policy has come in force since the draft was begun. */
function Moved({ text, snapshot }: { readonly text: string; readonly snapshot: string }) {
  return (
    <Note
      tone="warn"
      tools={
        <button type="button" class="button small" onClick={() => setDraft({ text, base: snapshot })}>
          Understood
        </button>
      }
    >
      Another policy was published since this draft was begun. The difference below is to that one: publishing the draft
      undoes what it lacks.
    </Note>
  );
}

/** What the draft would change. Each further comparison is a section here. */
function Comparison({ text }: { readonly text: string }) {
  const state = checked.value;
  return (
    <div class="comparison">
      <Section title="Difference from the policy in force">
        {state.kind === "checking" && <Loading what="the difference" />}
        {state.kind === "failed" && <Failed what="the difference" error={state.error} />}
        {state.kind === "invalid" && <p class="soft">Resolve the problems of the draft first.</p>}
        {state.kind === "valid" && <Difference diff={state.diff} />}
      </Section>
      <RecordedFlips text={text} isValid={state.kind === "valid"} />
      <Flips text={text} isValid={state.kind === "valid"} />
    </div>
  );
}

const REFRESH_MS = 15_000;
