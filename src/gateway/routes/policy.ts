/**
 * The safety policy: evaluate, explain, simulate, diff, publish and roll result.
 *
 * 1. A policy request is evaluated like a job, by the same checks and kernel, without side effects.
 * 2. One policy governs all tenants. A caller of one tenant does not see the rules that apply only to others.
 */
import { type Static, type TSchema, Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import {
  IN_FORCE,
  POLICY_CHOICE,
  POLICY_RELEASES,
  POLICY_TEXTS,
  type PolicyRelease,
  RELEASES_LIST,
} from "../../core/model/policy-release.ts";
import type { Snapshot } from "../../core/policy/compile.ts";
import { explain } from "../../core/policy/explain.ts";
import { writePolicy } from "../../core/policy/write-policy.ts";
import type { Engine } from "../../engine/engine.ts";
import { previewLimits } from "../../engine/limits/index.ts";
import { askKernel, publishPolicy, rollbackPolicy } from "../../engine/safety/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { evaluated, invalidPolicy, requirePublisher, toPolicyRequest } from "../policy/evaluation.ts";
import { POLICY_TESTS, requireTests, TEST, testOne } from "../policy/policy-tests.ts";
import { RECORDED, RECORDED_SIMULATION, simulateRecords } from "../policy/recorded.ts";
import { evaluationProblem, Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { loadKeyNames } from "../views/key-names.ts";
import { listPageWith, PAGE_QUERY, pageOf } from "../views/page.ts";
import {
  POLICY_BUNDLE,
  POLICY_BUNDLE_DETAIL,
  POLICY_CHANGE,
  POLICY_DECISION,
  POLICY_DIFF,
  POLICY_EXPLANATION,
  POLICY_RELEASE,
  POLICY_RULES,
  POLICY_SIMULATION,
  POLICY_TEXT_IN_FORCE,
} from "../views/policy-schemas.ts";
import {
  decisionView,
  diffView,
  explanationView,
  releaseView,
  ruleView,
  simulationView,
  withoutDirectory,
} from "../views/policy-views.ts";
import { POLICY_REQUEST_BODY, type PolicyRequestBody } from "./policy-request.ts";

const optional = <T extends TSchema>(type: T) => Type.Optional(type);

const POLICY_TEXT = Type.String({ minLength: 1, description: "The policy document, as YAML." });
const SIMULATE = Type.Object({
  policy: optional(POLICY_TEXT),
  requests: optional(Type.Array(POLICY_REQUEST_BODY, { minItems: 1, maxItems: 1_000 })),
  recorded: optional(RECORDED),
});
const DIFF = Type.Object({ policy: POLICY_TEXT });
const BASE = optional(
  Type.String({
    maxLength: 256,
    description: "The snapshot that the caller has seen in force; 409 `policy_changed` if another one is.",
  }),
);
const PUBLISH = Type.Object({
  policy: POLICY_TEXT,
  base: BASE,
  name: optional(Type.String({ minLength: 1, maxLength: 256 })),
  note: optional(Type.String({ maxLength: 1_024 })),
  tests: optional(
    Type.String({ minLength: 1, description: "Test cases, as YAML. Published only if all of them pass." }),
  ),
});
const ROLLBACK = Type.Object({ to: optional(Type.String({ minLength: 1, maxLength: 256 })), base: BASE });

export const POLICY_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/policy/evaluate",
    summary: "Evaluate the policy for a job",
    access: "read",
    body: POLICY_REQUEST_BODY,
    response: POLICY_DECISION,
    handle: evaluateOne,
  },
  {
    method: "POST",
    path: "/api/v1/policy/explain",
    summary: "Evaluate the policy for a job, and explain why earlier rules did not match",
    access: "read",
    body: POLICY_REQUEST_BODY,
    response: POLICY_EXPLANATION,
    handle: explainOne,
  },
  {
    method: "POST",
    path: "/api/v1/policy/simulate",
    summary:
      "Evaluate the policy in force, or with `system` access a given one, for many jobs or for recorded decisions",
    access: "read",
    body: SIMULATE,
    response: Type.Union([POLICY_SIMULATION, RECORDED_SIMULATION]),
    handle: simulateMany,
  },
  {
    method: "POST",
    path: "/api/v1/policy/test",
    summary: "Run test cases against the policy in force, or with `system` access against a given one",
    access: "read",
    body: TEST,
    response: POLICY_TESTS,
    handle: testOne,
  },
  {
    method: "POST",
    path: "/api/v1/policy/diff",
    summary: "Compare the policy in force with another one",
    access: "system",
    body: DIFF,
    response: POLICY_DIFF,
    handle: diffWith,
  },
  {
    method: "POST",
    path: "/api/v1/policy/publish",
    summary: "Publish a policy for all tenants and processes",
    access: "system",
    body: PUBLISH,
    response: POLICY_CHANGE,
    handle: publish,
  },
  {
    method: "POST",
    path: "/api/v1/policy/rollback",
    summary: "Roll back to the previous policy, or to a named one",
    access: "system",
    body: ROLLBACK,
    response: POLICY_CHANGE,
    handle: rollback,
  },
  {
    method: "GET",
    path: "/api/v1/policy/snapshots",
    summary: "List published policies, newest first",
    access: "read",
    query: PAGE_QUERY,
    response: pageOf(POLICY_RELEASE),
    handle: listSnapshots,
  },
  {
    method: "GET",
    path: "/api/v1/policy/rules",
    summary: "List the rules of the policy in force, in order",
    access: "read",
    response: POLICY_RULES,
    handle: listRules,
  },
  {
    method: "GET",
    path: "/api/v1/policy/text",
    summary: "Get the text of the policy in force",
    access: "read",
    allTenants: true,
    response: POLICY_TEXT_IN_FORCE,
    handle: getText,
  },
  {
    method: "GET",
    path: "/api/v1/policy/bundles",
    summary: "List published policies that are kept, newest first",
    access: "read",
    allTenants: true,
    query: PAGE_QUERY,
    response: pageOf(POLICY_BUNDLE),
    handle: listBundles,
  },
  {
    method: "GET",
    path: "/api/v1/policy/bundles/:id",
    summary: "Get a published policy with its text",
    access: "read",
    allTenants: true,
    response: POLICY_BUNDLE_DETAIL,
    handle: getBundle,
  },
];

