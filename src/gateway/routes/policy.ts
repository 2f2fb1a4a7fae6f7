/**
 * The safety policy: what it would decide and why, what is in force, and putting another in force.
 *
 * 1. A question here is answered as a job's would be: the same checks, the same kernel; nothing comes of it.
 * 2. One policy governs all tenants, so what a caller of one tenant sees of it leaves out the rules for others.
 */
import { type Static, type TSchema, Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { IN_FORCE, POLICY_CHOICE, POLICY_RELEASES, RELEASES_LIST } from "../../core/model/policy-release.ts";
import { compile, type Snapshot } from "../../core/policy/compile.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import { diff } from "../../core/policy/diff.ts";
import { readPolicy } from "../../core/policy/document.ts";
import { simulate } from "../../core/policy/evaluate.ts";
import { explain } from "../../core/policy/explain.ts";
import type { Engine } from "../../engine/engine.ts";
import { askKernel, publishPolicy, rollbackPolicy } from "../../engine/safety/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { listPage } from "../views/page.ts";
import {
  decisionView,
  diffView,
  explanationView,
  releaseView,
  ruleView,
  simulationView,
} from "../views/policy-views.ts";
import { QUESTION, type Question, readQuestion } from "./policy-question.ts";

const optional = <T extends TSchema>(type: T) => Type.Optional(type);
const orNull = <T extends TSchema>(type: T) => Type.Union([type, Type.Null()]);

const POLICY_TEXT = Type.String({ minLength: 1, description: "A policy as in a file, in YAML." });
const SIMULATE = Type.Object({
  policy: optional(POLICY_TEXT),
  requests: Type.Array(QUESTION, { minItems: 1, maxItems: 1_000 }),
});
const DIFF = Type.Object({ policy: POLICY_TEXT });
const PUBLISH = Type.Object({
  policy: POLICY_TEXT,
  name: optional(Type.String({ minLength: 1, maxLength: 256 })),
  note: optional(Type.String({ maxLength: 1_024 })),
});
const ROLLBACK = Type.Object({ to: optional(Type.String({ minLength: 1, maxLength: 256 })) });

const DECISION = Type.Object({
  decision: Type.String(),
  rule_id: orNull(Type.String()),
  reason: Type.String(),
  snapshot: Type.String(),
});
const CHANGE = Type.Object({
  snapshot: Type.String(),
  previous: orNull(Type.String()),
  changed: Type.Boolean({ description: "False when it was in force already." }),
});
const PAGE = Type.Object({
  limit: optional(Type.Integer({ minimum: 1, maximum: 200 })),
  cursor: optional(Type.String()),
});

export const POLICY_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/policy/evaluate",
    summary: "What would be decided about a job",
    access: "read",
    body: QUESTION,
    answer: DECISION,
    handle: evaluateOne,
  },
  {
    method: "POST",
    path: "/api/v1/policy/explain",
    summary: "What would be decided about a job, and why no earlier rule did",
    access: "read",
    body: QUESTION,
    answer: DECISION,
    handle: explainOne,
  },
  {
    method: "POST",
    path: "/api/v1/policy/simulate",
    summary: "What would be decided about many jobs, by the policy in force or by another one",
    access: "read",
    body: SIMULATE,
    handle: simulateMany,
  },
  {
    method: "POST",
    path: "/api/v1/policy/diff",
    summary: "What is different between the policy in force and another one",
    access: "read",
    everyTenant: true,
    body: DIFF,
    handle: diffWith,
  },
  {
    method: "POST",
    path: "/api/v1/policy/publish",
    summary: "Puts a policy in force, for all tenants and processes",
    access: "system",
    body: PUBLISH,
    answer: CHANGE,
    handle: publish,
  },
  {
    method: "POST",
    path: "/api/v1/policy/rollback",
    summary: "Puts an earlier policy in force again: the one before, or the one named",
    access: "system",
    body: ROLLBACK,
    answer: CHANGE,
    handle: rollback,
  },
  {
    method: "GET",
    path: "/api/v1/policy/snapshots",
    summary: "What was published, newest first",
    access: "read",
    query: PAGE,
    handle: listSnapshots,
  },
  {
    method: "GET",
    path: "/api/v1/policy/rules",
    summary: "The rules in force, in their order",
    access: "read",
    handle: listRules,
  },
];

