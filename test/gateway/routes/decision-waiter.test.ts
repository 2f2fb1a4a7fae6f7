// The safety kernel is in another process and decides after the job was stored.
import { afterEach, beforeEach, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

beforeEach(async () => {
  const check = async () => ({ kind: "unavailable", reason: "only the control plane calls it" }) as const;
  gateway = await openTestGateway({ change: () => ({ name: "gateway", safety: { local: null, check } }) });
});

afterEach(() => gateway.close());

const submit = async (topic: string) => {
  const answer = await gateway.call("POST", "/api/v1/jobs", { body: { topic } });
  return { status: answer.statusCode, body: answer.json<Record<string, unknown>>() };
};

test("the submission response has the decision", async () => {
  const rule = { code: "denied", rule_id: "deny-demo-forbidden" };
  expect(await submit("demo.forbidden")).toMatchObject({ status: 403, body: rule });
  const waits = { state: "APPROVAL_REQUIRED", status: "approval_required", rule_id: "approve-demo-approve" };
  expect(await submit("demo.approve")).toMatchObject({ status: 200, body: waits });
  const { status, body } = await submit("demo.echo");
  expect(status).toBe(200);
  expect(["SCHEDULED", "DISPATCHED"]).toContain(body.state);
});

test("does not wait while the breaker is open", async () => {
  const untilMs = gateway.world.clock.now() + 5_000;
  gateway.engine.safety.breaker = { kind: "open", untilMs, openings: 1, reason: "gone" };
  expect(await submit("demo.echo")).toMatchObject({ status: 200, body: { state: "PENDING" } });
});
