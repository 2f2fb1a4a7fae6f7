// Requests that wait for a person: what is shown, the decision by keyboard, and two approvers at a time.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Dashboard, expectAccessible } from "./harness.ts";
import { createKeys, type TestKeys } from "./keys.ts";

let dashboard: Dashboard;
let keys: TestKeys;
const person = { anna: "", ben: "", viewer: "" };

beforeAll(async () => {
  dashboard = await Dashboard.start();
  keys = await createKeys(dashboard);
  person.anna = await keys.create({ tenant: "default", role: "operator", name: "anna", person: "anna@example.org" });
  person.ben = await keys.create({ tenant: "default", role: "operator", name: "ben", person: "ben@example.org" });
  person.viewer = await keys.create({ tenant: "default", role: "viewer", name: "viewer" });
});

afterAll(() => dashboard.close());

async function request(id: string, input: unknown): Promise<void> {
  await keys.api.jobs.submit({ job_id: id, topic: "demo.approve", input });
  await expect.poll(async () => (await keys.api.jobs.get(id)).state).toBe("APPROVAL_REQUIRED");
}

const stateOf = async (id: string) => (await keys.api.jobs.get(id)).state;
const heading = (page: Page) => page.getByRole("main").getByRole("link", { name: /^refund-/ });

test("approves a waiting job by keyboard, with a note", async () => {
  await request("refund-1", { order: "A-17", amount: 120 });
  await request("refund-2", { order: "A-18", amount: 82_000 });
  const page = await dashboard.open("/approvals", { key: person.anna });
  await page.getByText('"amount": 82000').waitFor();
  await page.keyboard.press("j");
  await page.getByText('"order": "A-17"').waitFor();
  expect(new URL(page.url()).searchParams.get("job")).toBe("refund-1");
  expect(await heading(page).innerText()).toBe("refund-1");
  await expectAccessible(page);
  await page.keyboard.press("a");
  await page.getByRole("dialog").getByLabel("Note").fill("checked with the customer");
  await page.keyboard.press("Control+Enter");
  await page.getByText("approved by anna").waitFor();
  await page.getByText("“checked with the customer”").waitFor();
  await expect.poll(() => stateOf("refund-1")).toBe("SUCCEEDED");
  expect(await stateOf("refund-2")).toBe("APPROVAL_REQUIRED");
  await page.context().close();
});

test("tells a second approver who decided, live and after a race", async () => {
  await request("refund-3", { amount: 5 });
  const path = "/approvals?job=refund-3";
  const [anna, ben, cut] = await Promise.all([
    dashboard.open(path, { key: person.anna }),
    dashboard.open(path, { key: person.ben }),
    dashboard.open(path, { key: person.ben, expected: [/status of 409/] }),
  ]);
  // Without events this page still offers the decision.
  await cut.route("**/api/v1/stream*", () => {});
  await cut.reload();
  for (const page of [ben, cut]) {
    await page.getByRole("button", { name: "Reject", exact: true }).click();
    await page.getByRole("dialog").getByLabel("Reason").fill("too large");
  }
  await anna.getByRole("button", { name: "Approve", exact: true }).click();
  await anna.getByRole("dialog").getByRole("button", { name: "Approve" }).click();
  await anna.getByText("approved by anna").waitFor();
  await ben.getByText("approved by anna").waitFor();
  await cut.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
  await cut.getByText("job is not awaiting approval").waitFor();
  await cut.getByText("approved by anna").waitFor();
  for (const page of [anna, ben, cut]) {
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(await page.getByRole("button", { name: "Reject", exact: true }).count()).toBe(0);
    await page.context().close();
  }
  await expect.poll(() => stateOf("refund-3")).toBe("SUCCEEDED");
});

test("shows hidden values as such, and reveals them with an audit entry", async () => {
  await request("refund-4", { amount: 7, password: "s3cret-value" });
  const page = await dashboard.open("/approvals?job=refund-4", { key: person.anna });
  await page.getByText("1 value hidden: input.password").waitFor();
  expect(await page.locator("main").innerText()).not.toContain("s3cret-value");
  await page.keyboard.press("v");
  await page.getByRole("dialog").getByLabel("Reason").fill("ticket 17");
  await page.keyboard.press("Control+Enter");
  await page.getByText("s3cret-value").waitFor();
  const { items } = await keys.api.request("GET /audit", { query: { limit: 20 } });
  expect(items.find(({ what }) => what === "hidden values revealed")?.facts).toMatchObject({
    job: "refund-4",
    reason: "ticket 17",
  });
  await page.context().close();
});

test("offers no decision to a viewer, whose requests are refused", async () => {
  const page = await dashboard.open("/approvals?job=refund-2", { key: person.viewer });
  await page.getByText('"amount": 82000').waitFor();
  for (const name of ["Approve", "Reject", "Reveal"]) {
    expect(await page.getByRole("button", { name, exact: true }).count()).toBe(0);
  }
  const headers = { "x-api-key": person.viewer };
  for (const action of ["approve", "reject", "reveal"]) {
    const data = action === "approve" ? {} : { reason: "mine" };
    const sent = await page
      .context()
      .request.post(`${dashboard.url}/api/v1/approvals/refund-2/${action}`, { headers, data });
    expect(sent.status(), action).toBe(403);
  }
  expect(await stateOf("refund-2")).toBe("APPROVAL_REQUIRED");
  await page.context().close();
});

test("explains an empty list", async () => {
  await keys.api.approvals.reject("refund-2", { reason: "end of the test" });
  await keys.api.approvals.reject("refund-4", { reason: "end of the test" });
  const page = await dashboard.open("/approvals", { key: person.anna, width: 390, scheme: "dark" });
  await page.getByText("nothing to decide").waitFor();
  await expectAccessible(page);
  await page.context().close();
});
