/** Schedules of workflows. Those of other tenants are reported as not found. */
import { Type } from "typebox";
import { BACKFILL_SLOTS_MAX } from "../../core/schedule/request.ts";
import { SCHEDULES, type Schedule, schedulesOf } from "../../core/schedule/schedule.ts";
import {
  applySchedule,
  backfillSchedule,
  cancelBackfill,
  deleteSchedule,
  loadSchedule,
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
} from "../../engine/schedules/index.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { idempotencyKeyOf, startResponse } from "../routes/run-start.ts";
import { withKeyName } from "../views/key-names.ts";
import { listPage, PAGE_QUERY, pageOf } from "../views/page.ts";
import { STARTED } from "../views/run-schemas.ts";
import {
  SCHEDULE,
  SCHEDULE_APPLIED,
  SCHEDULE_BODY,
  SCHEDULE_DETAIL,
  SCHEDULE_EXPLANATION,
  scheduleDetail,
  scheduleExplanation,
  scheduleView,
} from "./schedule-views.ts";

const REASON = Type.Optional(Type.String({ maxLength: 500, description: "Recorded in the audit log." }));
const ACTION = Type.Object({ reason: REASON }, { title: "ScheduleActionRequest" });
const PACE_MS_MIN = 100;
const PACE_MS_DEFAULT = 1_000;

export const SCHEDULE_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/schedules",
    summary: "List schedules, newest first",
    access: "read",
    query: PAGE_QUERY,
    response: pageOf(SCHEDULE),
    handle: async ({ engine }, { org, query }) =>
      listPage(engine.world.store, SCHEDULES, schedulesOf(org), query, ({ value }) => scheduleView(value)),
  },
  {
    method: "POST",
    path: "/api/v1/schedules",
    summary: "Apply a schedule: creates it, or changes it; the same document changes nothing",
    access: "operate",
    body: SCHEDULE_BODY,
    response: SCHEDULE_APPLIED,
    invalidCode: "invalid_schedule",
    handle: apply,
  },
  {
    method: "GET",
    path: "/api/v1/schedules/:id",
    summary: "Get a schedule with its next slots, its last starts, and why the last slot was not started",
    access: "read",
    response: SCHEDULE_DETAIL,
    handle: async (gateway, request) => detail(gateway, await scheduleOf(gateway, request)),
  },
  {
    method: "DELETE",
    path: "/api/v1/schedules/:id",
    summary: "Delete a schedule; its runs continue",
    access: "operate",
    response: Type.Object({ id: Type.String(), deleted: Type.Boolean() }, { title: "ScheduleDeleted" }),
    handle: remove,
  },
  {
    method: "GET",
    path: "/api/v1/schedules/:id/explain",
    summary: "Explain what a schedule waits for, and why its last slot was not started",
    access: "read",
    response: SCHEDULE_EXPLANATION,
    handle: async (gateway, request) => {
      const schedule = await scheduleOf(gateway, request);
      return ok(scheduleExplanation(schedule, gateway.engine.world.clock.now()));
    },
  },
  action("POST", "pause", "Pause a schedule: no slot starts; open runs continue", pauseSchedule),
  action("POST", "resume", "Resume a schedule with its next slot; slots of the pause are not started", resumeSchedule),
  {
    method: "POST",
    path: "/api/v1/schedules/:id/trigger",
    summary: "Start a run of a schedule now, also while it is paused",
    access: "operate",
    body: Type.Object(
      {
        overlap: Type.Optional(
          Type.Literal("allow", { description: "Start although a run of the schedule is open; by default a 409." }),
        ),
        idempotency_key: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
      },
      { title: "TriggerScheduleRequest" },
    ),
    response: STARTED,
    handle: trigger,
  },
  {
    method: "POST",
    path: "/api/v1/schedules/:id/backfill",
    summary: "Start the past slots of a range that have no run, in order",
    access: "operate",
    body: Type.Object(
      {
        from: Type.String({ format: "date-time", description: "The first slot is at or after this time." }),
        until: Type.String({
          format: "date-time",
          description: `The last slot is at or before this time. A range has at most ${BACKFILL_SLOTS_MAX} slots.`,
        }),
        pace_ms: Type.Optional(
          Type.Integer({
            minimum: PACE_MS_MIN,
            maximum: 86_400_000,
            description: `Shortest time between two starts. Defaults to ${PACE_MS_DEFAULT}. Unless \`overlap\` is \`allow\`, a start also waits until no run of the schedule is open.`,
          }),
        ),
      },
      { title: "BackfillRequest" },
    ),
    response: SCHEDULE_DETAIL,
    handle: backfill,
  },
  action("DELETE", "backfill", "Cancel the backfill of a schedule; its runs continue", cancelBackfill),
];

