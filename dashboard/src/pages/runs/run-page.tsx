/** One run: its plan, the chosen step, and what an operator can do. */
import type { RunDetail } from "../../../../src/client/schema.ts";
import { everySecond } from "../../data/clock.ts";
import { param, segment } from "../../data/location.ts";
import { type Resource, useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { StateBadge, toneOf } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Json } from "../../kit/json.tsx";
import { Facts, Id, Page, Section, Stat, Tabs } from "../../kit/layout.tsx";
import { duration } from "../../kit/numbers.ts";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { stateCounts } from "./plan.ts";
import { RunActions } from "./run-actions.tsx";
import { RunCompensation } from "./run-compensation.tsx";
import { RunPlan } from "./run-plan.tsx";
import { RunSteps } from "./run-steps.tsx";
import { RunTimeline } from "./run-timeline.tsx";
import { StepPanel } from "./step-panel.tsx";

export function RunPage({ id }: { readonly id: string }) {
  const run = useResource(`run ${id}`, (signal) => api.value.runs.get(id, { signal }), {
    isAffected: ({ event, data }) =>
      (event === "run" && data.run_id === id) || (event === "job" && data.job_id.startsWith(`${id}:`)),
  });
  const shown = run.shown.value;
  const detail = shown.kind === "ready" ? shown.value : null;
  return (
    <Page
      title={detail === null ? id : detail.workflow_id}
      tab={`Run ${id}`}
      trail={[["/runs", "Runs"]]}
      beside={detail !== null && <StateBadge state={detail.state} />}
      actions={
        detail !== null && (
          <>
            <Explain of="run" id={id} />
            <RunActions run={detail} reload={() => void run.reload()} />
          </>
        )
      }
    >
      <Show of={run} what="the run">
        {(value) => <RunView run={value} of={run} />}
      </Show>
    </Page>
  );
}

function RunView({ run, of }: { readonly run: RunDetail; readonly of: Resource<RunDetail> }) {
  const step = param("step");
  return (
    <>
      <Summary run={run} />
      {run.error !== null && (
        <Section title="Error" tone="bad">
          <p class="message">{run.error.message}</p>
        </Section>
      )}
      <RunCompensation run={run} reload={() => void of.reload()} />
      <Tabs
        name="view"
        tabs={[
          ["plan", "Plan"],
          ["steps", "Steps"],
          ["data", "Input and output"],
          ["timeline", "Timeline"],
        ]}
      />
      <View run={run} />
      {step !== "" && run.steps[step] !== undefined && (
        <StepPanel key={step} run={run} id={step} step={run.steps[step]} reload={() => void of.reload()} />
      )}
    </>
  );
}

function View({ run }: { readonly run: RunDetail }) {
  switch (param("view")) {
    case "steps":
      return <RunSteps run={run} />;
    case "data":
      return (
        <div class="columns">
          <Section title="Input">
            <Json value={run.input} label="input of the run" />
          </Section>
          <Section title="Output">
            <Json value={run.output} label="output of the run" />
          </Section>
        </div>
      );
    case "timeline":
      return <RunTimeline id={run.run_id} />;
    default:
      return <RunPlan steps={run.steps} />;
  }
}

function Summary({ run }: { readonly run: RunDetail }) {
  const isOpen = ["RUNNING", "PAUSED", "ENDING"].includes(run.state);
  const endMs = isOpen ? everySecond.value : Date.parse(run.updated_at);
  return (
    <>
      <div class="stats">
        {stateCounts(run.steps).map(([state, count]) => (
          <Stat
            key={state}
            label={state.toLowerCase().replaceAll("_", " ")}
            value={String(count)}
            unit={count === 1 ? "step" : "steps"}
            tone={toneOf(state) === "bad" ? "bad" : undefined}
          />
        ))}
        <Stat label="duration" value={duration(Math.max(0, endMs - Date.parse(run.created_at)))} />
      </div>
      <Section title="Run">
        <div class="fact-columns">
          <Facts
            of={[
              ["id", <Id key="id" id={run.run_id} />],
              ["workflow", `${run.workflow_id}, version ${run.version}`],
              ["tenant", run.tenant_id],
              ["submitted by", run.actor_id ?? run.submitted_by_name ?? run.submitted_by],
            ]}
          />
          <Facts
            of={[
              ["started", <Time key="started" at={run.created_at} both />],
              ["last change", <Time key="changed" at={run.updated_at} both />],
              ["times out", isOpen && <Time key="deadline" at={run.deadline} both />],
              [
                "trace",
                <a key="trace" class="mono" href={`/jobs?trace=${segment(run.trace_id)}`}>
                  {run.trace_id}
                </a>,
              ],
              [
                "part of run",
                run.parent && <Id key="parent" id={run.parent.run_id} to={`/runs/${segment(run.parent.run_id)}`} />,
              ],
              [
                "rerun of",
                run.rerun_of && (
                  <>
                    <Id id={run.rerun_of.run_id} to={`/runs/${segment(run.rerun_of.run_id)}`} /> from{" "}
                    {run.rerun_of.from_step}
                  </>
                ),
              ],
            ]}
          />
        </div>
      </Section>
    </>
  );
}
