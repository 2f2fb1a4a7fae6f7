/** The chosen step: result, error, and the jobs of a list in a virtual table. */
import type { RunChild, RunDetail, RunStep } from "../../../../src/client/schema.ts";
import { useList } from "../../data/list.ts";
import type { Change } from "../../data/live.ts";
import { hrefWith, navigate, param, segment } from "../../data/location.ts";
import { api } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { StateBadge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Filters, SelectFilter } from "../../kit/filters.tsx";
import { Json } from "../../kit/json.tsx";
import { Facts, Id, Section } from "../../kit/layout.tsx";
import { type Column, VirtualTable } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { undoText } from "./run-compensation.tsx";

interface PanelProps {
  readonly run: RunDetail;
  readonly id: string;
  readonly step: RunStep;
  readonly reload: () => void;
}

export function StepPanel({ run, id, step }: PanelProps) {
  const isEnded = !["RUNNING", "PAUSED", "ENDING"].includes(run.state);
  return (
    <Section
      title={`Step ${id}`}
      tools={
        <>
          {isEnded && <Rerun runId={run.run_id} step={id} />}
          <a class="button" href={hrefWith({ step: null, iteration: null })}>
            Close
          </a>
        </>
      }
    >
      <div class="columns">
        <Facts
          of={[
            ["state", <StateBadge key="state" state={step.state} />],
            ["type", step.type],
            ["depends on", step.depends_on?.join(", ")],
            ["why", step.why],
            ["in loop", step.loop],
            ["iteration", step.iteration && `${step.iteration} of at most ${step.max_iterations}`],
            ["takes event", step.awaits?.event],
            ["correlation key", step.awaits?.correlation_key],
            ["branch", step.arm],
            ["job", step.job_id && <Id key="job" id={step.job_id} to={`/jobs/${segment(step.job_id)}`} />],
            [
              "sub-run",
              step.sub_run_id && <Id key="sub" id={step.sub_run_id} to={`/runs/${segment(step.sub_run_id)}`} />,
            ],
            ["attempts", step.attempt],
            ["worker", step.worker_id],
            ["started", step.started_at && <Time key="started" at={step.started_at} both />],
            ["ended", step.ended_at && <Time key="ended" at={step.ended_at} both />],
            ["compensation", step.compensation && undoText(step.compensation)],
            [
              "undone by",
              step.compensation?.job_id && (
                <Id key="undo" id={step.compensation.job_id} to={`/jobs/${segment(step.compensation.job_id)}`} />
              ),
            ],
            ["error", step.error && <span class="message tone-bad">{step.error.message}</span>],
          ]}
        />
        <div>
          <h3>Output</h3>
          {step.children !== undefined ? (
            <p class="soft">one output for each item, in the table below</p>
          ) : step.output_at === null ? (
            <Json value={step.output} label={`output of ${id}`} />
          ) : (
            <p class="soft">too large to be shown here: {step.output_at}</p>
          )}
        </div>
      </div>
      <StepJobs run={run} id={id} step={step} />
    </Section>
  );
}

function Rerun({ runId, step }: { readonly runId: string; readonly step: string }) {
  return (
    <Action
      label="Rerun from here"
      needs="submit"
      send="POST /workflow-runs/{id}/rerun"
      args={{ path: { id: runId }, body: { from_step: step } }}
      cli={["run rerun", runId, "--from", step]}
      confirm={{
        title: `Rerun from ${step}?`,
        text: "A new run reuses the results before this step and repeats it and all after it, and steps that were undone. Approvals are asked for again.",
      }}
      done="run started"
      onDone={(response) => {
        if ("run_id" in response) navigate(`/runs/${segment(response.run_id)}`);
      }}
    />
  );
}