async function evaluateOne({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const policyRequest = toPolicyRequest(engine, request, request.body as PolicyRequestBody);
  const checked = await askKernel(engine, policyRequest).catch((error: unknown) => {
    // The kernel responded without a decision: a retry does not help.
    throw new Problem("internal", `the safety kernel returned no decision: ${String(error)}`, {}, error);
  });
  if (checked.kind === "unavailable") throw new Problem("safety_unavailable", checked.reason);
  const { decision, limits } = await previewLimits(engine, policyRequest.org, checked.decision);
  return ok(decisionView(decision, limits));
}

async function explainOne({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { snapshot } = engine.kernel.inForce;
  const policyRequest = toPolicyRequest(engine, request, request.body as PolicyRequestBody);
  const explanation = explain(snapshot, policyRequest);
  const preview = await previewLimits(engine, policyRequest.org, explanation.decision);
  return ok(explanationView(explanation, preview, visibleTo(request, snapshot)));
}

async function simulateMany(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine } = gateway;
  const { policy: text = null, requests, recorded } = request.body as Static<typeof SIMULATE>;
  if (text !== null) requirePublisher(request);
  if ((requests === undefined) === (recorded === undefined)) {
    throw new Problem("invalid_request", "send `requests`, or `recorded` to evaluate recorded decisions");
  }
  if (recorded !== undefined) return simulateRecords(gateway, request, text, recorded);
  const { snapshot } = engine.kernel.inForce;
  const policyRequests = (requests ?? []).map((one) => toPolicyRequest(engine, request, one));
  const input = { text, inForce: snapshot.document, requests: policyRequests };
  const { simulation, before } = await evaluated(engine.world.evaluator.run(request.org, "simulatePolicy", input));
  return ok(simulationView(simulation, before, text === null ? visibleTo(request, snapshot) : () => true));
}

async function diffWith({ engine }: Gateway, { org, body }: GatewayRequest): Promise<GatewayResponse> {
  const { policy: text } = body as Static<typeof DIFF>;
  const input = { text, inForce: engine.kernel.inForce.snapshot.document };
  return ok(diffView((await evaluated(engine.world.evaluator.run(org, "diffPolicy", input))).diff));
}

async function publish(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine } = gateway;
  const { policy, base, name, note, tests } = request.body as Static<typeof PUBLISH>;
  const by = request.principal.id;
  const tested = tests === undefined ? null : await requireTests(gateway, request, policy, tests);
  const published = await publishPolicy(engine, {
    text: policy,
    name: name ?? `published by ${request.principal.caller.name ?? by}`,
    by,
    note: note ?? null,
    tested,
    base,
  });
  switch (published.kind) {
    case "published": {
      const { id, snapshot } = published.release;
      return ok({ snapshot, previous: published.previous, changed: true, release_id: id });
    }
    case "unchanged":
      return ok({ snapshot: published.snapshot, previous: published.snapshot, changed: false });
    case "replaced":
      throw policyChanged(published.snapshot);
    case "bad":
      throw invalidPolicy(published.problems);
    case "over":
    case "busy":
      throw evaluationProblem(published);
    default:
      return published satisfies never;
  }
}