async function evaluateOne({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const question = questionIn(engine, request, request.body as Question);
  const checked = await askKernel(engine, question).catch((error: unknown) => {
    // It answered, but not with a decision: the store has nothing to do with it, and trying again does not help.
    throw new Problem("internal", `the safety kernel did not decide: ${String(error)}`, {}, error);
  });
  if (checked.kind === "decided") return ok(decisionView(checked.decision));
  throw new Problem("safety_unavailable", checked.reason);
}

async function explainOne({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { snapshot } = engine.kernel.inForce;
  const explanation = explain(snapshot, questionIn(engine, request, request.body as Question));
  return ok(explanationView(explanation, visibleTo(request, snapshot)));
}

async function simulateMany({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { policy, requests } = request.body as Static<typeof SIMULATE>;
  const { snapshot } = engine.kernel.inForce;
  const questions = requests.map((one) => questionIn(engine, request, one));
  if (policy === undefined) {
    return ok(simulationView(simulate(snapshot, questions), null, visibleTo(request, snapshot)));
  }
  const other = compiled(policy);
  const [after, before] = [simulate(other, questions), simulate(snapshot, questions)];
  return ok(simulationView(after, before, () => true));
}

async function diffWith({ engine }: Gateway, { body }: GatewayRequest): Promise<Answer> {
  const { policy } = body as Static<typeof DIFF>;
  return ok(diffView(diff(engine.kernel.inForce.snapshot, compiled(policy))));
}

async function publish({ engine }: Gateway, { body, principal }: GatewayRequest): Promise<Answer> {
  const { policy, name, note } = body as Static<typeof PUBLISH>;
  const by = principal.id;
  const published = await publishPolicy(engine, {
    text: policy,
    name: name ?? `published by ${by}`,
    by,
    note: note ?? null,
  });
  switch (published.kind) {
    case "published": {
      const { id, snapshot } = published.release;
      return ok({ snapshot, previous: published.previous, changed: true, release_id: id });
    }
    case "unchanged":
      return ok({ snapshot: published.snapshot, previous: published.snapshot, changed: false });
    case "bad":
      throw badPolicy(published.problems);
    default:
      return published satisfies never;
  }
}

async function rollback({ engine }: Gateway, { body, principal }: GatewayRequest): Promise<Answer> {
  const { to } = (body ?? {}) as Static<typeof ROLLBACK>;
  const back = await rollbackPolicy(engine, { by: principal.id, ...(to === undefined ? {} : { to }) });
  switch (back.kind) {
    case "rolled_back":
      return ok({
        snapshot: back.release.snapshot,
        previous: back.previous,
        changed: true,
        release_id: back.release.id,
      });
    case "unchanged":
      return ok({ snapshot: back.snapshot, previous: back.snapshot, changed: false });
    case "first":
      throw new Problem(
        "no_earlier_policy",
        "publish the one that you want; `GET /api/v1/policy/snapshots` lists them",
      );
    case "not_found":
      throw new Problem(
        "snapshot_not_found",
        `no policy \`${to ?? "before this one"}\` is kept; \`GET /api/v1/policy/snapshots\` lists them`,
      );
    case "bad":
      throw badPolicy(back.problems);
    default:
      return back satisfies never;
  }
}

async function listSnapshots({ engine }: Gateway, { query }: GatewayRequest): Promise<Answer> {
  const { store } = engine.world;
  const choice = await store.load(POLICY_CHOICE, IN_FORCE);
  const inForceId = choice?.value.releaseId ?? null;
  return listPage(store, POLICY_RELEASES, RELEASES_LIST, query, ({ value }) => releaseView(value, inForceId));
}

async function listRules({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { snapshot, source } = engine.kernel.inForce;
  const isVisible = visibleTo(request, snapshot);
  const { rules, defaultDecision, version } = snapshot.document;
  const items = rules.map((rule, at) => ({ rule, at })).filter(({ rule }) => isVisible(rule.id));
  return ok({
    snapshot: snapshot.hash,
    source,
    version,
    default_decision: defaultDecision,
    items: items.map(({ rule, at }) => ruleView(rule, at + 1)),
    next_cursor: null,
  });
}

function questionIn(engine: Engine, { org, principal }: GatewayRequest, question: Question): PolicyRequest {
  const { tenant_id: tenant = org } = question;
  if (tenant !== org && principal.org !== EVERY_ORG) {
    throw new Problem("tenant_forbidden", `this key speaks for \`${org}\` only; leave out \`tenant_id\``);
  }
  const read = readQuestion(question, org);
  if (read.kind === "ok") return asOfJob(read.request, engine.settings.current.limits.inlineBytesMax);
  throw new Problem("invalid_request", read.problems.join("; "), { problems: read.problems });
}

/** The input of a job that is too large for its record is not looked at. */
function asOfJob(request: PolicyRequest, inlineBytesMax: number): PolicyRequest {
  const { length: bytes } = new TextEncoder().encode(JSON.stringify(request.input) ?? "");
  return bytes <= inlineBytesMax ? request : { ...request, input: null, inputOmitted: { bytes } };
}

function visibleTo({ principal }: GatewayRequest, { document }: Snapshot): (ruleId: string) => boolean {
  if (principal.org === EVERY_ORG) return () => true;
  const ofOthers = document.rules.filter(({ match }) => match.tenants && !match.tenants.includes(principal.org));
  const hidden = new Set(ofOthers.map(({ id }) => id));
  return (ruleId) => !hidden.has(ruleId);
}

function compiled(text: string): Snapshot {
  const read = readPolicy({ name: "policy", text });
  if (read.kind === "bad") throw badPolicy(read.problems);
  return compile(read.document);
}

function badPolicy(problems: readonly string[]): Problem {
  return new Problem("invalid_policy", problems.join("; "), { problems });
}
