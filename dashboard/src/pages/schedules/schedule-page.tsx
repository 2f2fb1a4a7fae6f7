/** One schedule: what it waits for, its next and last starts, and what can be done about it. */
import { useSignal } from "@preact/signals";
import type { ScheduleDetail, ScheduleSlot, ScheduleStart } from "../../../../src/client/schema.ts";
import { navigate, segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api, may } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { addExplainer, Explain } from "../../kit/explain.tsx";
import { Json } from "../../kit/json.tsx";
import { Facts, Page, Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { count, duration } from "../../kit/numbers.ts";
import { PauseOrResume } from "../../kit/pause-or-resume.tsx";
import { Prose } from "../../kit/prose.tsx";
import { Empty, Show } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { ApplyDialog } from "./apply-dialog.tsx";
import { BackfillDialog, BackfillNote } from "./backfill.tsx";
import { ScheduleExplanation } from "./schedule-explanation.tsx";
import { ScheduleState, timingText } from "./schedule-state.tsx";

addExplainer("schedule", ScheduleExplanation);

export function SchedulePage({ id }: { readonly id: string }) {
  const schedule = useResource(
    `schedule ${id}`,
    (signal) => api.value.request("GET /schedules/{id}", { path: { id } }, { signal }),
    { refreshMs: 5_000, isAffected: (change) => change.event === "run" },
  );
  const shown = schedule.shown.value;
  const detail = shown.kind === "ready" ? shown.value : null;
  const reload = () => void schedule.reload();
  return (
    <Page
      title={id}
      tab={`Schedule ${id}`}
      trail={[["/schedules", "Schedules"]]}
      beside={detail !== null && <ScheduleState state={detail.state} />}
      actions={detail !== null && <Actions schedule={detail} reload={reload} />}
    >
      <Show of={schedule} what="the schedule">
        {(value) => <ScheduleView schedule={value} reload={reload} />}
      </Show>
    </Page>
  );
}

interface ScheduleProps {
  readonly schedule: ScheduleDetail;
  readonly reload: () => void;
}

function ScheduleView({ schedule, reload }: ScheduleProps) {
  const { waiting, last_not_started: left, backfill, next_slots: slots, last_starts: starts } = schedule;
  return (
    <>
      {waiting !== null && (
        <Note tone="warn">
          The slot of <Time at={waiting.slot} both /> waits: <Prose text={waiting.reason} />
          {waiting.retry_at !== null && (
            <>
              {" "}
              Tried again <Time at={waiting.retry_at} />.
            </>
          )}
        </Note>
      )}
      {left !== null && (
        <Note tone={left.result === "skipped" ? "warn" : "bad"}>
          The slot of <Time at={left.slot} both /> was {left.result}: <Prose text={left.reason} />
        </Note>
      )}
      {backfill !== null && <BackfillNote id={schedule.id} backfill={backfill} reload={reload} />}
      <div class="columns">
        <Definition schedule={schedule} />
        <Section title="Next starts" about="the slot, and the start with its jitter">
          {slots.length === 0 ? (
            <Empty title={schedule.paused ? "none while it is paused" : "the expression matches no later time"} />
          ) : (
            <Table label="next starts" columns={SLOTS} rows={slots} keyOf={({ slot }) => slot} />
          )}
        </Section>
      </div>
      <Section title="Last starts" about="the newest ten">
        {starts.length === 0 ? (
          <Empty title="no run was started yet" />
        ) : (
          <Table label="last starts" columns={STARTS} rows={starts} keyOf={({ run_id }) => run_id} />
        )}
      </Section>
      <Section title="Input of each run">
        <Json value={schedule.input} label="input" />
      </Section>
    </>
  );
}

const OVERLAPS: Readonly<Record<ScheduleDetail["overlap"], string>> = {
  skip: "skip: the slot is not started",
  queue: "queue: one slot waits for the end of the open run",
  allow: "allow: the slot starts anyway",
  cancel: "cancel: the open run is cancelled",
};

function Definition({ schedule }: { readonly schedule: ScheduleDetail }) {
  const { workflow_id, overlap, jitter_ms, catch_up_ms, counts, open_runs: open } = schedule;
  const { started, skipped, missed, failed } = counts;
  return (
    <Section title="Definition">
      <Facts
        of={[
          ["workflow", workflow_id],
          [
            "when",
            <span key="when" class="mono">
              {timingText(schedule)}
            </span>,
          ],
          ["while a run is open", OVERLAPS[overlap]],
          ["jitter", jitter_ms === 0 ? "none" : `up to ${duration(jitter_ms)} after the slot`],
          ["catch-up", `a slot that cannot start for ${duration(catch_up_ms)} is missed`],
          [
            "slots",
            `${count(started)} started, ${count(skipped)} skipped, ${count(missed)} missed, ${count(failed)} failed`,
          ],
          ["open runs", open.length > 0 && open.map((run) => <OpenRun key={run} id={run} />)],
          ["applied", <Time key="applied" at={schedule.updated_at} both />],
          ["by", schedule.submitted_by_name ?? schedule.submitted_by],
          ["tenant", schedule.tenant_id],
        ]}
      />
    </Section>
  );
}

function OpenRun({ id }: { readonly id: string }) {
  return (
    <>
      <a class="mono" href={`/runs/${segment(id)}`}>
        {id}
      </a>{" "}
    </>
  );
}

const SLOTS: readonly Column<ScheduleSlot>[] = [
  { name: "Slot", width: "minmax(8rem, 1fr)", cell: ({ slot }) => <Time at={slot} both /> },
  { name: "Starts", width: "7rem", cell: ({ starts_at }) => <Time at={starts_at} /> },
];

const STARTS: readonly Column<ScheduleStart>[] = [
  {
    name: "Run",
    width: "minmax(8rem, 2fr)",
    cell: ({ run_id }) => (
      <a class="mono" href={`/runs/${segment(run_id)}`}>
        {run_id}
      </a>
    ),
  },
  { name: "Started", width: "7rem", cell: ({ started_at }) => <Time at={started_at} /> },
  { name: "Slot", width: "7rem", priority: 2, cell: ({ slot }) => <Time at={slot} /> },
  { name: "Cause", width: "5rem", priority: 2, cell: ({ cause }) => cause },
  { name: "", width: "4.6rem", cell: ({ run_id }) => <Explain of="run" id={run_id} /> },
];

function Actions({ schedule, reload }: ScheduleProps) {
  const { id, paused, open_runs: open } = schedule;
  const dialog = useSignal<"edit" | "backfill" | null>(null);
  const close = () => {
    dialog.value = null;
  };
  return (
    <>
      <Explain of="schedule" id={id} />
      {may("operate") && (
        <>
          <button type="button" class="button" onClick={() => (dialog.value = "edit")}>
            Edit …
          </button>
          <button type="button" class="button" onClick={() => (dialog.value = "backfill")}>
            Backfill …
          </button>
        </>
      )}
      <PauseOrResume
        of="schedule"
        id={id}
        isPaused={paused}
        pauseText="No slot starts until it is resumed. Open runs continue."
        resumeText="It continues with the next slot; slots of the pause are not started."
        reload={reload}
      />
      <Action
        label="Start now"
        tone="main"
        needs="operate"
        send="POST /schedules/{id}/trigger"
        args={{ path: { id }, body: open.length > 0 ? { overlap: "allow" } : {} }}
        cli={["schedule trigger", id, ...(open.length > 0 ? ["--overlap", "allow"] : [])]}
        confirm={{
          title: "Start a run now?",
          text:
            open.length > 0
              ? "A run of this schedule is open; another one starts beside it."
              : "The next slots stay as they are.",
        }}
        done={({ run_id }) => `run ${run_id} started`}
        onDone={reload}
      />
      <Action
        label="Delete"
        tone="danger"
        needs="operate"
        send="DELETE /schedules/{id}"
        args={{ path: { id } }}
        cli={["schedule delete", id]}
        confirm={{ title: "Delete this schedule?", text: "No slot starts any more. Its runs continue." }}
        done="schedule deleted"
        onDone={() => navigate("/schedules")}
      />
      {dialog.value === "edit" && <ApplyDialog before={schedule} onApplied={reload} onClose={close} />}
      {dialog.value === "backfill" && <BackfillDialog id={id} paused={paused} onStarted={reload} onClose={close} />}
    </>
  );
}
