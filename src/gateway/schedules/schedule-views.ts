import { Type } from "typebox";
import { redact, redactText } from "../../core/model/redact.ts";
import { formatDuration } from "../../core/retry/duration.ts";
import { explainSchedule, stateOf } from "../../core/schedule/explain.ts";
import { CATCH_UP_MS_DEFAULT, CATCH_UP_MS_MAX, JITTER_MS_MAX } from "../../core/schedule/request.ts";
import { nextSlots, OVERLAPS, type Schedule, type StartWait } from "../../core/schedule/schedule.ts";
import { iso } from "../views/job-views.ts";
import { KEY_NAME, SUBMITTER_NAME } from "../views/key-names.ts";
import { REASON, reasonView } from "../views/reasons.ts";
import { instant, json, orNull, TEXT_OR_NULL } from "../views/schemas.ts";

/** Schemas and views of schedules. */
const TIMING = {
  cron: Type.Optional(
    Type.String({
      maxLength: 200,
      description: "Five fields (minute, hour, day of month, month, day of week) or a nickname such as `@daily`.",
    }),
  ),
  every: Type.Optional(
    Type.String({ maxLength: 30, description: "A duration such as `15m`: slots are its multiples since 1970 UTC." }),
  ),
  time_zone: Type.Optional(
    Type.String({ maxLength: 200, description: "Time zone of `cron`, such as `Europe/Berlin`. Defaults to `UTC`." }),
  ),
};
const OVERLAP = Type.Enum([...OVERLAPS], {
  description:
    "What a slot does while a run of the schedule is open: is skipped, waits for its end (one slot), starts anyway, or cancels it.",
});

export const SCHEDULE_BODY = Type.Object(
  {
    id: Type.String({ maxLength: 64 }),
    workflow_id: Type.String({ maxLength: 64 }),
    ...TIMING,
    input: Type.Optional(json("Input of each run. Defaults to `{}`.")),
    overlap: Type.Optional(OVERLAP),
    jitter_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: JITTER_MS_MAX,
        description: "Each slot starts at a random time within this time after it. Defaults to 0.",
      }),
    ),
    catch_up_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: CATCH_UP_MS_MAX,
        description: `A slot that could not be started for this long is missed. Defaults to ${CATCH_UP_MS_DEFAULT}.`,
      }),
    ),
    paused: Type.Optional(Type.Boolean({ description: "By default unchanged; a new schedule is not paused." })),
  },
  { title: "ScheduleRequest" },
);

const SLOT = Type.Object(
  {
    slot: instant("The time that the expression matches."),
    starts_at: instant("The slot with its jitter."),
  },
  { title: "ScheduleSlot" },
);
const START = Type.Object(
  {
    run_id: Type.String(),
    slot: orNull(instant("null for a start by `trigger`.")),
    started_at: instant("When the run was created."),
    cause: Type.Enum(["slot", "backfill", "trigger"]),
  },
  { title: "ScheduleStart" },
);
const WAITING = Type.Object(
  {
    slot: TEXT_OR_NULL,
    reason: Type.String(),
    retry_at: orNull(instant("When the start is tried again; null: at the end of the open run.")),
    attempts: Type.Integer(),
  },
  { title: "ScheduleWait" },
);
const COUNTS = Type.Object(
  {
    started: Type.Integer({ description: "Runs, also of backfills and triggers." }),
    skipped: Type.Integer({ description: "Slots that were due while a run was open." }),
    missed: Type.Integer({ description: "Slots that could not be started within the catch-up window." }),
    failed: Type.Integer({ description: "Slots whose run could not be created." }),
  },
  { title: "ScheduleCounts" },
);
const LEFT_OUT = Type.Object(
  {
    slot: instant("The latest of these slots."),
    result: Type.Enum(["skipped", "missed", "failed"]),
    at: instant("When this was decided."),
    reason: Type.String(),
  },
  { title: "ScheduleLeftOut" },
);
const BACKFILL = Type.Object(
  {
    slots: Type.Integer({ description: "Slots of the range." }),
    started: Type.Integer(),
    existing: Type.Integer({ description: "Slots that have a run already." }),
    failed: Type.Integer(),
    next_slot: orNull(instant("The next slot of the range.")),
    until: instant("The end of the range."),
    pace_ms: Type.Integer(),
    started_by: Type.String(),
    started_by_name: KEY_NAME,
    waits_for: TEXT_OR_NULL,
  },
  { title: "ScheduleBackfill" },
);

export const SCHEDULE = Type.Object(
  {
    id: Type.String(),
    workflow_id: Type.String(),
    tenant_id: Type.String(),
    ...TIMING,
    overlap: OVERLAP,
    jitter_ms: Type.Integer(),
    catch_up_ms: Type.Integer(),
    paused: Type.Boolean(),
    state: Type.Enum(["active", "waiting", "paused", "finished"], {
      description:
        "`waiting`: a slot is due and could not start yet. `finished`: the expression matches no later time.",
    }),
    next_slot: orNull(SLOT),
    last_start: orNull(START),
    counts: COUNTS,
    created_at: instant("When it was applied first."),
    updated_at: instant("When it was applied, paused or resumed last."),
    submitted_by: TEXT_OR_NULL,
    submitted_by_name: SUBMITTER_NAME,
  },
  { title: "Schedule" },
);

