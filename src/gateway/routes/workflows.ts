/** Workflow definitions. Workflows of other tenants are reported as not found. */
import {
  headKey,
  versionsOf,
  WORKFLOW_HEADS,
  WORKFLOW_VERSIONS,
  type WorkflowHead,
  type WorkflowVersion,
  workflowsOf,
} from "../../core/model/workflow.ts";
import { type DryRun, dryRun } from "../../engine/observe/index.ts";
import { type Applied, applyWorkflow, deleteWorkflow, loadWorkflow } from "../../engine/runs/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { evaluationProblem, Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { withKeyName, withKeyNames } from "../views/key-names.ts";
import {
  listPage,
  listPageWith,
  PAGE_QUERY,
  pageOf,
  queryText,
  readCursor,
  readLimit,
  writeCursor,
} from "../views/page.ts";
import {
  APPLIED,
  APPLY_BODY,
  DRY,
  DRY_BODY,
  WORKFLOW,
  WORKFLOW_DELETED,
  WORKFLOW_DETAIL,
  WORKFLOW_QUERY,
  WORKFLOW_SCHEMAS,
  WORKFLOW_VERSION,
} from "../views/run-schemas.ts";
import { dryStepView, schemasView, versionView, workflowDetail, workflowView } from "../views/run-views.ts";
import { actorFields } from "./submit.ts";

export const WORKFLOW_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/workflows",
    summary: "List workflows, newest first",
    access: "read",
    query: PAGE_QUERY,
    response: pageOf(WORKFLOW),
    handle: async ({ engine }, { org, query }) =>
      listPage(engine.world.store, WORKFLOW_HEADS, workflowsOf(org), query, ({ value }) => workflowView(value)),
  },
  {
    method: "POST",
    path: "/api/v1/workflows",
    summary: "Apply a definition: creates a workflow or a new version; open runs keep their version",
    // A definition affects all users of the tenant.
    access: "operate",
    body: APPLY_BODY,
    acceptsYaml: true,
    response: APPLIED,
    invalidCode: "invalid_workflow",
    handle: apply,
  },
  {
    method: "GET",
    path: "/api/v1/workflows/:id",
    summary: "Get a workflow with its definition; `version` also selects versions of a deleted workflow",
    access: "read",
    query: WORKFLOW_QUERY,
    response: WORKFLOW_DETAIL,
    handle: getWorkflow,
  },
  {
    method: "GET",
    path: "/api/v1/workflows/:id/versions",
    summary: "List the versions of a workflow, newest first",
    access: "read",
    query: PAGE_QUERY,
    response: pageOf(WORKFLOW_VERSION),
    handle: listVersions,
  },
  {
    method: "DELETE",
    path: "/api/v1/workflows/:id",
    summary: "Delete a workflow: no new runs; open runs continue",
    access: "operate",
    response: WORKFLOW_DELETED,
    handle: removeWorkflow,
  },
  {
    method: "POST",
    path: "/api/v1/workflows/:id/dry-run",
    summary: "Dry-run a workflow: the steps of a run and the policy decision for each job, without side effects",
    access: "read",
    body: DRY_BODY,
    response: DRY,
    handle: dryRunWorkflow,
  },
  {
    method: "GET",
    path: "/api/v1/schemas",
    summary: "List the JSON Schemas of workflow inputs and of step inputs and outputs, for the latest versions",
    access: "read",
    query: PAGE_QUERY,
    response: pageOf(WORKFLOW_SCHEMAS),
    handle: listSchemas,
  },
];

/** Also for workflows of other tenants: a 403 would disclose that the workflow exists. */
export function workflowNotFound(id: string, org: string, version: number | null = null): Problem {
  const which = version === null ? `\`${id}\`` : `\`${id}\` with version ${version}`;
  const detail = `no workflow ${which} of tenant \`${org}\`; \`GET /api/v1/workflows\` lists them`;
  return new Problem("workflow_not_found", detail);
}

/** Includes deleted workflows, whose runs and versions are kept. */
export async function loadHead({ engine }: Gateway, { org, params }: GatewayRequest): Promise<WorkflowHead> {
  const id = params.id ?? "";
  const found = await engine.world.store.load(WORKFLOW_HEADS, headKey(org, id));
  if (found?.value.org === org) return found.value;
  throw workflowNotFound(id, org);
}

