import { afterEach, expect, test } from "vitest";
import { checkSubmission } from "../../src/core/jobs/submission.ts";
import { admitJob } from "../../src/engine/intake/index.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Body = Readonly<Record<string, unknown>>;

test("an approver sees where values are hidden, and reveals them with an audit entry", async () => {
  gateway = await openTestGateway();
  const [submitter, operator, viewer] = await Promise.all([
    gateway.keyOf("default", "submitter"),
    gateway.keyOf("default", "operator"),
    gateway.keyOf("default", "viewer"),
  ]);
  const input = { to: "Ann", login: { password: "p-canary" }, notes: ["x", "card 4111 1111 1111 1111"] };
  const body = {
    topic: "demo.approve",
    input,
    job_id: "pay",
    risk_tags: ["token=c-canary"],
    env: { API_TOKEN: "e-canary" },
  };
  await gateway.call("POST", "/api/v1/jobs", { key: submitter.key, body });
  const listed = await gateway.call("GET", "/api/v1/approvals", { key: operator.key });
  expect(listed.body).not.toMatch(/canary|4111/);
  const [pending] = listed.json<{ items: Body[] }>().items;
  expect(pending?.hidden).toEqual(["input.login.password", "input.notes.1", "risk_tags.0", "env.API_TOKEN"]);

  const reveal = (key: string) =>
    gateway.call("POST", "/api/v1/approvals/pay/reveal", { key, body: { reason: "check the card" } });
  expect((await reveal(viewer.key)).statusCode).toBe(403);
  expect((await reveal(operator.key)).json()).toMatchObject({ input, risk_tags: ["token=c-canary"], env: body.env });
  const audit = (await gateway.call("GET", "/api/v1/audit", { key: operator.key })).json<{ items: Body[] }>();
  const entries = audit.items.filter(({ what }) => what === "hidden values revealed");
  expect(entries).toMatchObject([{ who: operator.id, facts: { job: "pay", reason: "check the card" } }]);
  await gateway.call("POST", "/api/v1/approvals/pay/approve", { key: operator.key, body: {} });
  expect((await reveal(operator.key)).statusCode).toBe(409);
});

test("hidden values are listed and revealed wherever they are: request fields, and inputs that are not in the list", async () => {
  gateway = await openTestGateway();
  const operator = await gateway.keyOf("default", "operator");
  const input = { pad: "x".repeat(300_000), db: { pass: "p-canary" } };
  const checked = checkSubmission({
    topic: "demo.approve",
    input,
    jobId: "pay",
    details: { env: { API_KEY: "e-canary" } },
  });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  await admitJob(gateway.engine, checked.submission);
  const listed = await gateway.call("GET", "/api/v1/approvals", { key: operator.key });
  expect(listed.json<{ items: Body[] }>().items[0]).toMatchObject({ hidden: ["env.API_KEY"] });
  const detail = await gateway.call("GET", "/api/v1/jobs/pay", { key: operator.key });
  expect(detail.json()).toMatchObject({ hidden: ["input.db.pass", "env.API_KEY"] });
  expect(listed.body + detail.body).not.toContain("canary");
  const options = { key: operator.key, body: { reason: "why" } };
  const revealed = await gateway.call("POST", "/api/v1/approvals/pay/reveal", options);
  expect(revealed.json()).toMatchObject({ input, env: { API_KEY: "e-canary" } });
});
