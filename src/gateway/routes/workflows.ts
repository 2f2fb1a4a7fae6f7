/**
 * Workflows over HTTP: applied, listed, read, deleted, tried without doing anything. A tenant's workflows are there for that
 * tenant alone. Whether a definition is a good one is decided in `workflow/compile.ts`.
 */

import {
  headKey,
  versionsOf,
  WORKFLOW_HEADS,
  WORKFLOW_VERSIONS,
  type WorkflowHead,
  workflowsOf,
} from "../../core/model/workflow.ts";
import { type DryRun, dryRun } from "../../engine/observe/index.ts";
import { type Applied, applyWorkflow, deleteWorkflow, loadWorkflow } from "../../engine/runs/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { listPage, PAGE_QUERY, pageOf, queryText } from "../views/page.ts";
import {
  APPLIED,
  APPLY_BODY,
  DRY,
  DRY_BODY,
  WORKFLOW,
  WORKFLOW_DELETED,
  WORKFLOW_DETAIL,
  WORKFLOW_QUERY,
  WORKFLOW_VERSION,
} from "../views/run-schemas.ts";
import { dryStepView, versionView, workflowDetail, workflowView } from "../views/run-views.ts";

export const WORKFLOW_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/workflows",
    summary: "Workflows that can be started, newest first",
    access: "read",
    query: PAGE_QUERY,
    answer: pageOf(WORKFLOW),
    handle: async ({ engine }, { org, query }) =>
      listPage(engine.world.store, WORKFLOW_HEADS, workflowsOf(org), query, ({ value }) => workflowView(value)),
  },
  {
    method: "POST",
    path: "/api/v1/workflows",
    summary: "Applies a definition: a new workflow, or a new version of one; runs keep to the version they began with",
    // It says what will be done and by whom, for everybody of the tenant.
    access: "operate",
    body: APPLY_BODY,
    yaml: true,
    answer: APPLIED,
    invalid: "invalid_workflow",
    handle: apply,
  },
  {
    method: "GET",
    path: "/api/v1/workflows/:id",
    summary: "A workflow with its definition; an older version, too, also of one that was deleted",
    access: "read",
    query: WORKFLOW_QUERY,
    answer: WORKFLOW_DETAIL,
    handle: getWorkflow,
  },
  {
    method: "GET",
    path: "/api/v1/workflows/:id/versions",
    summary: "The versions of a workflow, newest first",
    access: "read",
    query: PAGE_QUERY,
    answer: pageOf(WORKFLOW_VERSION),
    handle: listVersions,
  },
  {
    method: "DELETE",
    path: "/api/v1/workflows/:id",
    summary: "Takes a workflow off: no new runs; those that are under way go on",
    access: "operate",
    answer: WORKFLOW_DELETED,
    handle: removeWorkflow,
  },
  {
    method: "POST",
    path: "/api/v1/workflows/:id/dry-run",
    summary: "Says what a run would do, and what the policy would say to each of its jobs; nothing is done",
    access: "read",
    body: DRY_BODY,
    answer: DRY,
    handle: tryWorkflow,
  },
];

/** Somebody else's workflow is not there: saying "forbidden" would tell that it exists. */
export function noSuchWorkflow(id: string, org: string, version: number | null = null): Problem {
  const which = version === null ? `\`${id}\`` : `\`${id}\` of version ${version}`;
  const detail = `no workflow ${which} of tenant \`${org}\`; \`GET /api/v1/workflows\` lists them`;
  return new Problem("workflow_not_found", detail);
}

/** Also one that was deleted: its runs and versions are still there. */
export async function loadHead({ engine }: Gateway, { org, params }: GatewayRequest): Promise<WorkflowHead> {
  const id = params.id ?? "";
  const found = await engine.world.store.load(WORKFLOW_HEADS, headKey(org, id));
  if (found?.value.org === org) return found.value;
  throw noSuchWorkflow(id, org);
}

async function apply({ engine }: Gateway, { org, principal, body }: GatewayRequest): Promise<Answer> {
  const fields = (body ?? {}) as Readonly<Record<string, unknown>>;
  const who = { org, by: principal.id };
  const { source, file } = fields as { readonly source?: string; readonly file?: string };
  const applied: Applied = await applyWorkflow(
    engine,
    source === undefined
      ? { ...who, document: fields }
      : { ...who, source: { text: source, file: file ?? "workflow" } },
  );
  switch (applied.kind) {
    case "applied":
      return ok({ workflow_id: applied.id, version: applied.version, created: applied.isNew });
    case "invalid":
      throw new Problem("invalid_workflow", applied.problems.join("; "), { problems: applied.problems });
    default:
      return applied satisfies never;
  }
}

async function getWorkflow({ engine }: Gateway, { org, params, query }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const asked = queryText(query, "version");
  const version = asked === undefined ? null : Number(asked);
  const found = await loadWorkflow(engine, org, id, version);
  if (found === null) throw noSuchWorkflow(id, org, version);
  return ok(workflowDetail(found));
}

async function listVersions(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const { id, org } = await loadHead(gateway, request);
  const { store } = gateway.engine.world;
  return listPage(store, WORKFLOW_VERSIONS, versionsOf(org, id), request.query, ({ value }) => versionView(value));
}

async function removeWorkflow({ engine }: Gateway, { org, params, principal }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const outcome = await deleteWorkflow(engine, { org, id, by: principal.id });
  if (outcome.kind === "not_found") throw noSuchWorkflow(id, org);
  return ok({ workflow_id: id, deleted: true });
}

async function tryWorkflow(gateway: Gateway, { org, params, principal, body }: GatewayRequest): Promise<Answer> {
  const workflowId = params.id ?? "";
  const { input = {}, version = null, labels, priority, actor_id: actorId } = (body ?? {}) as DryFields;
  const options = { org, workflowId, version, input, by: principal.id, labels, priority, actorId };
  const outcome = await dryRun(gateway.engine, options);
  switch (outcome.kind) {
    case "dry":
      return ok(dryView(gateway, workflowId, outcome));
    case "no_workflow":
      throw noSuchWorkflow(workflowId, org, version);
    case "invalid":
      throw new Problem("invalid_run", outcome.problems.join("; "), { problems: outcome.problems });
    default:
      return outcome satisfies never;
  }
}

interface DryFields {
  readonly input?: unknown;
  readonly version?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly priority?: "interactive" | "batch" | "critical";
  readonly actor_id?: string;
}

/** What a run would do, of a rerun too. */
export function dryView({ engine }: Gateway, workflowId: string, dry: Extract<DryRun, { kind: "dry" }>): object {
  const { paths } = engine.settings.current.redaction;
  return { workflow_id: workflowId, version: dry.version, steps: dry.steps.map((step) => dryStepView(step, paths)) };
}
