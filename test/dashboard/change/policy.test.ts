// The policy: rules, a request tried on it, a draft edited, compared, published and rolled back.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Dashboard, expectAccessible } from "../harness.ts";
import { createKeys, type TestKeys } from "../keys.ts";

let dashboard: Dashboard;
let keys: TestKeys;

const FIRST = `version: "1"
default_decision: deny
rules:
  - id: no-pii
    match: {risk_tags: [pii]}
    decision: deny
    reason: personal data stays here
  - id: large-refunds
    match: {topics: ["pay.>"], when: input.amount > 1000}
    decision: require_approval
    reason: refunds above 1,000 need a person
    approval: {expires: 4h}
  - id: rest
    match: {}
    decision: allow
    reason: everything else may run
`;

beforeAll(async () => {
  dashboard = await Dashboard.start();
  keys = await createKeys(dashboard);
  await keys.api.request("POST /policy/publish", { body: { policy: FIRST, name: "first" } });
});

afterAll(() => dashboard.close());

const rules = async () => (await keys.api.request("GET /policy/rules", {})).items.map(({ id }) => id);

/** Replaces the text of the editor, as by pasting. */
async function write(page: Page, text: string): Promise<void> {
  const editor = page.getByRole("textbox", { name: "policy draft" });
  await editor.click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(text);
}

test("shows the rules in force with match, decision, reason and terms, filtered by the address", async () => {
  const page = await dashboard.open("/policy", { key: keys.root });
  const list = page.getByRole("list", { name: "rules" });
  await list.getByText("refunds above 1,000 need a person").waitFor();
  expect(await list.getByRole("heading").allTextContents()).toEqual(["no-pii", "large-refunds", "rest"]);
  await list.getByText("input.amount > 1000").waitFor();
  await list.getByText("4 h").waitFor();
  await expectAccessible(page);
  await page.getByLabel("Decision").selectOption("deny");
  await page.waitForURL(/decision=deny/);
  expect(await list.getByRole("heading").allTextContents()).toEqual(["no-pii"]);
  await page.reload();
  await list.getByText("personal data stays here").waitFor();
  expect(await list.getByRole("heading").count()).toBe(1);
  await page.context().close();
});

test("tries a request by form and as JSON, and says why earlier rules did not match", async () => {
  const page = await dashboard.open("/policy?view=try", { key: keys.root, expected: [/status of 400/] });
  await page.getByLabel("Topic").fill("pay.refund");
  await page.getByLabel("Labels").fill("env=prod, team=support");
  await page.getByLabel("Input, as JSON").fill('{"amount": 82000}');
  await page.getByRole("button", { name: "Try", exact: true }).click();
  const decision = page.getByRole("region", { name: "Decision" });
  await decision.getByText("require approval").waitFor();
  await decision.getByRole("link", { name: "large-refunds" }).waitFor();
  const earlier = page.getByRole("list", { name: "rules before it" });
  expect(await earlier.getByRole("link").allTextContents()).toEqual(["no-pii"]);
  await earlier.getByText("risk tags:").waitFor();
  await expectAccessible(page);
  // The input is not part of the address.
  expect(decodeURIComponent(page.url())).toContain('"labels":{"env":"prod","team":"support"}');
  expect(decodeURIComponent(page.url())).not.toContain("82000");
  await page.getByRole("link", { name: "As JSON" }).click();
  const json = page.getByLabel("Request, as JSON");
  expect(JSON.parse(await json.inputValue())).toMatchObject({ topic: "pay.refund", input: { amount: 82_000 } });
  await json.fill('{"topic": "pay.refund", "risk_tags": ["pii"]}');
  await page.getByRole("button", { name: "Try", exact: true }).click();
  await decision.getByText("personal data stays here").waitFor();
  await page.getByText("none: the first rule decided").waitFor();
  await json.fill('{"topic": "no topic"}');
  await page.getByRole("button", { name: "Try", exact: true }).click();
  await page.getByText("could not load the decision").waitFor();
  const jobs = await keys.api.request("GET /jobs", { query: { topic: "pay.refund" } });
  expect(jobs.items).toEqual([]);
  const request = encodeURIComponent('{"topic":"demo.echo","risk_tags":["pii"]}');
  await page.goto(`${dashboard.url}/policy?view=try&request=${request}`);
  await decision.getByText("personal data stays here").waitFor();
  await page.context().close();
});