async function rollback({ engine }: Gateway, { body, principal }: GatewayRequest): Promise<GatewayResponse> {
  const { to, base } = (body ?? {}) as Static<typeof ROLLBACK>;
  const result = await rollbackPolicy(engine, { by: principal.id, base, ...(to === undefined ? {} : { to }) });
  switch (result.kind) {
    case "rolled_back":
      return ok({
        snapshot: result.release.snapshot,
        previous: result.previous,
        changed: true,
        release_id: result.release.id,
      });
    case "unchanged":
      return ok({ snapshot: result.snapshot, previous: result.snapshot, changed: false });
    case "replaced":
      throw policyChanged(result.snapshot);
    case "first":
      throw new Problem(
        "no_earlier_policy",
        "publish a policy instead; `GET /api/v1/policy/snapshots` lists the published ones",
      );
    case "not_found":
      throw new Problem(
        "snapshot_not_found",
        `no policy \`${to ?? "before this one"}\` is stored; \`GET /api/v1/policy/snapshots\` lists them`,
      );
    case "bad":
      throw invalidPolicy(result.problems);
    default:
      return result satisfies never;
  }
}

async function listSnapshots({ engine }: Gateway, { query }: GatewayRequest): Promise<GatewayResponse> {
  return listPageWith(engine.world.store, POLICY_RELEASES, RELEASES_LIST, query, (items) =>
    releaseViews(engine, items),
  );
}

async function listBundles({ engine }: Gateway, { query }: GatewayRequest): Promise<GatewayResponse> {
  const views = async (items: readonly Versioned<PolicyRelease>[]) =>
    (await releaseViews(engine, items)).map(bundleView);
  return listPageWith(engine.world.store, POLICY_RELEASES, RELEASES_LIST, query, views);
}

async function releaseViews(engine: Engine, items: readonly Versioned<PolicyRelease>[]): Promise<readonly object[]> {
  const by = items.map(({ value }) => value.by);
  const [inForceId, names] = await Promise.all([releaseInForce(engine), loadKeyNames(engine.world.store, by)]);
  return items.map(({ value }) => releaseView(value, inForceId, names));
}

async function getBundle({ engine }: Gateway, { params }: GatewayRequest): Promise<GatewayResponse> {
  const id = params.id ?? "";
  const { store } = engine.world;
  const [release, text] = await Promise.all([store.load(POLICY_RELEASES, id), store.load(POLICY_TEXTS, id)]);
  if (release === null || text === null) {
    const detail = `no policy bundle \`${id.slice(0, 100)}\`; \`GET /api/v1/policy/bundles\` lists them`;
    throw new Problem("snapshot_not_found", detail);
  }
  const [view = {}] = await releaseViews(engine, [release]);
  return ok({ ...bundleView(view), policy: text.value.text });
}

async function getText({ engine }: Gateway): Promise<GatewayResponse> {
  const { snapshot, source, releaseId } = engine.kernel.inForce;
  const published = releaseId === null ? null : await engine.world.store.load(POLICY_TEXTS, releaseId);
  return ok({
    snapshot: snapshot.hash,
    source: withoutDirectory(source),
    release_id: releaseId,
    policy: published?.value.text ?? writePolicy(snapshot.document),
  });
}

async function releaseInForce({ world }: Engine): Promise<string | null> {
  return (await world.store.load(POLICY_CHOICE, IN_FORCE))?.value.releaseId ?? null;
}

function bundleView(release: object): object {
  const { release_id, ...rest } = release as { readonly release_id: string };
  return { bundle_id: release_id, ...rest };
}

async function listRules({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { snapshot, source } = engine.kernel.inForce;
  const isVisible = visibleTo(request, snapshot);
  const { rules, defaultDecision, version } = snapshot.document;
  const items = rules.map((rule, at) => ({ rule, at })).filter(({ rule }) => isVisible(rule.id));
  return ok({
    snapshot: snapshot.hash,
    source: withoutDirectory(source),
    version,
    default_decision: defaultDecision,
    items: items.map(({ rule, at }) => ruleView(rule, at + 1)),
    next_cursor: null,
  });
}

function visibleTo({ principal }: GatewayRequest, { document }: Snapshot): (ruleId: string) => boolean {
  if (principal.org === EVERY_ORG) return () => true;
  const otherTenants = document.rules.filter(({ match }) => match.tenants && !match.tenants.includes(principal.org));
  const hidden = new Set(otherTenants.map(({ id }) => id));
  return (ruleId) => !hidden.has(ruleId);
}

function policyChanged(snapshot: string): Problem {
  const detail = `\`${snapshot}\` is in force now; compare with it, then send it as \`base\``;
  return new Problem("policy_changed", detail, { snapshot });
}
