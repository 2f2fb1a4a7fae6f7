/** The pictures of docs/dashboard.md. `data` runs once on a fresh control plane, before all pictures. */
import type { Page } from "playwright-core";
import { createClient } from "../../src/worlds/client-sdk.ts";
import { judgedRollout } from "./data/judged-rollout.ts";
import { DRAFT, publishPolicies, REQUESTS } from "./data/policies.ts";
import { undoneRun } from "./data/undone-run.ts";
import type { Dashboard } from "./harness.ts";

export interface Scene {
  /** File name. */
  readonly name: string;
  /** Its pictures are taken one after another: the control plane limits what they do. */
  readonly inTurn?: true;
  readonly path: string;
  readonly data?: (dashboard: Dashboard) => Promise<void>;
  /** Console errors that belong to the picture. */
  readonly expected?: readonly RegExp[];
  /** Before the picture is taken, for example a click. */
  readonly prepare?: (page: Page, dashboard: Dashboard) => Promise<void>;
}

export const SCENES: readonly Scene[] = [
  {
    name: "now",
    path: "/",
    // Figures of some seconds, for the chart.
    prepare: async (page, { api }) => {
      for (let round = 0; round < 3; round++) {
        for (let n = 0; n < 20; n++)
          await api.jobs.submit({ topic: n % 4 === 0 ? "demo.flaky" : "demo.echo", input: n });
        await page.waitForTimeout(3_000);
      }
    },
  },
  // First: a later policy would void the approvals.
  { name: "policy", path: "/policy", data: ({ api }) => publishPolicies(api) },
  {
    name: "policy-try",
    path: `/policy?view=try&request=${encodeURIComponent('{"topic":"refund.order","labels":{"env":"prod"}}')}`,
    prepare: async (page) => {
      await page.getByLabel("Input, as JSON").fill('{"amount": 82000}');
      await page.getByRole("button", { name: "Try", exact: true }).click();
      await page.getByText("refunds above 1,000 EUR").first().waitFor();
    },
  },
  {
    name: "policy-draft",
    path: "/policy?view=draft",
    prepare: async (page) => {
      const editor = page.getByRole("textbox", { name: "policy draft" });
      await editor.click();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.insertText(DRAFT);
      await page.getByText("1 rule added, 1 rule changed.").waitFor();
      await page.getByLabel("Requests: a JSON array").fill(REQUESTS);
      await page.getByRole("button", { name: /^Compare \d/ }).click();
      await page.getByText("3 of 4 requests").waitFor();
      await page.locator("main").evaluate((main) => main.scrollTo(0, 0));
    },
  },
  {
    name: "policy-problems",
    path: "/policy?view=draft",
    expected: [/status of 400/],
    prepare: async (page) => {
      const editor = page.getByRole("textbox", { name: "policy draft" });
      await editor.click();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.insertText(
        DRAFT.replace("require_approval", "require_aproval").replace("risk_tags", "risk_tag"),
      );
      await page.getByRole("list", { name: "problems" }).waitFor();
    },
  },
  { name: "policy-releases", path: "/policy?view=releases" },
  {
    name: "jobs",
    path: "/jobs",
    data: async ({ api }) => {
      const topics = ["demo.echo", "demo.flaky", "demo.approve", "demo.broken", "demo.slow", "demo.limited"];
      for (let n = 0; n < 24; n++)
        await api.jobs.submit({ topic: topics[n % topics.length] ?? "demo.echo", input: { n } });
    },
  },
  {
    name: "dead-letters",
    path: "/dead-letters",
    data: async ({ api }) => {
      for (let n = 0; n < 12; n++) await api.jobs.submit({ topic: "demo.broken", input: { order: `A-${n}` } });
    },
  },
  { name: "dead-letters-list", path: "/dead-letters?view=list&topic=demo.broken" },
  {
    name: "dead-letters-bulk",
    path: "/dead-letters?view=list&topic=demo.broken",
    prepare: async (page) => {
      await page.getByRole("button", { name: "Retry …" }).click();
      await page.getByText("counted at").waitFor();
    },
  },
  {
    name: "dead-letter",
    path: "/dead-letters?view=list",
    prepare: async (page) => {
      await page.locator(".virtual a.mono").first().click();
      await page.getByText("History").waitFor();
    },
  },
  {
    name: "approvals",
    path: "/approvals?job=refund-1048",
    data: async ({ api }) => {
      for (const [n, amount] of [80, 1_250, 82_000, 45].entries()) {
        await api.jobs.submit({
          job_id: `refund-${1_046 + n}`,
          topic: "demo.approve",
          input: {
            order: `A-${17_204 + n}`,
            amount,
            currency: "EUR",
            to: { name: "Erika Example", password: "not-shown" },
            reason: "parcel lost",
          },
          labels: { env: "prod", team: "support" },
          risk_tags: ["payment"],
          actor_id: "agent:support-7",
          actor_type: "service",
        } as never);
      }
    },
  },
  {
    name: "waves",
    path: "/waves?window=20",
    prepare: async (page, { api }) => {
      const input = { items: Array.from({ length: 300 }, (_, n) => n) };
      const flaky = { topic: "demo.flaky", for_each: "${input.items}", input: { n: "${item}" } };
      await api.workflows.apply({ id: "wave", steps: { each: flaky } } as never);
      const { run_id } = await api.runs.start("wave", { input });
      await api.runs.wait(run_id);
      await page.getByRole("table", { name: /^spread of/ }).waitFor();
      await page.waitForTimeout(1_500);
    },
  },
  { name: "audit", path: "/audit" },
  {
    name: "audit-entry",
    path: "/audit?action=require_approval",
    prepare: async (page) => {
      await page.locator(".virtual a.mono").first().click();
      await page.getByText("The hash matches").waitFor();
    },
  },
  {
    name: "workers",
    path: "/workers",
    inTurn: true,
    // Workers without a job that do not call for 30 s are not listed.
    prepare: async (page, dashboard) => {
      const { items } = await dashboard.api.request("GET /workers", { query: {} });
      if (items.some(({ worker_id }) => worker_id === "pay-1")) return;
      const worker = createClient({ url: dashboard.url, apiKey: await dashboard.keyOf("worker") });
      for (let n = 0; n < 5; n++) await dashboard.api.jobs.submit({ topic: "pay.out", input: { n } });
      for (const [n, max] of [3, 1, 1].entries()) {
        const body = { worker_id: `pay-${n + 1}`, topics: ["pay.out"], pool: "payments", capabilities: ["sepa"] };
        await worker.request("POST /worker/lease", { body: { ...body, max, wait_ms: 0 } });
      }
      await page.getByRole("table", { name: "pools" }).getByText("payments").waitFor();
    },
  },
  {
    name: "keys",
    path: "/keys",
    data: async ({ api }) => {
      const keys = [
        { role: "operator", name: "anna", person: "anna@example.org" },
        { role: "worker", name: "refund workers", expires_in_ms: 90 * 86_400_000 },
        { role: "submitter", name: "support agent", actor_id: "agent:support-7", expires_in_ms: 7 * 86_400_000 },
        { role: "viewer", name: "wall screen" },
      ] as const;
      for (const body of keys) await api.request("POST /keys", { body: { tenant: "default", ...body } });
      const old = await api.request("POST /keys", { body: { tenant: "default", role: "viewer", name: "old laptop" } });
      await api.request("DELETE /keys/{id}", { path: { id: old.id } });
    },
  },
  {
    name: "keys-create",
    path: "/keys",
    prepare: (page) => page.getByRole("button", { name: "Create a key …" }).click(),
  },
  { name: "rollouts", path: "/rollouts" },
  {
    name: "rollout",
    path: "/rollouts/R2",
    data: ({ api }) => judgedRollout(api),
    prepare: async (page) => {
      await page.locator("canvas").nth(1).waitFor();
    },
  },
  {
    name: "rollout-start",
    path: "/rollouts?start=1",
    prepare: async (page, { api }) => {
      // A record of contention is written after a minute.
      while ((await api.request("GET /contention", { query: {} })).items.length === 0) await page.waitForTimeout(2_000);
      await page.getByLabel("Treatment value").fill("bounded:250ms:0.3");
      await page.getByLabel("Treatment share").fill("10%, 30%");
      await page.getByRole("button", { name: "Preview" }).last().click();
      await page.getByRole("region", { name: "Smallest detectable effect", exact: true }).waitFor();
    },
  },
  {
    name: "lab",
    inTurn: true,
    path: "/lab?experiment=lock-busy&run=1&policies=baseline,bounded:500ms:0.3,hand_over,default",
    prepare: async (page) => {
      await page.getByRole("region", { name: "drain time and retries" }).waitFor();
      await page.getByText("Findings").scrollIntoViewIfNeeded();
    },
  },
  {
    name: "schedules",
    path: "/schedules",
    data: async ({ api }) => {
      const every = (id: string, more: object) =>
        api.request("POST /schedules", { body: { id, workflow_id: "greet", input: { name: "Ann" }, ...more } });
      await every("quarter-hourly-sync", { every: "15m", overlap: "queue" });
      await every("weekday-report", { cron: "0 9 * * 1-5", time_zone: "Europe/Berlin", jitter_ms: 60_000 });
      await every("month-end-close", { cron: "30 2 1 * *", overlap: "cancel", paused: true });
      for (const id of ["quarter-hourly-sync", "weekday-report"]) {
        await api.request("POST /schedules/{id}/trigger", { path: { id }, body: { overlap: "allow" } });
      }
    },
  },
  { name: "schedule", path: "/schedules/weekday-report" },
  {
    name: "schedule-edit",
    path: "/schedules/weekday-report",
    prepare: (page) => page.getByRole("button", { name: "Edit …" }).click(),
  },
  { name: "settings", path: "/settings" },
  { name: "setting", path: "/settings?q=retry&explain=setting:retry.lock_busy.policy" },
  {
    name: "simulator",
    path: "/simulator?seed=1&runs=20&mutant=ack-before-work",
    inTurn: true,
    prepare: async (page) => {
      await page.getByText("What happened before").waitFor();
      await page.locator(".lanes").evaluate((lanes) => lanes.scrollIntoView({ block: "end" }));
    },
  },
  {
    name: "runs",
    path: "/runs",
    data: async ({ api }) => {
      const ticket = (n: number) => ({ ticket: `T-${n}`, text: "please refund order A-17", amount: 10 * n });
      for (let n = 1; n < 4; n++) await api.runs.start("ticket-triage", { input: ticket(n) });
      await api.runs.start("fan-out", { input: { items: Array.from({ length: 40 }, (_, n) => n) } });
      const items = Array.from({ length: 11 }, (_, n) => ({ sku: `a-${n}`, count: 1 }));
      await api.runs.start("every-step", { input: { customer: "Ann", region: "eu", items } });
    },
  },
  {
    name: "run",
    path: "/runs?state=RUNNING",
    prepare: async (page) => {
      await page.locator(".row", { hasText: "every-step" }).locator("a.mono").first().click();
      await page.getByRole("heading", { name: "every-step" }).waitFor();
    },
  },
  {
    name: "run-undone",
    path: "/runs?state=FAILED",
    data: ({ api }) => undoneRun(api),
    prepare: async (page) => {
      await page.locator(".row", { hasText: "deliver-parcel" }).locator("a.mono").first().click();
      await page.getByRole("heading", { name: "Compensation" }).waitFor();
    },
  },
  {
    name: "explain",
    path: "/jobs?state=APPROVAL_REQUIRED",
    prepare: async (page) => {
      await page.locator("a.explain").first().click();
      await page.getByRole("dialog").getByText("waits for").first().waitFor();
    },
  },
];
