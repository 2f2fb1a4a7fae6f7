/** One job: what happened to it, what it has and gave, and what an operator can do. */
import type { ComponentChildren } from "preact";
import type { JobDetail } from "../../../../src/client/schema.ts";
import { segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { StateBadge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { JobActions } from "../../kit/job-actions.tsx";
import { Json } from "../../kit/json.tsx";
import { Facts, Id, Page, Section } from "../../kit/layout.tsx";
import { duration, percent } from "../../kit/numbers.ts";
import { shadowFacts } from "../../kit/rule.tsx";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { isFinal } from "./job-states.ts";
import { Waterfall } from "./waterfall.tsx";

export function JobPage({ id }: { readonly id: string }) {
  const job = useResource(`job ${id}`, (signal) => api.value.jobs.get(id, { signal }), {
    isAffected: (change) => change.event === "job" && change.data.job_id === id,
  });
  const shown = job.shown.value;
  const detail = shown.kind === "ready" ? shown.value : null;
  return (
    <Page
      title={detail?.topic ?? id}
      tab={`Job ${id}`}
      trail={[["/jobs", "Jobs"]]}
      beside={detail !== null && <StateBadge state={detail.state} />}
      actions={
        detail !== null && (
          <>
            <Explain of="job" id={id} />
            <JobActions id={id} state={detail.state} onDone={() => void job.reload()} />
          </>
        )
      }
    >
      <Show of={job} what="the job">
        {(value) => <JobView job={value} />}
      </Show>
    </Page>
  );
}

function JobView({ job }: { readonly job: JobDetail }) {
  const runId = /^(.+?):/.exec(job.job_id)?.[1];
  return (
    <>
      {job.error !== null && (
        <Section title={`Error of attempt ${job.attempt}`} tone="bad">
          <p class="message">
            <strong>{job.error.name}</strong>: {job.error.message}
          </p>
        </Section>
      )}
      <Waterfall job={job} />
      <div class="columns">
        <Section title="Input">
          <Problems of={job.payload_problems} />
          <Json value={job.input} label="input" />
        </Section>
        <Section title="Result">
          <Json value={job.result} label="result" />
        </Section>
        <Section title="Job">
          <Facts of={jobFacts(job, runId)} />
        </Section>
        <Section title="Policy">
          <Facts of={safetyFacts(job)} />
        </Section>
      </div>
    </>
  );
}

type FactList = readonly (readonly [string, ComponentChildren])[];

function jobFacts(job: JobDetail, runId: string | undefined): FactList {
  const { progress, wait } = job;
  return [
    ["id", <Id key="id" id={job.job_id} />],
    [
      "topic",
      <a key="topic" href={`/jobs?topic=${segment(job.topic)}`}>
        {job.topic}
      </a>,
    ],
    ["tenant", job.tenant_id],
    [
      "run",
      runId !== undefined && job.trace_id === runId && <Id key="run" id={runId} to={`/runs/${segment(runId)}`} />,
    ],
    [
      "waits for",
      wait && (
        <>
          {wait.reason}, until <Time at={wait.until} both />
        </>
      ),
    ],
    [
      "progress",
      progress && `${progress.percent === null ? "" : percent(progress.percent / 100)} ${progress.message ?? ""}`,
    ],
    ["worker", job.worker_id],
    ["worked", job.execution_ms !== undefined && duration(job.execution_ms)],
    ["priority", job.priority],
    ["submitted by", job.caller?.name ?? job.submitted_by],
    ["actor", job.actor_id],
    ["labels", Object.entries(job.labels).map(([name, value]) => <div key={name}>{`${name}=${value}`}</div>)],
    ["submitted", <Time key="created" at={job.created_at} both />],
    ["last change", <Time key="updated" at={job.updated_at} both />],
    ["times out", !isFinal(job.state) && <Time key="deadline" at={job.deadline_at} both />],
    [
      "trace",
      <a key="trace" class="mono" href={`/jobs?trace=${segment(job.trace_id)}`}>
        {job.trace_id}
      </a>,
    ],
  ];
}

function safetyFacts({ safety, approval, bypass }: JobDetail): FactList {
  if (safety === null) return [["decision", "not checked yet"]];
  return [
    ["decision", safety.decision.toLowerCase().replaceAll("_", " ")],
    ["rule", safety.rule_id],
    ["reason", safety.reason],
    ...shadowFacts(safety),
    ["evaluated for", safety.time_dependent && safety.evaluated_at && <Time at={safety.evaluated_at} both />],
    [
      "policy",
      <span key="policy" class="mono">
        {safety.snapshot}
      </span>,
    ],
    ["approval", approval && (approval.decision ?? "awaited")],
    ["decided by", approval?.decided_by_name ?? approval?.decided_by],
    ["note", approval?.note],
    [
      "approval ends",
      approval !== null && approval.decision === null && <Time key="ends" at={approval.expires_at} both />,
    ],
    ["bypassed", bypass && <span class="tone-bad">{bypass.reason}</span>],
    ["bypass reviewed", bypass?.reviewed_by_name ?? bypass?.reviewed_by],
  ];
}

function Problems({ of = [] }: { readonly of?: readonly string[] | undefined }) {
  if (of.length === 0) return null;
  return <p class="tone-bad">payloads that are missing or damaged: {of.join(", ")}</p>;
}