function action(method: "POST" | "DELETE", name: string, summary: string, act: typeof pauseSchedule): Route {
  return {
    method,
    path: `/api/v1/schedules/:id/${name}`,
    summary,
    access: "operate",
    ...(method === "POST" && { body: ACTION }),
    response: SCHEDULE_DETAIL,
    handle: async (gateway, request) => {
      const { reason } = (request.body ?? {}) as { readonly reason?: string };
      const outcome = await act(gateway.engine, { ...actOf(request), reason });
      if (outcome.kind === "not_found") throw scheduleNotFound(request);
      return detail(gateway, outcome.schedule);
    },
  };
}

const actOf = ({ org, params, principal }: GatewayRequest) => ({ org, id: params.id ?? "", by: principal.id });

async function detail({ engine }: Gateway, schedule: Schedule, extra: object = {}): Promise<GatewayResponse> {
  const view = scheduleDetail(schedule, engine.settings.current.redaction.paths);
  const backfill = view.backfill && (await withKeyName(engine.world.store, view.backfill, "started_by"));
  return ok({ ...view, backfill, ...extra });
}

/** Also for schedules of other tenants: a 403 would disclose that the schedule exists. */
function scheduleNotFound({ params, org }: GatewayRequest): Problem {
  const detail = `no schedule \`${params.id}\` of tenant \`${org}\`; \`GET /api/v1/schedules\` lists them`;
  return new Problem("schedule_not_found", detail);
}

async function scheduleOf({ engine }: Gateway, request: GatewayRequest): Promise<Schedule> {
  const found = await loadSchedule(engine, request.org, request.params.id ?? "");
  if (!found) throw scheduleNotFound(request);
  return found.value;
}

async function apply(gateway: Gateway, { org, principal, body }: GatewayRequest): Promise<GatewayResponse> {
  const { id: by, caller } = principal;
  const applied = await applySchedule(gateway.engine, { org, document: body, by, caller });
  switch (applied.kind) {
    case "applied":
      return detail(gateway, applied.schedule, { result: applied.result });
    case "invalid":
      throw new Problem("invalid_schedule", applied.problems.join("; "), { problems: applied.problems });
    case "too_many": {
      const text = `tenant \`${org}\` has ${applied.limit} schedules; delete one, or raise \`limits.schedules_max\``;
      throw new Problem("schedule_limit", text, { limit: applied.limit });
    }
    default:
      return applied satisfies never;
  }
}

async function remove({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { kind } = await deleteSchedule(engine, actOf(request));
  if (kind === "not_found") throw scheduleNotFound(request);
  return ok({ id: request.params.id, deleted: true });
}

async function trigger(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const fields = (request.body ?? {}) as { readonly overlap?: "allow"; readonly idempotency_key?: string };
  const triggered = await triggerSchedule(gateway.engine, {
    ...actOf(request),
    caller: request.principal.caller,
    idempotencyKey: idempotencyKeyOf(request, fields.idempotency_key),
    mayOverlap: fields.overlap === "allow",
  });
  if (triggered.kind === "not_found") throw scheduleNotFound(request);
  if (triggered.kind === "overlap") {
    const text = `run \`${triggered.runId}\` is open; wait for its end, or send \`overlap: allow\``;
    throw new Problem("schedule_overlap", text, { run_id: triggered.runId });
  }
  const { workflowId } = triggered.schedule;
  return startResponse(gateway, triggered.outcome, { org: request.org, workflowId, version: null });
}

async function backfill(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const fields = request.body as { readonly from: string; readonly until: string; readonly pace_ms?: number };
  const range = { fromMs: timeIn(fields, "from"), untilMs: timeIn(fields, "until") };
  const paceMs = fields.pace_ms ?? PACE_MS_DEFAULT;
  const outcome = await backfillSchedule(gateway.engine, { ...actOf(request), ...range, paceMs });
  switch (outcome.kind) {
    case "moved":
      return detail(gateway, outcome.schedule);
    case "not_found":
      throw scheduleNotFound(request);
    case "active": {
      const text = "wait for its end, or cancel it with `DELETE /api/v1/schedules/{id}/backfill`";
      throw new Problem("backfill_active", text);
    }
    case "invalid":
      throw new Problem("invalid_request", outcome.why);
    default:
      return outcome satisfies never;
  }
}

function timeIn(fields: { readonly from: string; readonly until: string }, name: "from" | "until"): number {
  const ms = Date.parse(fields[name]);
  if (Number.isFinite(ms)) return ms;
  throw new Problem("invalid_request", `\`${name}\` is not a time such as \`2026-01-31T00:00:00Z\``);
}
