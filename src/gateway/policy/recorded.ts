/** `POST /policy/simulate` with `recorded`: the recorded decisions of a tenant that a policy would flip. */
import { type Static, Type } from "typebox";
import type { DecidedBy, FlipGroup } from "../../core/policy/recorded.ts";
import { RECORDED_JOBS, type ReplayedLimits, simulateRecorded } from "../../engine/safety/index.ts";
import { evaluationProblem, Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok } from "../route.ts";
import { DECISION_NAME } from "../views/policy-schemas.ts";
import { instant, orNull, TEXT_OR_NULL } from "../views/schemas.ts";
import { invalidPolicy, isPublisher } from "./evaluation.ts";

const optional = Type.Optional;

export const RECORDED = Type.Object(
  {
    last_ms: optional(
      Type.Integer({ minimum: 1, description: "Jobs of this time up to now. Default: all that are kept." }),
    ),
    since: optional(instant("Jobs created at or after this time; not with `last_ms`.")),
    until: optional(instant("Jobs created at or before this time. Default: now.")),
    limit: optional(
      Type.Integer({
        minimum: 1,
        maximum: RECORDED_JOBS.publisherMax,
        description:
          `Jobs to read. Default: ${RECORDED_JOBS.default}. More than ${RECORDED_JOBS.max} require a key that may ` +
          "publish policies.",
      }),
    ),
    cursor: optional(Type.String({ description: "`next_cursor` of the previous page, with its `since` and `until`." })),
  },
  { description: "Evaluates the policy for recorded decisions instead of `requests`." },
);

const DECIDED_BY = Type.Object({ decision: DECISION_NAME, rule_id: TEXT_OR_NULL }, { title: "PolicyDecidedBy" });

export const RECORDED_SIMULATION = Type.Object(
  {
    snapshot: Type.String({ description: "Hash of the policy that was evaluated." }),
    since: instant("Jobs created at or after this time were read."),
    until: instant("Jobs created at or before this time were read."),
    checked: Type.Integer({ description: "Recorded decisions that were evaluated." }),
    undecided: Type.Integer({ description: "Jobs without a decision yet." }),
    bypassed: Type.Integer({ description: "Jobs that were dispatched without a decision, under a fail-open lease." }),
    flipped: Type.Integer({ description: "Decisions that the policy would change." }),
    groups: Type.Array(
      Type.Object(
        {
          from: DECIDED_BY,
          to: DECIDED_BY,
          topic: Type.String(),
          count: Type.Integer(),
          examples: Type.Array(Type.String({ description: "Id of a job." })),
        },
        { title: "PolicyFlips" },
      ),
      { description: "The largest first." },
    ),
    ungrouped: Type.Integer({ description: "Flips of groups that are not listed." }),
    limits: orNull(
      Type.Object(
        {
          counted_from: instant("Uses of limits and budgets before this time are not counted."),
          approximations: Type.Array(Type.String(), {
            description: "What the records do not say, and what is assumed.",
          }),
          exhausted: Type.Array(
            Type.Object(
              {
                rule_id: Type.String(),
                per: Type.String(),
                count: Type.Integer(),
                examples: Type.Array(Type.String({ description: "Id of a job." })),
              },
              { title: "ExhaustedBudget" },
            ),
            { description: "Jobs that a budget of the policy would refuse; not part of `flipped`." },
          ),
        },
        {
          title: "RecordedLimits",
          description:
            "Limits and budgets, counted over the records of this page in order of time. Null: none applies.",
        },
      ),
    ),
    next_cursor: Type.Union([Type.String(), Type.Null()]),
  },
  { title: "RecordedSimulation" },
);

export async function simulateRecords(
  { engine }: Gateway,
  request: GatewayRequest,
  text: string | null,
  recorded: Static<typeof RECORDED>,
): Promise<GatewayResponse> {
  const { clock } = engine.world;
  const { limit = RECORDED_JOBS.default } = recorded;
  if (limit > RECORDED_JOBS.max && !isPublisher(request)) {
    const detail = `more than ${RECORDED_JOBS.max} jobs per request require a key of tenant \`*\` with role \`admin\``;
    throw new Problem("forbidden", `${detail}; send a smaller \`limit\``);
  }
  const untilMs = recorded.until === undefined ? clock.now() : timeOf("until", recorded.until);
  const { fromMs } = rangeOf(recorded, untilMs);
  const simulated = await simulateRecorded(engine, {
    org: request.org,
    text,
    inForce: engine.kernel.inForce.snapshot.document,
    fromMs,
    untilMs,
    limit,
    cursor: recorded.cursor,
  });
  switch (simulated.kind) {
    case "ok": {
      const { cursor, groups, limits, ...counts } = simulated.flips;
      const range = { since: new Date(fromMs).toISOString(), until: new Date(untilMs).toISOString() };
      const views = { groups: groups.map(groupView), limits: limits && limitsView(limits) };
      return ok({ ...counts, ...range, ...views, next_cursor: cursor });
    }
    case "bad":
      throw invalidPolicy(simulated.problems);
    case "over":
    case "busy":
      throw evaluationProblem(simulated);
    default:
      return simulated satisfies never;
  }
}

function rangeOf({ last_ms, since }: Static<typeof RECORDED>, untilMs: number): { readonly fromMs: number } {
  if (last_ms !== undefined && since !== undefined) {
    throw new Problem("invalid_request", "`last_ms` and `since` exclude each other; send one of them");
  }
  if (since !== undefined) return { fromMs: timeOf("since", since) };
  return { fromMs: last_ms === undefined ? 0 : Math.max(0, untilMs - last_ms) };
}

function timeOf(name: string, text: string): number {
  const ms = Date.parse(text);
  if (Number.isFinite(ms)) return Math.max(0, ms);
  throw new Problem("invalid_request", `\`${name}\` must be a time such as \`2026-03-02T09:30:00Z\``);
}

function limitsView({ fromMs, exhausted }: ReplayedLimits): object {
  return {
    counted_from: new Date(fromMs).toISOString(),
    approximations: APPROXIMATIONS,
    exhausted: exhausted.map(({ ruleId, ...rest }) => ({ rule_id: ruleId, ...rest })),
  };
}

const APPROXIMATIONS = [
  "while the duration of a limit reaches back beyond `counted_from`, a rule that decided beyond its limit is beyond it again",
  "a job counts once, at the time of its last decision; submissions that were refused left no record",
  "a job that would wait for a slot counts for no limit of a later rule",
  "budgets start unspent; a job that had not run is taken to spend its reservation",
];

const groupView = ({ from, to, ...rest }: FlipGroup): object => ({ ...rest, from: byView(from), to: byView(to) });
const byView = ({ effect, ruleId }: DecidedBy): object => ({ decision: effect.toUpperCase(), rule_id: ruleId });
