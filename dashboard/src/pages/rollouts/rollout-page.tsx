/** One rollout: what it has decided and why, both arms side by side and over time, and the evidence for each gate. */
import type { RolloutDetail } from "../../../../src/client/schema.ts";
import { useResource } from "../../data/resource.ts";
import { api, may } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Facts, Page, Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { duration } from "../../kit/numbers.ts";
import { Prose } from "../../kit/prose.tsx";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { Arms } from "./arms.tsx";
import { EvidenceChart, FigureChart } from "./charts.tsx";
import { Gates } from "./gates.tsx";
import { History } from "./history.tsx";
import { RolloutActions } from "./rollout-actions.tsx";
import "./rollout-explanation.tsx";
import "./rollouts.css";
import { INTERFERENCE, isActive, shareText, tenantsText, verdictOf } from "./verdict.ts";

export function RolloutPage({ id }: { readonly id: string }) {
  const rollout = useResource(
    `rollout ${id}`,
    (signal) => api.value.request("GET /rollouts/{id}", { path: { id } }, { signal }),
    {
      refreshMs: REFRESH_MS,
      isAffected: ({ event, data }) => event === "rollout" && "rollout_id" in data && data.rollout_id === id,
    },
  );
  const shown = rollout.shown.value;
  const detail = shown.kind === "ready" ? shown.value : null;
  return (
    <Page
      title={detail === null ? id : `${id} ${detail.class}`}
      tab={`Rollout ${id}`}
      trail={[["/rollouts", "Rollouts"]]}
      beside={detail !== null && <StateBadge state={detail.state} />}
      actions={
        detail !== null && (
          <>
            <Explain of="rollout" id={id} />
            <RolloutActions rollout={detail} onDone={() => void rollout.reload()} />
          </>
        )
      }
    >
      <Show of={rollout} what="the rollout">
        {(value) => <RolloutView rollout={value} />}
      </Show>
    </Page>
  );
}

function RolloutView({ rollout }: { readonly rollout: RolloutDetail }) {
  const verdict = verdictOf(rollout);
  return (
    <>
      <Note {...(verdict.tone === undefined ? {} : { tone: verdict.tone })}>
        <Prose text={verdict.text} />
      </Note>
      <Change rollout={rollout} />
      <Gates rollout={rollout} />
      <Arms rollout={rollout} />
      <div class="columns">
        <FigureChart rollout={rollout} />
        <EvidenceChart rollout={rollout} />
      </div>
      {isActive(rollout) && (
        <p class="soft caveat">
          <strong>Interference.</strong> {INTERFERENCE}
        </p>
      )}
      <Terms rollout={rollout} />
      {may("operate") && <History key={`${rollout.state} ${rollout.stage}`} id={rollout.id} />}
    </>
  );
}

function Change({ rollout: { setting, control, policy, shares, stage, orgs } }: { readonly rollout: RolloutDetail }) {
  return (
    <p class="lead change">
      <code>{setting}</code> <code>{control}</code> → <code>{policy}</code> for <Ramp shares={shares} stage={stage} />{" "}
      of {tenantsText(orgs)}
    </p>
  );
}

function Terms({ rollout }: { readonly rollout: RolloutDetail }) {
  const { horizon_ms, switch_ms, alpha, ends_at } = rollout;
  return (
    <Section title="Terms">
      <div class="fact-columns">
        <Facts
          of={[
            ["horizon", `the first ${duration(horizon_ms)} of each unit are scored`],
            ["arms", switch_ms === null ? "by unit" : `alternate every ${duration(switch_ms)}`],
            ["error probability", `at most ${shareText(alpha)}, at every inspection`],
          ]}
        />
        <Facts
          of={[
            ["started", <StartedBy key="started" rollout={rollout} />],
            [isActive(rollout) ? "ends at the latest" : "would have ended", <Time key="ends" at={ends_at} both />],
          ]}
        />
      </div>
    </Section>
  );
}

function StartedBy({
  rollout: { started_at, started_by, started_by_name: name },
}: {
  readonly rollout: RolloutDetail;
}) {
  return (
    <>
      <Time at={started_at} both /> by {name ?? started_by}
    </>
  );
}

/** The shares of a ramp, the current one marked. */
function Ramp({ shares, stage }: Pick<RolloutDetail, "shares" | "stage">) {
  return (
    <>
      {shares.map((share, at) => (
        <span key={share}>
          {at > 0 && <span class="soft">, then </span>}
          {at === stage ? <strong>{shareText(share)}</strong> : <span class="soft">{shareText(share)}</span>}
        </span>
      ))}
    </>
  );
}

const REFRESH_MS = 5_000;
