/**
 * Rollouts of retry policies. They change the behaviour of every tenant that takes part and show figures over all of them, so
 * they require a key of tenant `*`.
 */
import { Type } from "typebox";
import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import { RUNS, RUNS_GROUP, runsOf } from "../../core/model/run.ts";
import { detectableEffects } from "../../core/rollout/detectable.ts";
import { formatGate } from "../../core/rollout/gate.ts";
import { newJudgement } from "../../core/rollout/judgement.ts";
import { MEASURED_PER_SECOND } from "../../core/rollout/measured-units.ts";
import { checkRollout, ROLLOUT_LIMITS, type RolloutRequest } from "../../core/rollout/request.ts";
import { ROLLOUTS, ROLLOUTS_LIST, type Rollout } from "../../core/rollout/rollout.ts";
import { JUDGEMENTS } from "../../core/rollout/stored-judgement.ts";
import { unitKindOf } from "../../core/rollout/subject.ts";
import { summaryOf } from "../../core/rollout/summary.ts";
import type { Engine } from "../../engine/engine.ts";
import { predictRollout } from "../../engine/observe/index.ts";
import {
  endRollout,
  loadRollout,
  pauseRollout,
  promoteRollout,
  type RolloutAction,
  type RolloutOutcome,
  resumeRollout,
  rollbackRollout,
  startRollout,
} from "../../engine/rollouts/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { type KeyNames, loadKeyNames } from "../views/key-names.ts";
import { listPageWith, PAGE_QUERY, pageOf } from "../views/page.ts";
import {
  DETECTABLE,
  planView,
  predictionView,
  ROLLOUT,
  ROLLOUT_DETAILS,
  ROLLOUT_PREVIEW,
  rolloutDetails,
  rolloutView,
} from "../views/rollout-views.ts";

const SHARE = Type.Number({ minimum: 0, maximum: 1 });

const NEW_ROLLOUT = Type.Object(
  {
    class: Type.String({
      maxLength: 100,
      description: "A retry class, or `admission.polled.policy`, `run_lock.engine_wait_ms`, `run_lock.coalesce`.",
    }),
    policy: Type.String({ maxLength: 100, description: "The treatment value, such as `bounded:500ms:0.3`." }),
    share: Type.Union([SHARE, Type.Array(SHARE, { minItems: 1, maxItems: ROLLOUT_LIMITS.shares + 1 })], {
      description:
        "The treatment share, above 0 and below 1; a list is a ramp, whose next share applies when the gates are proved.",
    }),
    orgs: Type.Optional(
      Type.Array(Type.String(), {
        maxItems: ROLLOUT_LIMITS.orgs,
        description: "Tenants that take part. Defaults to all.",
      }),
    ),
    for_ms: Type.Optional(Type.Integer({ description: "The rollout ends after this time. Defaults to 7 days." })),
    horizon_ms: Type.Optional(
      Type.Integer({
        description: "A unit is scored by what happens within this time of its start. Defaults to 10 minutes.",
      }),
    ),
    gates: Type.Optional(
      Type.Array(Type.String({ maxLength: 100 }), {
        maxItems: ROLLOUT_LIMITS.gates,
        description: "Conditions such as `run_lock_wait_p95<=1.2x`.",
      }),
    ),
    switch_ms: Type.Optional(Type.Integer({ description: "Arms alternate in time blocks of this length." })),
    reason: Type.Optional(
      Type.String({ maxLength: ROLLOUT_LIMITS.reasonLength, description: "Recorded in the audit log." }),
    ),
  },
  { title: "StartRolloutRequest" },
);

const ACTION = Type.Object(
  {
    reason: Type.Optional(
      Type.String({ maxLength: ROLLOUT_LIMITS.reasonLength, description: "Recorded in the audit log." }),
    ),
  },
  { title: "RolloutActionRequest" },
);

