/** Starts the past slots of a range that have no run, and the progress of that. */
import { type Signal, useSignal } from "@preact/signals";
import type { ScheduleBackfill } from "../../../../src/client/schema.ts";
import { Action } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Meter } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { count, counted, duration } from "../../kit/numbers.ts";
import { Prose } from "../../kit/prose.tsx";
import { absolute } from "../../kit/time.tsx";

interface BackfillDialogProps {
  readonly id: string;
  readonly paused: boolean;
  readonly onStarted: () => void;
  readonly onClose: () => void;
}

const PACES = [1_000, 10_000, 60_000, 600_000];

export function BackfillDialog({ id, paused, onStarted, onClose }: BackfillDialogProps) {
  const from = useSignal(inputTime(Date.now() - 86_400_000));
  const until = useSignal(inputTime(Date.now()));
  const pace = useSignal(1_000);
  const [fromMs, untilMs] = [Date.parse(from.value), Date.parse(until.value)];
  const isRange = fromMs < untilMs;
  const body = { from: iso(fromMs), until: iso(untilMs), pace_ms: pace.value };
  const times = ["--from", body.from, "--until", body.until, "--pace", `${pace.value / 1_000}s`];
  const footer = (
    <>
      <button type="button" class="button" onClick={onClose}>
        Back
      </button>
      <Action
        label="Start backfill"
        tone="main"
        needs="operate"
        isDisabled={!isRange}
        send="POST /schedules/{id}/backfill"
        args={{ path: { id }, body }}
        cli={["schedule backfill", id, ...times]}
        done={({ backfill }) => `backfill of ${counted(backfill?.slots ?? 0, "slot")} started`}
        onDone={() => {
          onStarted();
          onClose();
        }}
      />
    </>
  );
  return (
    <Dialog title="Backfill past slots" onClose={onClose} footer={footer}>
      <p>Slots of the range that have a run already are left as they are. At most 1,000 slots at a time.</p>
      {paused && <Note tone="warn">The schedule is paused; the backfill starts runs nevertheless.</Note>}
      <TimeField label="First slot" value={from} />
      <TimeField label="Last slot" value={until} />
      <label class="field">
        <span>Shortest time between two starts</span>
        <select
          value={String(pace.value)}
          onChange={(event) => {
            pace.value = Number(event.currentTarget.value);
          }}
        >
          {PACES.map((ms) => (
            <option key={ms} value={String(ms)}>
              {duration(ms)}
            </option>
          ))}
        </select>
      </label>
      <p class="tone-bad" role="status">
        {isRange ? "" : "the first slot must be before the last"}
      </p>
    </Dialog>
  );
}

function TimeField({ label, value }: { readonly label: string; readonly value: Signal<string> }) {
  return (
    <label class="field">
      <span>{label}, in the time of this browser</span>
      <input
        type="datetime-local"
        value={value.value}
        onInput={(event) => {
          value.value = event.currentTarget.value;
        }}
      />
    </label>
  );
}

interface BackfillNoteProps {
  readonly id: string;
  readonly backfill: ScheduleBackfill;
  readonly reload: () => void;
}

export function BackfillNote({ id, backfill, reload }: BackfillNoteProps) {
  const { slots, started, existing, failed, until, waits_for: wait } = backfill;
  const handled = started + existing + failed;
  return (
    <Note
      tools={
        <Action
          label="Cancel backfill"
          needs="operate"
          send="DELETE /schedules/{id}/backfill"
          args={{ path: { id } }}
          cli={["schedule backfill", id, "--cancel"]}
          done="backfill cancelled; its runs continue"
          onDone={reload}
        />
      }
    >
      Backfill until {absolute(Date.parse(until))}: {count(handled)} of {counted(slots, "slot")} handled,{" "}
      {count(started)} started, {count(existing)} had a run, {count(failed)} failed.
      {wait !== null && (
        <>
          {" "}
          It waits: <Prose text={wait} />.
        </>
      )}
      <Meter share={slots === 0 ? 1 : handled / slots} label={`${count(handled)} of ${counted(slots, "slot")}`} />
    </Note>
  );
}

/** The value of a `datetime-local` field, in the time zone of the browser. */
function inputTime(ms: number): string {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

const iso = (ms: number): string => (Number.isNaN(ms) ? "" : new Date(ms).toISOString());
