// The routes of the contract.
import { expect, test } from "vitest";
import { ROUTES } from "../../src/gateway/server.ts";
import { openTestGateway } from "./test-gateway.ts";

const CONTRACT = `
POST /jobs · GET /jobs · GET /jobs/:id · GET /jobs/:id/decisions · POST /jobs/:id/cancel · POST /jobs/:id/remediate
GET /workflows · POST /workflows · GET /workflows/:id · DELETE /workflows/:id · POST /workflows/:id/runs
GET /workflows/:id/runs · POST /workflows/:id/dry-run · POST /workflows/:id/runs/:run_id/cancel
GET /workflow-runs · GET /workflow-runs/:id · DELETE /workflow-runs/:id · GET /workflow-runs/:id/timeline
POST /workflow-runs/:id/rerun · GET /approvals · POST /approvals/:id/approve · POST /approvals/:id/reject
GET /dlq · DELETE /dlq/:id · POST /dlq/:id/retry · POST /policy/evaluate · POST /policy/simulate · POST /policy/explain
POST /policy/publish · POST /policy/rollback · GET /policy/snapshots · GET /policy/rules · GET /policy/audit
GET /policy/bundles · GET /workers · GET /workers/:id · GET /pools · GET /topics · GET /schemas · GET /status
GET /traces/:id · GET /memory · GET /stream · POST /worker/lease · POST /worker/jobs/:id/extend
POST /worker/jobs/:id/progress · POST /worker/jobs/:id/complete · POST /worker/jobs/:id/fail
`
  .trim()
  .split(/\s*[·\n]\s*/)
  .map((line) => line.replace(" /", " /api/v1/"));

test.each([...CONTRACT, "GET /metrics", "GET /healthz", "GET /readyz"])("%s exists", (route) => {
  expect(ROUTES.map(({ method, path }) => `${method} ${path}`)).toContain(route);
});

test("lists return `items` and `next_cursor`; paged lists take `limit` and `cursor`", () => {
  const lists = ROUTES.filter(({ response }) => Object.hasOwn(propertiesOf(response), "items"));
  expect(lists.length).toBeGreaterThan(15);
  for (const { path, response, query } of lists) {
    expect(propertiesOf(response), path).toHaveProperty("next_cursor");
    const isPaged = Object.hasOwn(propertiesOf(query), "cursor");
    if (isPaged) expect(propertiesOf(query), path).toHaveProperty("limit");
  }
});

test("accepts an empty body with a content type where no field is required", async () => {
  const gateway = await openTestGateway();
  const paths = ["jobs/x/cancel", "approvals/x/approve", "dlq/x/retry", "workflow-runs/x/cancel", "workflows/x/runs"];
  for (const path of paths) {
    const headers = { "content-type": "application/json" };
    const answer = await gateway.app.inject({ method: "POST", url: `/api/v1/${path}`, headers, payload: "" });
    // The body was accepted: only the record is missing.
    expect([path, answer.statusCode]).toEqual([path, 404]);
  }
  await gateway.close();
});

const propertiesOf = (schema: unknown): object => (schema as { properties?: object } | undefined)?.properties ?? {};
