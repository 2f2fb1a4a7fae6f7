import type { AuditLine, Fact } from "../../core/model/audit.ts";
import {
  afterExisting,
  afterFailure,
  afterRefusal,
  afterStart,
  type ScheduleAction,
  type SlotEvent,
} from "../../core/schedule/decide.ts";
import { SCHEDULES, type Schedule, slotReservation, startOf } from "../../core/schedule/schedule.ts";
import { type Put, put, type Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { defaultRunRequest, type StartOutcome, startRunOnce } from "../intake/index.ts";
import { QuotaExceeded } from "../quotas.ts";

/**
 * The start of a slot.
 *
 * 1. The run and the schedule that moves to the next slot are one commit. It requires the version of the schedule that was
 *    decided on, so of two processes one starts the slot.
 * 2. The reservation of the slot is part of the commit. A slot that has a run gets no second one, also by a backfill.
 * 3. A refused start (run limit, quota, admission lock) leaves the slot in place and sets a due time.
 */
export type ScheduleEngine = RunContext & Needs<"admissionLimiter">;

export type Saved = Versioned<Schedule> | "stale";

export async function startSlot(
  engine: ScheduleEngine,
  found: Versioned<Schedule>,
  action: Extract<ScheduleAction, { kind: "start" }>,
): Promise<Saved> {
  const { next, slotMs, cause, events } = action;
  const { clock, metrics, random } = engine.world;
  const nowMs = clock.now();
  const runId = random.id();
  const started = afterStart(next, { runId, slotMs, cause, atMs: nowMs });
  const { org, id, uid, workflowId, input, submittedBy, caller } = next;
  const line = scheduleLine(next, "started", { slot: timeText(slotMs), run: runId, cause });
  const outcome = await tryStart(
    engine,
    { ...defaultRunRequest(org, workflowId, submittedBy), runId, input, caller, schedule: { id, slotMs } },
    {
      use: { id: slotReservation(next, slotMs), fingerprint: uid, isKeptWithRun: true },
      puts: [put(SCHEDULES, found.id, found, started), ...eventPuts(engine, next, events), auditPut(engine, line)],
    },
  );
  const save = (after: Schedule, extra: readonly AuditLine[] = []) => saveSchedule(engine, found, after, events, extra);
  switch (outcome.kind) {
    case "started":
      metrics.observe("cordum_schedule_lateness_seconds", Math.max(0, nowMs - startOf(next, slotMs)) / 1_000);
      countStart(engine, "started");
      countEvents(engine, events);
      return { id: found.id, version: found.version + 1, value: started };
    case "replayed":
      return save(afterExisting(next, slotMs, cause, nowMs));
    case "no_workflow":
    case "invalid":
    case "conflict": {
      const why = failureText(outcome, workflowId);
      countStart(engine, "failed");
      return save(afterFailure(next, slotMs, cause, why, nowMs), [
        scheduleLine(next, "failed", { slot: timeText(slotMs), why, cause }),
      ]);
    }
    case "full":
    case "gate_unavailable":
    case "quota": {
      countStart(engine, "refused");
      return save(afterRefusal(next, cause, refusalText(outcome), nowMs, random.next()));
    }
    default:
      return outcome satisfies never;
  }
}

type Tried = StartOutcome | { readonly kind: "quota"; readonly why: string };

async function tryStart(engine: ScheduleEngine, ...[request, once]: StartArguments): Promise<Tried> {
  try {
    return await startRunOnce(engine, request, ENDPOINT, once);
  } catch (error) {
    if (error instanceof QuotaExceeded) return { kind: "quota", why: error.message };
    throw error;
  }
}

type StartArguments = [Parameters<typeof startRunOnce>[1], Parameters<typeof startRunOnce>[3]];

function refusalText(outcome: Extract<Tried, { kind: "full" | "gate_unavailable" | "quota" }>): string {
  if (outcome.kind === "quota") return outcome.why;
  if (outcome.kind === "gate_unavailable") return "admission lock busy";
  const { current, limit, waiting } = outcome;
  const queued = waiting === undefined ? "" : `, and ${waiting} sub-workflows wait for a slot`;
  return `tenant run limit reached: ${current} open runs, limit ${limit}${queued}`;
}

export function failureText(
  outcome: Extract<StartOutcome, { kind: "no_workflow" | "invalid" | "conflict" }>,
  workflowId: string,
): string {
  if (outcome.kind === "no_workflow") return `workflow \`${workflowId}\` does not exist`;
  return outcome.kind === "invalid" ? outcome.problems.join("; ") : "the key of the slot was used for another request";
}

/** Commits a schedule with the audit entries of its slots. */
export async function saveSchedule(
  engine: Needs<"world" | "commit" | "audit">,
  found: Versioned<Schedule>,
  next: Schedule,
  events: readonly SlotEvent[],
  lines: readonly AuditLine[] = [],
): Promise<Saved> {
  const puts = [
    put(SCHEDULES, found.id, found, next),
    ...eventPuts(engine, next, events),
    ...lines.map((line) => auditPut(engine, line)),
  ];
  const committed = await engine.commit({ org: next.org, puts });
  if (committed.kind !== "committed") return "stale";
  countEvents(engine, events);
  return { id: found.id, version: found.version + 1, value: next };
}

function eventPuts(engine: Needs<"audit">, schedule: Schedule, events: readonly SlotEvent[]): readonly Put[] {
  return events.map((event) => auditPut(engine, scheduleLine(schedule, event.what, factsOf(event))));
}

function factsOf(event: SlotEvent): Record<string, Fact> {
  switch (event.what) {
    case "queued":
      return { slot: timeText(event.slotMs) };
    case "backfill completed": {
      const { slots, started, existing, failed, by } = event.backfill;
      return { slots, started, existing, failed, by };
    }
    default:
      return { slots: event.slots, from: timeText(event.fromMs), until: timeText(event.untilMs), why: event.why };
  }
}

function countEvents(engine: Needs<"world">, events: readonly SlotEvent[]): void {
  for (const event of events) if ("slots" in event) countStart(engine, event.what, event.slots);
}

export const countStart = ({ world }: Needs<"world">, result: string, slots = 1): void =>
  world.metrics.add("cordum_schedule_starts_total", { result }, slots);

/** An entry by the control plane, unless another author is named. */
export const scheduleLine = (
  { org, id }: Pick<Schedule, "org" | "id">,
  what: string,
  facts: Readonly<Record<string, Fact>> = {},
  who = "cordum",
): AuditLine => ({ org, kind: "schedule", who, what, facts: { schedule: id, ...facts } });

export const timeText = (ms: number): string => new Date(ms).toISOString();

const ENDPOINT = "schedule";
