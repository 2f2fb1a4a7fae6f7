/** The JSON Schemas that inputs and outputs have to fit: of the workflows of a tenant, as they were applied last. */
import { Type } from "typebox";
import { WORKFLOW_HEADS, type WorkflowVersion, workflowsOf } from "../../core/model/workflow.ts";
import { loadWorkflow } from "../../engine/runs/index.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { PAGE_QUERY, pageOf, queryText, readCursor, readLimit, writeCursor } from "./page.ts";

const SCHEMA = Type.Unknown({ description: "A JSON Schema; null where anything fits." });

export const SCHEMA_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/schemas",
    summary: "What the inputs of workflows, and the inputs and outputs of their steps, have to fit",
    access: "read",
    query: PAGE_QUERY,
    answer: pageOf(
      Type.Object({
        workflow_id: Type.String(),
        version: Type.Integer(),
        input_schema: SCHEMA,
        steps: Type.Record(Type.String(), Type.Object({ input_schema: SCHEMA, output_schema: SCHEMA })),
      }),
    ),
    handle: listSchemas,
  },
];

async function listSchemas({ engine }: Gateway, { org, query }: GatewayRequest): Promise<Answer> {
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

interface Written {
  readonly input_schema?: unknown;
  readonly output_schema?: unknown;
}

/** Steps without any are left out. */
function schemasView({ id, version, document }: WorkflowVersion): object {
  const { input_schema = null, steps = {} } = document as Written & { readonly steps?: Record<string, Written | null> };
  const shown = Object.entries(steps).flatMap(([stepId, step]) => {
    const { input_schema: input = null, output_schema: output = null } = step ?? {};
    return input === null && output === null ? [] : [[stepId, { input_schema: input, output_schema: output }]];
  });
  return { workflow_id: id, version, input_schema, steps: Object.fromEntries(shown) };
}
