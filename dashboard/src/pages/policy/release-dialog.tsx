/** One release: its text, its difference from the policy in force, and the way back to it. */
import type { PolicyBundleDetail, PolicyDiff } from "../../../../src/client/schema.ts";
import { navigate, setParams } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api, may } from "../../data/session.ts";
import { Action, copyText } from "../../kit/action.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Facts, Section } from "../../kit/layout.tsx";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { Difference } from "./difference.tsx";
import { setDraft } from "./draft.ts";

interface Loaded {
  readonly release: PolicyBundleDetail;
  /** From the policy in force to this one; null for roles that may not compare. */
  readonly diff: PolicyDiff | null;
}

interface ReleaseDialogProps {
  readonly id: string;
  readonly onDone: () => void;
}

export function ReleaseDialog({ id, onDone }: ReleaseDialogProps) {
  const loaded = useResource(`release ${id}`, async (signal): Promise<Loaded> => {
    const release = await api.value.request("GET /policy/bundles/{id}", { path: { id } }, { signal });
    const diff = may("system") ? await api.value.policy.diff({ policy: release.policy }, { signal }) : null;
    return { release, diff };
  });
  const shown = loaded.shown.value;
  const value = shown.kind === "ready" ? shown.value : null;
  const close = () => setParams({ release: null });
  return (
    <Dialog
      kind="wide"
      title={value?.release.name ?? "Release"}
      onClose={close}
      footer={
        <>
          <button type="button" class="button" onClick={close}>
            Back
          </button>
          {value !== null && <Buttons {...value} onDone={onDone} />}
        </>
      }
    >
      <Show of={loaded} what="the release">
        {({ release, diff }) => <Details release={release} diff={diff} />}
      </Show>
    </Dialog>
  );
}

function Buttons({ release, diff, onDone }: Loaded & Pick<ReleaseDialogProps, "onDone">) {
  if (diff === null) return null;
  const edit = () => {
    setDraft({ text: release.policy, base: diff.before });
    navigate("/policy?view=draft");
  };
  return (
    <>
      <button type="button" class="button" onClick={edit}>
        Edit as a draft
      </button>
      {!release.in_force && (
        <Action
          label="Roll back to this policy"
          tone="danger"
          needs="system"
          send="POST /policy/rollback"
          args={{ body: { to: release.bundle_id, base: diff.before } }}
          cli={["policy rollback", release.bundle_id]}
          done="policy rolled back"
          onDone={onDone}
        />
      )}
    </>
  );
}

function Details({ release, diff }: Loaded) {
  const { version, snapshot, at, by, by_name: name, note, in_force, policy } = release;
  return (
    <>
      <Facts
        of={[
          ["state", in_force && <Badge tone="good">in force</Badge>],
          ["version", version],
          ["published", <Time key="at" at={at} both />],
          ["by", name ?? by],
          ["note", note],
          ["snapshot", <code key="snapshot">{snapshot}</code>],
        ]}
      />
      {diff !== null && !in_force && (
        <Section title="What a rollback to it changes" about="from the policy in force">
          <Difference diff={diff} />
        </Section>
      )}
      <Section
        title="Text"
        tools={
          <button type="button" class="button small" onClick={() => copyText(policy)}>
            Copy
          </button>
        }
      >
        <div class="code">
          <pre tabIndex={0} role="region" aria-label="policy text">
            {policy.length > TEXT_MAX ? `${policy.slice(0, TEXT_MAX)}\n… copy it to see the rest` : policy}
          </pre>
        </div>
      </Section>
    </>
  );
}

const TEXT_MAX = 100_000;
