/**
 * Why a record is in its state, and what helps: `?explain=job:ID`. Any page opens the panel with `<Explain of="job" id=…>`.
 * The page of a further kind of record adds it with `addExplainer`.
 */
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { hrefWith, param, segment, setParams } from "../data/location.ts";
import { useResource } from "../data/resource.ts";
import { api } from "../data/session.ts";
import { copyText } from "./action.tsx";
import { StateBadge } from "./badge.tsx";
import { Dialog } from "./dialog.tsx";
import { JobActions } from "./job-actions.tsx";
import { Facts, Id, Section } from "./layout.tsx";
import { counted } from "./numbers.ts";
import { Prose } from "./prose.tsx";
import { Empty, Show } from "./state.tsx";
import { Time } from "./time.tsx";

interface Explainer {
  readonly View: ComponentType<{ readonly id: string }>;
  readonly title?: string;
}

const explainers = signal<Readonly<Record<string, Explainer>>>({
  job: { View: JobExplanation },
  run: { View: RunExplanation },
});

/** Adds a kind of record to the panel. */
export function addExplainer(kind: string, View: Explainer["View"], title?: string): void {
  explainers.value = { ...explainers.peek(), [kind]: { View, ...(title === undefined ? {} : { title }) } };
}

export function Explain({ of, id }: { readonly of: string; readonly id: string }) {
  return (
    <a
      class="button small ghost explain"
      href={hrefWith({ explain: `${of}:${id}` })}
      aria-label={`explain ${of} ${id}`}
    >
      Explain
    </a>
  );
}

export function ExplainPanel() {
  const [, kind, id] = /^(\w+):(.+)$/s.exec(param("explain")) ?? [];
  const explainer = kind === undefined ? undefined : explainers.value[kind];
  if (explainer === undefined || id === undefined) return null;
  const { View, title = `Why is this ${kind} here?` } = explainer;
  return (
    <Dialog key={`${kind}:${id}`} kind="drawer" title={title} onClose={() => setParams({ explain: null })}>
      <View id={id} />
    </Dialog>
  );
}

export function JobExplanation({ id }: { readonly id: string }) {
  const explanation = useResource(`explain ${id}`, (signal) => api.value.jobs.explain(id, { signal }), {
    isAffected: (change) => change.event === "job" && change.data.job_id === id,
  });
  return (
    <Show of={explanation} what="the explanation">
      {({ state, sentence, wait, unblocks, facts }) => (
        <>
          <p class="lead">
            <StateBadge state={state} /> <Prose text={sentence} />
          </p>
          <Facts
            of={[
              ["job", <Id key="id" id={id} to={`/jobs/${segment(id)}`} />],
              ["waits for", wait?.reason],
              ["since", wait && <Time at={wait.since} both />],
              ["until", wait && <Time at={wait.until} both />],
              ["retry class", wait?.retry_class],
              ["delay chosen by", wait?.policy && <Prose key="policy" text={wait.policy} />],
              [
                "backlog",
                `${counted(facts.backlog.tenant, "job")} of the tenant${facts.backlog.topic === null ? "" : `, ${counted(facts.backlog.topic, "job")} of the topic`}`,
              ],
              ["workers", `${facts.workers.serving} serve the topic, ${counted(facts.workers.free, "free slot")}`],
              ["breaker", facts.breaker],
              ["unfit", facts.unfit],
            ]}
          />
          <p class="buttons">
            <JobActions id={id} state={state} onDone={() => void explanation.reload()} />
          </p>
          <Remedies items={unblocks.map(({ what, command }) => ({ what, command }))} />
        </>
      )}
    </Show>
  );
}

function RunExplanation({ id }: { readonly id: string }) {
  const explanation = useResource(`explain run ${id}`, (signal) => api.value.runs.explain(id, { signal }), {
    isAffected: (change) => change.event === "run" && change.data.run_id === id,
  });
  return (
    <Show of={explanation} what="the explanation">
      {({ state, waits }) => (
        <>
          <p class="lead">
            <StateBadge state={state} />{" "}
            {waits.length === 0 ? "the run waits for nothing" : `${counted(waits.length, "open wait")}`}
          </p>
          <Facts of={[["run", <Id key="id" id={id} to={`/runs/${segment(id)}`} />]]} />
          {waits.map((wait) => (
            <Section key={`${wait.step_id} ${wait.job_id}`} title={wait.step_id ?? "the run itself"}>
              <Facts
                of={[
                  ["state", <StateBadge key="state" state={wait.state} />],
                  ["waits for", <Prose key="reason" text={wait.reason} />],
                  ["until", wait.until && <Time at={wait.until} both />],
                  ["unblocked by", <Prose key="unblocks" text={wait.unblocks} />],
                  ["job", wait.job_id && <Id key="job" id={wait.job_id} to={`/jobs/${segment(wait.job_id)}`} />],
                ]}
              />
            </Section>
          ))}
        </>
      )}
    </Show>
  );
}

interface Reason {
  readonly reason: string;
  readonly until: string | null;
  /** A command. */
  readonly unblocks: string | null;
}

/** Why a record is in its state, each reason with the command that changes it. */
export function Reasons({ of }: { readonly of: readonly Reason[] }) {
  return (
    <ul class="remedies">
      {of.map(({ reason, until, unblocks }) => (
        <li key={reason}>
          <span>
            <Prose text={reason} /> {until !== null && <Time at={until} both />}
          </span>
          {unblocks !== null && <Command text={unblocks} />}
        </li>
      ))}
    </ul>
  );
}

function Command({ text }: { readonly text: string }) {
  return (
    <button type="button" class="command mono" title="copy" onClick={() => copyText(text)}>
      {text}
    </button>
  );
}

export function Remedies({
  items,
}: {
  readonly items: readonly { readonly what: string; readonly command: string | null }[];
}) {
  if (items.length === 0) return <Empty title="nothing to do" />;
  return (
    <Section title="What helps">
      <ul class="remedies">
        {items.map(({ what, command }) => (
          <li key={what}>
            <span>{what}</span>
            {command !== null && <Command text={command} />}
          </li>
        ))}
      </ul>
    </Section>
  );
}