test("edits a draft with problems at their line, compares, publishes and rolls back", async () => {
  const page = await dashboard.open("/policy?view=draft", { key: keys.root, expected: [/status of (400|409)/] });
  await page.getByText("the policy in force; change it to begin a draft").waitFor();
  expect(await page.getByRole("button", { name: "Publish …" }).isDisabled()).toBe(true);
  await write(page, FIRST.replace("    decision: deny", "    decision: denied").replace("risk_tags", "risk_tag"));
  const problems = page.getByRole("list", { name: "problems" });
  await problems.getByText("did you mean").first().waitFor();
  expect(await problems.getByRole("button").allTextContents()).toEqual(["Line 5", "Line 6"]);
  // In the editor, below the line.
  const below = page.locator(".policy-editor .cm-line:has(+ .cm-problem)");
  expect((await below.allTextContents()).map((line) => line.trim())).toEqual([
    "match: {risk_tag: [pii]}",
    "decision: denied",
  ]);
  await expectAccessible(page);
  await problems.getByRole("button", { name: "Line 6" }).click();
  expect(await page.locator(".policy-editor .cm-activeLine").textContent()).toContain("decision: denied");
  expect(await page.getByRole("button", { name: "Publish …" }).isDisabled()).toBe(true);
  const second = FIRST.replace("amount > 1000", "amount > 50")
    .replace('version: "1"', 'version: "2"')
    .replace(
      "  - id: rest",
      "  - {id: no-shell, match: {topics: [shell.>]}, decision: deny, reason: no shells}\n  - id: rest",
    );
  await write(page, second);
  const changes = page.getByRole("list", { name: "changes" });
  await changes.getByText("no-shell").waitFor();
  await page.getByText("1 rule added, 1 rule changed.").waitFor();
  await page.getByRole("region", { name: "large-refunds, after" }).getByText("input.amount > 50").waitFor();
  await page
    .getByLabel("Requests: a JSON array, or one JSON object per line")
    .fill(
      '{"topic":"pay.refund","input":{"amount":80}}\n{"topic":"pay.refund","input":{"amount":20}}\n{"topic":"shell.run"}',
    );
  await page.getByRole("button", { name: "Compare 3 requests" }).click();
  await page.getByText("2 of 3 requests").waitFor();
  expect(await page.getByRole("table", { name: "flips" }).getByRole("row").count()).toBe(3);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Discard the draft" }).click();
  await page.getByText("no difference", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Restore the draft" }).click();
  await changes.getByText("no-shell").waitFor();
  // The draft survives a reload.
  await page.reload();
  await changes.getByText("no-shell").waitFor();
  await page.getByRole("button", { name: "Publish …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("1 rule added, 1 rule changed.").waitFor();
  await dialog.getByLabel("Note, for the audit log (optional)").fill("CHG-9");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Publish", exact: true }).click();
  await page.waitForURL(/view=releases/);
  expect(await rules()).toEqual(["no-pii", "large-refunds", "no-shell", "rest"]);
  const published = page.getByRole("row", { name: /^published by .*in force/ });
  await published.waitFor();
  await published.getByRole("cell").getByText("root", { exact: true }).waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "open first" }).click();
  await dialog.getByText("1 rule removed, 1 rule changed.").waitFor();
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Roll back to this policy" }).click();
  await page.getByRole("row", { name: /^first in force/ }).waitFor();
  expect(await rules()).toEqual(["no-pii", "large-refunds", "rest"]);
  await page.context().close();
});

test("lists the recorded decisions that the draft would flip", async () => {
  for (const amount of [80, 20, 90]) {
    await keys.api.request("POST /jobs", { body: { topic: "pay.refund", input: { amount } } });
  }
  const page = await dashboard.open("/policy?view=draft", { key: keys.root });
  await page.getByText("the policy in force; change it to begin a draft").waitFor();
  await write(page, FIRST.replace("amount > 1000", "amount > 50"));
  await page.getByText("1 rule changed.").waitFor();
  await page.getByRole("button", { name: "Check recorded decisions", exact: true }).click();
  await page.getByText("2 of 3 recorded decisions").waitFor();
  const row = page.getByRole("table", { name: "recorded flips" }).getByRole("row").nth(1);
  await row.getByText("require approval").waitFor();
  expect(await row.getByRole("link").getAttribute("href")).toMatch(/^\/jobs\//);
  await expectAccessible(page);
  await page.getByLabel("Jobs of the last").selectOption("1h");
  // Only dispatched jobs count towards a budget.
  for (const n of [1, 2, 3])
    await keys.api.jobs.wait((await keys.api.jobs.submit({ topic: "demo.echo", input: { n } })).job_id);
  const budget = "{tokens: 100, per: day, reserve_tokens: 60}";
  const spend = `  - {id: spend, match: {topics: [demo.echo]}, decision: allow, reason: a budget, budget: ${budget}}\n`;
  await write(page, FIRST.replace("  - id: rest", `${spend}  - id: rest`));
  await page.getByText("1 rule added.").waitFor();
  await page.getByRole("button", { name: "Check recorded decisions", exact: true }).click();
  await page.getByText("2 jobs would exhaust the budget of rule spend per day.").waitFor();
  await page.getByText(/^Limits and budgets are counted from .* approximately\.$/).waitFor();
  await page.getByRole("button", { name: "Discard the draft" }).click();
  await page.context().close();
});

test("does not overwrite a policy that was published meanwhile", async () => {
  const page = await dashboard.open("/policy?view=draft", { key: keys.root, expected: [/status of 409/] });
  await page.getByText("the policy in force; change it to begin a draft").waitFor();
  await write(page, FIRST.replace("personal data stays here", "no personal data"));
  await page.getByText("1 rule changed.").waitFor();
  await page.getByRole("button", { name: "Publish …" }).click();
  const other = FIRST.replace("everything else may run", "the rest may run");
  await keys.api.request("POST /policy/publish", { body: { policy: other, name: "of another operator" } });
  await page.getByRole("dialog").getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByText("Another policy was published since this draft was begun").waitFor();
  await page.getByText("2 rules changed.").waitFor();
  const { items } = await keys.api.request("GET /policy/snapshots", { query: { limit: 1 } });
  expect(items).toMatchObject([{ name: "of another operator", in_force: true }]);
  await page.context().close();
});

test("a viewer tries requests but edits, publishes and rolls back nothing", async () => {
  const viewer = await keys.create({ tenant: "*", role: "viewer" });
  const page = await dashboard.open("/policy?view=draft", { key: viewer, width: 390, scheme: "dark" });
  await page.getByRole("list", { name: "rules" }).getByText("no-pii").waitFor();
  expect(await page.getByRole("navigation", { name: "view" }).getByText("draft").count()).toBe(0);
  await expectAccessible(page);
  await page.getByRole("link", { name: "Releases" }).click();
  await page.getByRole("link", { name: "open first" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("personal data stays here").waitFor();
  expect(await dialog.getByRole("button", { name: /Roll back|draft/ }).count()).toBe(0);
  await expectAccessible(page);
  for (const path of ["publish", "rollback", "diff"]) {
    const data = path === "rollback" ? {} : { policy: FIRST };
    const headers = { "x-api-key": viewer };
    const sent = await page.context().request.post(`${dashboard.url}/api/v1/policy/${path}`, { headers, data });
    expect(sent.status(), path).toBe(403);
  }
  await page.context().close();
});