export const ROLLOUT_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/rollouts",
    summary: "Start a rollout: a share of the runs and jobs uses another retry policy or run-lock setting",
    access: "system",
    body: NEW_ROLLOUT,
    response: Type.Object({ ...ROLLOUT_DETAILS.properties, detectable: DETECTABLE }, { title: "RolloutStarted" }),
    handle: start,
  },
  {
    method: "POST",
    path: "/api/v1/rollouts/preview",
    summary:
      "Check a rollout without starting it: what it compares, the prediction, and the smallest detectable effects",
    access: "system",
    body: NEW_ROLLOUT,
    response: ROLLOUT_PREVIEW,
    handle: preview,
  },
  {
    method: "GET",
    path: "/api/v1/rollouts",
    summary: "List rollouts, newest first",
    access: "read",
    allTenants: true,
    query: PAGE_QUERY,
    response: pageOf(ROLLOUT),
    handle: list,
  },
  {
    method: "GET",
    path: "/api/v1/rollouts/:id",
    summary: "Get a rollout with both arms, the evidence for each gate, and the prediction",
    access: "read",
    allTenants: true,
    response: ROLLOUT_DETAILS,
    handle: get,
  },
  action("pause", "Enrol no more units; enrolled ones keep their arm", pauseRollout),
  action("resume", "Enrol units again", resumeRollout),
  action("rollback", "Use the policy in force before for all units, also after a promotion", rollbackRollout),
  action("end", "End a rollout without a promotion", endRollout),
  {
    method: "POST",
    path: "/api/v1/rollouts/:id/promote",
    summary: "Use the treatment value for all units; requires proved gates, or `force` with a reason",
    access: "system",
    body: Type.Object({ ...ACTION.properties, force: Type.Optional(Type.Boolean()) }),
    response: ROLLOUT,
    handle: async ({ engine }, request) => {
      const { force = false } = (request.body ?? {}) as { readonly force?: boolean };
      const outcome = await promoteRollout(engine, { ...actionOf(request), isForced: force });
      return actionResponse(engine, outcome, request);
    },
  },
];

function action(
  name: string,
  summary: string,
  act: (engine: Engine, action: RolloutAction) => Promise<RolloutOutcome>,
): Route {
  return {
    method: "POST",
    path: `/api/v1/rollouts/:id/${name}`,
    summary,
    access: "system",
    body: ACTION,
    response: ROLLOUT,
    handle: async ({ engine }, request) => actionResponse(engine, await act(engine, actionOf(request)), request),
  };
}

interface NewRollout {
  readonly class: string;
  readonly policy: string;
  readonly share: number | readonly number[];
  readonly orgs?: readonly string[];
  readonly for_ms?: number;
  readonly horizon_ms?: number;
  readonly gates?: readonly string[];
  readonly switch_ms?: number;
  readonly reason?: string;
}

async function start({ engine }: Gateway, { body, principal }: GatewayRequest): Promise<GatewayResponse> {
  const request = requestOf(body as NewRollout, principal.id);
  // The prediction takes time: a request that cannot start is refused before it.
  const { subject, treatment } = checked(engine, request);
  const prediction = await predictRollout(engine, subject, treatment);
  const started = await startRollout(engine, { ...request, prediction });
  switch (started.kind) {
    case "started":
      return ok({
        ...(await detailsOf(engine, started.rollout)),
        detectable: await detectableOf(engine, started.rollout),
      });
    case "bad":
      throw badField(started.field, started.why);
    case "already_active": {
      const id = started.id ?? "{id}";
      const detail = `rollout \`${id}\` of \`${subject}\` is active; end it with \`POST /api/v1/rollouts/${id}/end\` first`;
      throw new Problem("rollout_active", detail, { rollout_id: started.id });
    }
    default:
      return started satisfies never;
  }
}

async function preview({ engine }: Gateway, { body, principal }: GatewayRequest): Promise<GatewayResponse> {
  const rollout = checked(engine, requestOf(body as NewRollout, principal.id));
  const { subject, treatment } = rollout;
  const [prediction, detectable] = await Promise.all([
    predictRollout(engine, subject, treatment),
    detectableOf(engine, rollout),
  ]);
  const active = engine.rollouts.active.find((one) => one.subject === subject)?.id ?? null;
  const predicted = prediction === null ? null : predictionView(prediction);
  return ok({ ...planView(rollout, gatesOf(rollout)), active, prediction: predicted, detectable });
}

function requestOf(options: NewRollout, by: string): RolloutRequest {
  return {
    subject: options.class,
    treatment: options.policy,
    shares: typeof options.share === "number" ? [options.share] : options.share,
    orgs: options.orgs,
    forMs: options.for_ms,
    horizonMs: options.horizon_ms,
    gates: options.gates,
    switchMs: options.switch_ms,
    reason: options.reason,
    by,
  };
}

/** The rollout that the request would start. */
function checked({ settings: { current }, world }: Engine, request: RolloutRequest): NotStarted {
  const result = checkRollout(request, current, current.rollout.alpha, world.clock.now());
  if (result.kind === "bad") throw badField(result.field, result.why);
  return result.rollout;
}

type NotStarted = Omit<Rollout, "id" | "salt">;

function badField(field: keyof RolloutRequest, why: string): Problem {
  const name = API_NAMES[field] ?? field;
  return new Problem("invalid_request", `\`${name}\`: ${why}`, { field: name });
}

const API_NAMES: Readonly<Partial<Record<keyof RolloutRequest, string>>> = {
  subject: "class",
  treatment: "policy",
  shares: "share",
  forMs: "for_ms",
  horizonMs: "horizon_ms",
  switchMs: "switch_ms",
};

