import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { StateBadge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Json } from "../../kit/json.tsx";
import { Facts, Id, Page, Section } from "../../kit/layout.tsx";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { isFinal } from "./job-states.ts";

export function JobPage({ id }: { readonly id: string }) {
  const job = useResource(`job ${id}`, (signal) => api.value.jobs.get(id, { signal }), {
    isAffected: (change) => change.event === "job" && change.data.job_id === id,
  });
  const shown = job.shown.value;
  const detail = shown.kind === "ready" ? shown.value : null;
  return (
    <Page
      title={id}
      tab={`Job ${id}`}
      trail={[["/jobs", "Jobs"]]}
      beside={detail !== null && <StateBadge state={detail.state} />}
      actions={
        detail !== null && (
          <>
            <Explain of="job" id={id} />
            {!isFinal(detail.state) && (
              <Action
                label="Cancel"
                tone="danger"
                needs="operate"
                send="POST /jobs/{id}/cancel"
                args={{ path: { id }, body: {} }}
                cli={["job cancel", id]}
                confirm={{
                  title: "Cancel this job?",
                  text: "A worker that has it is told to stop. The job ends as CANCELLED.",
                  reason: { field: "reason", label: "Reason" },
                }}
                done="job cancelled"
                onDone={() => void job.reload()}
              />
            )}
          </>
        )
      }
    >
      <Show of={job} what="the job">
        {(value) => (
          <div class="columns">
            <Section title="Job">
              <Facts
                of={[
                  ["id", <Id key="id" id={value.job_id} />],
                  ["topic", value.topic],
                  ["tenant", value.tenant_id],
                  ["submitted", <Time key="created" at={value.created_at} both />],
                ]}
              />
            </Section>
            <Section title="Input">
              <Json value={value.input} label="input" />
            </Section>
            <Section title="Result">
              <Json value={value.result} label="result" />
            </Section>
          </div>
        )}
      </Show>
    </Page>
  );
}
