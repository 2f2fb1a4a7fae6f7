/** The last look at a draft: its difference from the policy in force, a name and a note. */
import { type Signal, useSignal } from "@preact/signals";
import type { PolicyDiff } from "../../../../src/client/schema.ts";
import { navigate } from "../../data/location.ts";
import { api } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { notify, notifyError } from "../../kit/toast.tsx";
import { Difference } from "./difference.tsx";
import { setDraft } from "./draft.ts";

interface PublishDialogProps {
  readonly text: string;
  readonly diff: PolicyDiff;
  readonly onClose: () => void;
}

export function PublishDialog({ text, diff, onClose }: PublishDialogProps) {
  const name = useSignal("");
  const note = useSignal("");
  const isBusy = useSignal(false);
  // Refused if another policy than the one shown here is in force by then.
  const body = {
    policy: text,
    base: diff.before,
    name: name.value.trim() || undefined,
    note: note.value.trim() || undefined,
  };
  const publish = async () => {
    isBusy.value = true;
    try {
      const { snapshot } = await api.peek().request("POST /policy/publish", { body });
      setDraft(null);
      notify("policy published", snapshot);
      navigate("/policy?view=releases");
    } catch (error) {
      isBusy.value = false;
      if (notifyError(error).code === "policy_changed") onClose();
    }
  };
  const options = [
    body.name === undefined ? [] : ["--name", body.name],
    body.note === undefined ? [] : ["--note", body.note],
  ];
  return (
    <Dialog
      kind="wide"
      title="Publish this policy?"
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={onClose}>
            Back
          </button>
          <span class="action">
            <button type="button" class="button main" disabled={isBusy.value} onClick={publish}>
              {isBusy.value ? "Publish …" : "Publish"}
            </button>
            <RequestMenu
              label="Publish"
              request={{ name: "POST /policy/publish", body }}
              cli={["policy publish", "policy.yaml", ...options.flat()]}
            />
          </span>
        </>
      }
    >
      <p>
        It governs all tenants at once, in every process. Jobs that wait are checked again. Earlier policies stay in the
        list of releases.
      </p>
      <Difference diff={diff} />
      <Fields name={name} note={note} />
    </Dialog>
  );
}

function Fields({ name, note }: { readonly name: Signal<string>; readonly note: Signal<string> }) {
  return (
    <>
      <label class="field">
        <span>Name (optional)</span>
        <input
          value={name.value}
          maxLength={256}
          onInput={(event) => {
            name.value = event.currentTarget.value;
          }}
        />
      </label>
      <label class="field">
        <span>Note, for the audit log (optional)</span>
        <textarea
          rows={2}
          maxLength={1_024}
          value={note.value}
          onInput={(event) => {
            note.value = event.currentTarget.value;
          }}
        />
      </label>
    </>
  );
}
