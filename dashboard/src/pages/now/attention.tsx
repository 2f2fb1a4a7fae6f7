/** The most urgent first, each with the button that resolves it, or the page that does. */
import type { Attention as Item } from "../../../../src/client/schema.ts";
import { asCurlOf } from "../../data/equivalent.ts";
import { chosenTenant, may, sendPath } from "../../data/session.ts";
import { ActionButton } from "../../kit/action.tsx";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { Icon } from "../../kit/icon.tsx";
import { Section } from "../../kit/layout.tsx";
import { Prose } from "../../kit/prose.tsx";
import { Time } from "../../kit/time.tsx";
import { notify } from "../../kit/toast.tsx";

const TONES: Readonly<Record<Item["severity"], Tone>> = { danger: "bad", caution: "warn", info: "quiet" };

export function Attention({ items, reload }: { readonly items: readonly Item[]; readonly reload: () => void }) {
  if (items.length === 0) {
    return (
      <p class="all-well">
        <Icon name="check" /> Nothing needs attention.
      </p>
    );
  }
  return (
    <Section title="Needs attention" about="most urgent first">
      <ul class="attention">
        {items.map((item) => (
          <li key={`${item.kind} ${item.title}`} class={item.severity}>
            <Badge tone={TONES[item.severity]}>{item.severity}</Badge>
            <div>
              <p class="attention-title">
                <Prose text={item.title} />
                {item.since !== null && (
                  <span class="soft">
                    {" "}
                    <Time at={item.since} />
                  </span>
                )}
              </p>
              <p class="soft">
                <Prose text={item.detail} />
              </p>
            </div>
            <div class="attention-tools">
              <Resolve item={item} reload={reload} />
              <Links of={item} />
            </div>
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** Where more than one request is needed, or a look first. */
function Links({ of: { kind, action, link } }: { readonly of: Item }) {
  const isMain = action === null && RESOLVED_AT[kind] !== undefined;
  return (
    <>
      {kind === "lock_hot" && may("system") && (
        <a class="button" href="/rollouts?start=1">
          Spread the retries …
        </a>
      )}
      <a class={isMain ? "button main" : "button"} href={link}>
        {RESOLVED_AT[kind] ?? "Open"}
      </a>
    </>
  );
}

const RESOLVED_AT: Readonly<Record<string, string>> = {
  approvals: "Decide",
  dead_letters: "Retry or drop …",
  lock_hot: "Show the lock",
  unreviewed_bypasses: "Review",
};

function Resolve({ item: { kind, action, title }, reload }: { readonly item: Item; readonly reload: () => void }) {
  if (action === null) return null;
  const { label, method, path, body, cli, access } = action;
  const reason = { field: "reason", label: "Reason" };
  return (
    <ActionButton
      label={label}
      needs={access}
      tone="main"
      curl={asCurlOf({ method, path, body }, location.origin, chosenTenant.value)}
      cli={cli}
      confirm={{
        title: `${label}?`,
        text: <Prose text={title} />,
        ...(kind === "safety_unavailable" ? {} : { reason }),
      }}
      run={async (extra) => {
        await sendPath(method, path, { ...body, ...extra });
        notify(`${label}: done`);
        reload();
      }}
    />
  );
}
