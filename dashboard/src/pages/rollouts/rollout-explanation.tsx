/** The panel `?explain=rollout:R1`: why the rollout is in its state, and what helps. */
import type { RolloutDetail } from "../../../../src/client/schema.ts";
import { segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { addExplainer, Remedies } from "../../kit/explain.tsx";
import { Facts } from "../../kit/layout.tsx";
import { Prose } from "../../kit/prose.tsx";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { RolloutActions } from "./rollout-actions.tsx";
import { isActive, outlookOf, verdictOf } from "./verdict.ts";

addExplainer("rollout", RolloutExplanation);

function RolloutExplanation({ id }: { readonly id: string }) {
  const rollout = useResource(`explain rollout ${id}`, (signal) =>
    api.value.request("GET /rollouts/{id}", { path: { id } }, { signal }),
  );
  return (
    <Show of={rollout} what="the rollout">
      {(value) => (
        <>
          <p class="lead">
            <StateBadge state={value.state} /> <Prose text={verdictOf(value).text} />
          </p>
          <Facts
            of={[
              ["rollout", <a key="id" href={`/rollouts/${segment(id)}`}>{`${id} ${value.class}`}</a>],
              ["evidence", value.state !== "running" && isActive(value) && outlookOf(value)],
              ["last change", <Time key="at" at={value.updated_at} both />],
              ["by", value.updated_by_name ?? value.updated_by],
              ["until", isActive(value) && <Time key="ends" at={value.ends_at} both />],
            ]}
          />
          <p class="buttons">
            <RolloutActions rollout={value} onDone={() => void rollout.reload()} />
          </p>
          <Remedies items={remediesOf(value)} />
        </>
      )}
    </Show>
  );
}

type Remedy = { readonly what: string; readonly command: string | null };

function remediesOf({ id, state, class: subject, control, policy, share }: RolloutDetail): readonly Remedy[] {
  const restart = `cordum rollout start ${subject} --policy ${state === "rolled_back" ? "..." : policy} --share ${share * 100}%`;
  switch (state) {
    case "running":
      return [
        {
          what: "Wait for more units: evidence grows with the smaller arm, fastest at a share of 50 %.",
          command: `cordum rollout status ${id} --watch`,
        },
      ];
    case "paused":
      return [{ what: "Resume it: without new units no gate is decided.", command: `cordum rollout resume ${id}` }];
    case "proved":
      return [{ what: "Promote it, or roll it back.", command: `cordum rollout promote ${id}` }];
    case "promoted":
      return [
        {
          what: `Move ${policy} to the configuration, then roll the rollout back.`,
          command: `cordum rollout rollback ${id}`,
        },
      ];
    case "rolled_back":
      return [{ what: `${control} is in force. Try another value in a new rollout.`, command: restart }];
    default:
      return [
        { what: "Start another one, longer or with a larger share, if the question is still open.", command: restart },
      ];
  }
}