/** The jobs of a list, of a step in a loop by iteration, or of all steps of a loop. */
function StepJobs({ run, id, step }: Omit<PanelProps, "reload">) {
  const loop = step.loop === undefined ? undefined : run.steps[step.loop];
  if (step.children !== undefined) {
    const { count } = step.children;
    if (loop?.iteration === undefined) return <Jobs what="items" runId={run.run_id} step={id} count={count} />;
    const chosen = Number(param("iteration")) || loop.iteration;
    const isCurrent = chosen === loop.iteration;
    return (
      <>
        <Filters names={["iteration"]}>
          <SelectFilter
            name="iteration"
            label="Iteration"
            all={`${loop.iteration} (current)`}
            options={Array.from({ length: loop.iteration - 1 }, (_, at) => String(at + 1))}
          />
        </Filters>
        <Jobs key={chosen} what="items" runId={run.run_id} step={id} iteration={chosen} {...(isCurrent && { count })} />
      </>
    );
  }
  if (loop !== undefined) return <Iterations run={run} steps={[id]} />;
  if (step.type !== "loop") return null;
  const body = Object.entries(run.steps).filter(([, one]) => one.loop === id && one.children === undefined);
  return <Iterations run={run} steps={body.map(([one]) => one)} />;
}

/** Earlier iterations are in the jobs of their steps: the run itself has the current one. */
function Iterations({
  run: { run_id: runId, steps },
  steps: ids,
}: Pick<PanelProps, "run"> & { readonly steps: readonly string[] }) {
  return (
    <>
      {ids
        .filter((id) => HAS_JOBS.has(steps[id]?.type ?? ""))
        .map((id) => (
          <div key={id}>
            <h3>Iterations of {id}</h3>
            <Jobs what={`iterations of ${id}`} runId={runId} step={id} />
          </div>
        ))}
    </>
  );
}

/** Types of steps that are jobs. */
const HAS_JOBS: ReadonlySet<string> = new Set(["worker", "approval", "subworkflow", "delay"]);

interface JobsProps {
  readonly what: string;
  readonly runId: string;
  readonly step: string;
  readonly iteration?: number;
  readonly count?: number;
}

function Jobs({ what, runId, step, iteration, count }: JobsProps) {
  const list = useList<RunChild>(
    `children ${runId} ${step} ${iteration}`,
    (cursor, signal) =>
      api.value.request(
        "GET /workflow-runs/{id}/steps/{step}/children",
        { path: { id: runId, step }, query: { limit: 100, cursor, iteration } },
        { signal },
      ),
    { live: { idOf: ({ job_id }) => job_id, apply: applyChange } },
  );
  return (
    <div class="run-list">
      <VirtualTable
        what={what}
        list={list}
        columns={what === "items" ? COLUMNS : [ITERATION, ...COLUMNS.slice(1)]}
        keyOf={({ job_id }) => job_id}
        {...(count === undefined ? {} : { total: count })}
      />
    </div>
  );
}

const ITERATION: Column<RunChild> = {
  name: "Iteration",
  width: "5rem",
  align: "end",
  cell: ({ iteration }) => iteration ?? "",
};

const COLUMNS: readonly Column<RunChild>[] = [
  { name: "Item", width: "4rem", align: "end", cell: ({ index }) => index ?? "" },
  {
    name: "Job",
    width: "minmax(8rem, 2fr)",
    cell: ({ job_id }) => (
      <a class="mono" href={`/jobs/${segment(job_id)}`}>
        {job_id}
      </a>
    ),
  },
  { name: "State", width: "8.5rem", cell: ({ state }) => <StateBadge state={state} /> },
  { name: "Attempts", width: "5rem", priority: 3, align: "end", cell: ({ attempt }) => attempt },
  {
    name: "Waits for, error",
    width: "minmax(8rem, 2fr)",
    priority: 2,
    cell: ({ error, waits_for }) => error?.message ?? waits_for ?? "",
  },
  { name: "Changed", width: "6.5rem", priority: 3, cell: ({ updated_at }) => <Time at={updated_at} /> },
  { name: "", width: "4.6rem", cell: ({ job_id }) => <Explain of="job" id={job_id} /> },
];

function applyChange(child: RunChild, change: Change): RunChild {
  if (change.event !== "job" || change.data.at < child.updated_at) return child;
  return { ...child, state: change.data.state, updated_at: change.data.at };
}