async function apply({ engine }: Gateway, { org, principal, body }: GatewayRequest): Promise<GatewayResponse> {
  const fields = (body ?? {}) as Readonly<Record<string, unknown>>;
  const scope = { org, by: principal.id };
  const { source, file } = fields as { readonly source?: string; readonly file?: string };
  const applied: Applied = await applyWorkflow(
    engine,
    source === undefined
      ? { ...scope, document: fields }
      : { ...scope, source: { text: source, file: file ?? "workflow" } },
  );
  switch (applied.kind) {
    case "applied":
      return ok({ workflow_id: applied.id, version: applied.version, created: applied.isNew });
    case "invalid":
      throw new Problem("invalid_workflow", applied.problems.join("; "), { problems: applied.problems });
    case "over":
    case "busy":
      throw evaluationProblem(applied);
    default:
      return applied satisfies never;
  }
}

async function getWorkflow({ engine }: Gateway, { org, params, query }: GatewayRequest): Promise<GatewayResponse> {
  const id = params.id ?? "";
  const text = queryText(query, "version");
  const version = text === undefined ? null : Number(text);
  const found = await loadWorkflow(engine, org, id, version);
  if (found === null) throw workflowNotFound(id, org, version);
  return ok(await withKeyName(engine.world.store, workflowDetail(found), "created_by"));
}

async function listVersions(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { id, org } = await loadHead(gateway, request);
  const { store } = gateway.engine.world;
  const views = (items: readonly Versioned<WorkflowVersion>[]) =>
    withKeyNames(
      store,
      items.map(({ value }) => versionView(value)),
      "created_by",
    );
  return listPageWith(store, WORKFLOW_VERSIONS, versionsOf(org, id), request.query, views);
}

async function removeWorkflow(
  { engine }: Gateway,
  { org, params, principal }: GatewayRequest,
): Promise<GatewayResponse> {
  const id = params.id ?? "";
  const outcome = await deleteWorkflow(engine, { org, id, by: principal.id });
  if (outcome.kind === "not_found") throw workflowNotFound(id, org);
  return ok({ workflow_id: id, deleted: true });
}

async function dryRunWorkflow(
  gateway: Gateway,
  { org, params, principal, body }: GatewayRequest,
): Promise<GatewayResponse> {
  const workflowId = params.id ?? "";
  const { input = {}, version = null, labels, priority, actor_id: actorId } = (body ?? {}) as DryFields;
  actorFields(principal, { actor_id: actorId });
  const { id: by, caller } = principal;
  const options = { org, workflowId, version, input, by, caller, labels, priority, actorId };
  const outcome = await dryRun(gateway.engine, options);
  switch (outcome.kind) {
    case "dry":
      return ok(dryView(gateway, workflowId, outcome));
    case "no_workflow":
      throw workflowNotFound(workflowId, org, version);
    case "invalid":
      throw new Problem("invalid_run", outcome.problems.join("; "), { problems: outcome.problems });
    case "over":
    case "busy":
      throw evaluationProblem(outcome);
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

/** Shared with reruns. */
export function dryView({ engine }: Gateway, workflowId: string, dry: Extract<DryRun, { kind: "dry" }>): object {
  const { paths } = engine.settings.current.redaction;
  return { workflow_id: workflowId, version: dry.version, steps: dry.steps.map((step) => dryStepView(step, paths)) };
}

async function listSchemas({ engine }: Gateway, { org, query }: GatewayRequest): Promise<GatewayResponse> {
  const index = workflowsOf(org);
  const cursor = readCursor(queryText(query, "cursor"), index);
  const limit = readLimit(queryText(query, "limit"));
  const page = await engine.world.store.list(WORKFLOW_HEADS, { index, limit, cursor });
  const versions = await Promise.all(page.items.map(({ value }) => loadWorkflow(engine, org, value.id, value.version)));
  return ok({
    items: versions.flatMap((version) => (version === null ? [] : [schemasView(version)])),
    next_cursor: page.cursor === null ? null : writeCursor(index, page.cursor),
  });
}
