/** Experiments in virtual time and replays of recorded contention. The address is the request. */
import { query, setParams } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api, may, patientApi, who } from "../../data/session.ts";
import { Page, Section, Tabs } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { Elapsed, Empty, Failed, Show, StaleNote } from "../../kit/state.tsx";
import { LabForm } from "./lab-form.tsx";
import { addressOf, type Draft, draftFrom, type Experiment, requestOf } from "./params.ts";
import { Report } from "./report.tsx";
import "./lab.css";

export function LabPage() {
  const catalogue = useResource("lab", (signal) => api.value.request("GET /lab", {}, { signal }));
  return (
    <Page title="Lab">
      <Show of={catalogue} what="experiments">
        {({ experiments }) => <Experiments all={experiments} />}
      </Show>
    </Page>
  );
}

function Experiments({ all }: { readonly all: readonly Experiment[] }) {
  const offered = all.filter(({ needs_record }) => !needs_record || who.value?.tenant === "*");
  const chosen = query.value.get("experiment");
  const one = offered.find(({ name }) => name === chosen) ?? offered[0];
  if (one === undefined) return <Empty title="no experiments" />;
  return (
    <>
      <Tabs
        name="experiment"
        tabs={offered.map(({ name }) => [name, name.replaceAll("-", " ")])}
        clears={offered.flatMap(({ params }) => ["run", ...params.map(({ name }) => name)])}
      />
      <p class="lead">{one.summary}</p>
      <Workplace key={one.name} one={one} />
    </>
  );
}

function Workplace({ one }: { readonly one: Experiment }) {
  const draft = draftFrom(one.params, query.value);
  if (!may("operate")) {
    return <Note>To run an experiment, use a key of role operator. It takes a processor of the control plane.</Note>;
  }
  const run = (next: Draft) => setParams({ ...addressOf(one.params, next), experiment: one.name, run: "1" });
  if (query.value.get("run") !== "1") {
    return <LabForm one={one} draft={draft} onRun={run} rejected={null} />;
  }
  return <Run key={JSON.stringify(draft)} {...{ one, draft, run }} />;
}

interface RunProps {
  readonly one: Experiment;
  readonly draft: Draft;
  readonly run: (next: Draft) => void;
}

function Run({ one, draft, run }: RunProps) {
  const body = { params: requestOf(one.params, draft) };
  const report = useResource(`lab ${one.name} ${JSON.stringify(body)}`, (signal) =>
    one.needs_record
      ? patientApi.value.request("POST /lab/replay", { body }, { signal })
      : patientApi.value.request("POST /lab/{experiment}", { path: { experiment: one.name }, body }, { signal }),
  );
  const shown = report.shown.value;
  const isRunning = shown.kind === "loading";
  const rejected =
    shown.kind === "failed" && typeof shown.error.problem.param === "string"
      ? { param: shown.error.problem.param, detail: shown.error.detail }
      : null;
  return (
    <>
      <LabForm one={one} draft={draft} onRun={run} rejected={rejected} isRunning={isRunning} />
      {isRunning && (
        <Section title="Running" about="in virtual time, for at most a minute; one runs at a time">
          <p class="running">
            <Elapsed what={`running ${one.name}`} />
            <button type="button" class="button" onClick={() => setParams({ run: null })}>
              Stop
            </button>
          </p>
        </Section>
      )}
      {shown.kind === "failed" && !isField(one, rejected) && (
        <Failed what="the report" error={shown.error} retry={() => void report.reload()} />
      )}
      {shown.kind === "ready" && (
        <>
          {shown.stale !== null && <StaleNote stale={shown.stale} retry={() => void report.reload()} />}
          <Report of={shown.value} />
        </>
      )}
    </>
  );
}

/** Whether the form shows the error at its field. */
const isField = ({ params }: Experiment, rejected: { readonly param: string } | null): boolean =>
  params.some(({ name }) => name === rejected?.param);