async function list({ engine }: Gateway, { query }: GatewayRequest): Promise<GatewayResponse> {
  const views = async (items: readonly Versioned<Rollout>[]) => {
    const names = await namesIn(
      engine,
      items.map(({ value }) => value),
    );
    return items.map(({ value }) => rolloutView(value, gatesOf(value), names));
  };
  return listPageWith(engine.world.store, ROLLOUTS, ROLLOUTS_LIST, query, views);
}

async function get({ engine }: Gateway, { params }: GatewayRequest): Promise<GatewayResponse> {
  const found = await loadRollout(engine, params.id ?? "");
  if (!found) throw notFound(params.id ?? "");
  return ok(await detailsOf(engine, found.value));
}

async function detailsOf(engine: Engine, rollout: Rollout): Promise<object> {
  const [stored, names] = await Promise.all([
    engine.world.store.load(JUDGEMENTS, rollout.id),
    namesIn(engine, [rollout]),
  ]);
  const summary = summaryOf(rollout, stored?.value.judgement ?? newJudgement(rollout));
  return rolloutDetails(rollout, gatesOf(rollout), names, summary);
}

const namesIn = ({ world }: Engine, rollouts: readonly Rollout[]): Promise<KeyNames> =>
  loadKeyNames(
    world.store,
    rollouts.flatMap(({ startedBy, by }) => [startedBy, by]),
  );

const gatesOf = ({ gates }: Pick<Rollout, "gates">): readonly string[] => gates.map(formatGate);

/** The smallest effect that the traffic of the last runs lets the rollout detect; null without runs. */
async function detectableOf({ world }: Engine, rollout: NotStarted): Promise<object | null> {
  const { subject, gates, shares, stage, alpha, endsMs, startedMs, orgs, horizonMs, switchMs } = rollout;
  const known = orgs.length > 0 ? orgs : [DEFAULT_ORG, ...(await world.store.counts(RUNS_GROUP, ORGS_READ)).keys()];
  const perTenantMax = unitKindOf(subject) === "org" ? 1 / horizonMs : Number.POSITIVE_INFINITY;
  let perMs = 0;
  for (const org of new Set(known.slice(0, ORGS_READ))) {
    const { items } = await world.store.list(RUNS, { index: runsOf(org), limit: RUNS_READ });
    const oldestMs = items.at(-1)?.value.createdMs;
    if (oldestMs === undefined || items.length < 2) continue;
    perMs += Math.min(perTenantMax, items.length / Math.max(MINUTE_MS, startedMs - oldestMs));
  }
  // A time block of a switched rollout counts as one unit.
  const perMsMax = switchMs === null ? MEASURED_PER_SECOND / 1_000 : 1 / switchMs;
  const perHour = Math.min(perMs, perMsMax) * 60 * MINUTE_MS;
  if (perHour === 0) return null;
  const units = Math.floor((perHour * (endsMs - startedMs)) / (60 * MINUTE_MS));
  const effects = detectableEffects({ gates, share: shares[stage] ?? 0.5, alpha, units });
  return { units_per_hour: perHour, units, effects: effects.map(({ gate, ratio }) => ({ gate, ratio })) };
}

function actionOf({ params, body, principal }: GatewayRequest): RolloutAction {
  const { reason = "" } = (body ?? {}) as { readonly reason?: string };
  return { id: params.id ?? "", by: principal.id, reason };
}

async function actionResponse(
  engine: Engine,
  outcome: RolloutOutcome,
  { params }: GatewayRequest,
): Promise<GatewayResponse> {
  const id = params.id ?? "";
  switch (outcome.kind) {
    case "moved":
      return ok(rolloutView(outcome.rollout, gatesOf(outcome.rollout), await namesIn(engine, [outcome.rollout])));
    case "not_found":
      throw notFound(id);
    case "illegal":
      throw new Problem(
        "rollout_state",
        `rollout \`${id}\` is ${outcome.rollout.state}; \`GET /api/v1/rollouts/${id}\` shows why`,
      );
    case "not_proved": {
      const detail = `not every gate of rollout \`${id}\` is proved; wait, or send \`force: true\` with a \`reason\``;
      throw new Problem("rollout_not_proved", detail);
    }
    case "reason_missing":
      throw new Problem("invalid_request", "`force` requires a `reason`; it is recorded in the audit log");
    case "too_many_promoted":
      throw new Problem(
        "rollout_limit",
        `${outcome.limit} values are promoted; move one to the configuration and roll its rollout back`,
      );
    default:
      return outcome satisfies never;
  }
}

const notFound = (id: string): Problem =>
  new Problem("rollout_not_found", `no rollout \`${id}\`; \`GET /api/v1/rollouts\` lists them`);

const MINUTE_MS = 60_000;
const ORGS_READ = 20;
const RUNS_READ = 200;