export const SCHEDULE_DETAIL = Type.Object(
  {
    ...SCHEDULE.properties,
    input: json("Redacted."),
    next_slots: Type.Array(SLOT, { description: "The next five; empty while it is paused." }),
    last_starts: Type.Array(START, { description: "The newest ten." }),
    last_not_started: orNull(LEFT_OUT),
    waiting: orNull(WAITING),
    open_runs: Type.Array(Type.String(), { description: "The newest runs that are not known to have ended." }),
    backfill: orNull(BACKFILL),
  },
  { title: "ScheduleDetail" },
);

export const SCHEDULE_APPLIED = Type.Object(
  { ...SCHEDULE_DETAIL.properties, result: Type.Enum(["created", "updated", "unchanged"]) },
  { title: "ScheduleApplied" },
);

export const SCHEDULE_EXPLANATION = Type.Object(
  {
    schedule_id: Type.String(),
    state: Type.String(),
    reasons: Type.Array(REASON),
  },
  { title: "ScheduleExplanation" },
);

type View = Readonly<Record<string, unknown>>;

export function scheduleView(schedule: Schedule): View {
  const { id, workflowId, org, timing, overlap, jitterMs, catchUpMs, isPaused, counts } = schedule;
  return {
    id,
    workflow_id: workflowId,
    tenant_id: org,
    ...(timing.kind === "cron"
      ? { cron: timing.cron, time_zone: timing.timeZone }
      : { every: formatDuration(timing.everyMs) }),
    overlap,
    jitter_ms: jitterMs,
    catch_up_ms: catchUpMs,
    paused: isPaused,
    state: stateOf(schedule),
    next_slot: slotsOf(schedule, 1)[0] ?? null,
    last_start: startsOf(schedule)[0] ?? null,
    counts,
    created_at: iso(schedule.createdMs),
    updated_at: iso(schedule.updatedMs),
    submitted_by: schedule.submittedBy,
    submitted_by_name: schedule.caller?.name ?? null,
  };
}

export function scheduleDetail(schedule: Schedule, redactedPaths: readonly string[]): View {
  const { input, leftOut, open } = schedule;
  return {
    ...scheduleView(schedule),
    input: redact(input, { paths: redactedPaths, at: "input" }),
    next_slots: slotsOf(schedule, NEXT_SLOTS),
    last_starts: startsOf(schedule),
    last_not_started: leftOut
      ? { slot: iso(leftOut.slotMs), result: leftOut.kind, at: iso(leftOut.atMs), reason: redactText(leftOut.why) }
      : null,
    waiting: waitingView(schedule),
    open_runs: open,
    backfill: backfillView(schedule),
  };
}

export function scheduleExplanation(schedule: Schedule, nowMs: number): View {
  return {
    schedule_id: schedule.id,
    state: stateOf(schedule),
    reasons: explainSchedule(schedule, nowMs).map((one) => reasonView({ ...one, reason: redactText(one.reason) })),
  };
}

const slotsOf = (schedule: Schedule, count: number): readonly View[] =>
  schedule.isPaused
    ? []
    : nextSlots(schedule, count).map(({ slotMs, startMs }) => ({ slot: iso(slotMs), starts_at: iso(startMs) }));

const startsOf = ({ starts }: Schedule): readonly View[] =>
  starts.map(({ runId, slotMs, atMs, cause }) => ({
    run_id: runId,
    slot: slotMs === null ? null : iso(slotMs),
    started_at: iso(atMs),
    cause,
  }));

function waitingView({ queuedMs, nextMs, wait, open }: Schedule): View | null {
  const slotMs = queuedMs ?? nextMs;
  if (slotMs === null || (!wait && queuedMs === undefined)) return null;
  const reason = waitText(wait) ?? `run \`${open.at(-1)}\` is open`;
  return { slot: iso(slotMs), reason, retry_at: wait ? iso(wait.untilMs) : null, attempts: wait?.attempts ?? 0 };
}

function backfillView({ backfill, open }: Schedule): View | null {
  if (!backfill) return null;
  const { slots, started, existing, failed, nextMs, untilMs, paceMs, by, wait, isBlocked } = backfill;
  return {
    ...{ slots, started, existing, failed, pace_ms: paceMs, started_by: by },
    next_slot: nextMs === null || nextMs > untilMs ? null : iso(nextMs),
    until: iso(untilMs),
    waits_for: waitText(wait) ?? (isBlocked ? `run \`${open.at(-1)}\` is open` : null),
  };
}

const waitText = (wait: StartWait | undefined): string | null => (wait ? redactText(wait.why) : null);

const NEXT_SLOTS = 5;
