import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { Json } from "../../kit/json.tsx";
import { Page, Section } from "../../kit/layout.tsx";
import { Show } from "../../kit/state.tsx";

export function RunPage({ id }: { readonly id: string }) {
  const run = useResource(`run ${id}`, (signal) => api.value.runs.get(id, { signal }), {
    isAffected: (change) => change.event === "run" && change.data.run_id === id,
  });
  const shown = run.shown.value;
  return (
    <Page
      title={id}
      tab={`Run ${id}`}
      trail={[["/runs", "Runs"]]}
      beside={shown.kind === "ready" && <StateBadge state={shown.value.state} />}
    >
      <Show of={run} what="the run">
        {(value) => (
          <Section title="Input">
            <Json value={value.input} label="input" />
          </Section>
        )}
      </Show>
    </Page>
  );
}
