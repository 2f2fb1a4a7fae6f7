import { expect, test } from "vitest";
import type { Decision } from "../../src/core/policy/decision.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { approve } from "../../src/engine/safety/approve-job.ts";
import type { Notifier, SendOutcome } from "../../src/ports/notifier.ts";
import { auditLines } from "./audit/audit-lines.ts";
import { idOf } from "./harness.ts";
import { RunHarness } from "./run-harness.ts";

/** Every job requires approval. `answer` decides about each request. */
class NotificationScenario {
  readonly harness = new RunHarness();
  readonly sent: { receiver: string; id: string; event: { [name: string]: unknown; data: Record<string, unknown> } }[] =
    [];
  readonly written: string[] = [];
  places = 64;
  /** When each request was sent. */
  readonly sentMs: number[] = [];
  answer: (tries: number) => SendOutcome | Promise<SendOutcome> = () => ({ kind: "accepted" });

  constructor(receivers: readonly string[] | null = ["r1"], pendingMax = 100) {
    Object.assign(this.harness.kernel, {
      decide: (): Decision => ({
        effect: "require_approval",
        ruleId: "look-twice",
        reason: "a human must look; password=hunter2hunter2",
        snapshot: "s1",
      }),
    });
    const notifier: Notifier = {
      receivers: receivers ?? [],
      pendingMax,
      reserve: () => {
        if (this.places === 0) return null;
        this.places -= 1;
        return () => {
          this.places += 1;
        };
      },
      send: async (receiver, { id, body }) => {
        this.sent.push({ receiver, id, event: JSON.parse(body) });
        this.sentMs.push(this.harness.sim.net.timeline.nowMs);
        return this.answer(this.sent.length);
      },
    };
    if (receivers) this.harness.notifier = notifier;
    this.harness.sim.net.onCommit = (_, { puts }, { kind }) => {
      if (kind === "committed") this.written.push(...puts.map(({ table }) => table));
    };
  }

  submit(engine: Engine, raw: Record<string, unknown> = {}): Promise<string> {
    const job = { topic: "ask.pay", submittedBy: "sam", input: { card: "secret input" }, ...raw };
    return this.harness.admit(engine, job).then(idOf);
  }
}

const FAILED: SendOutcome = { kind: "failed", why: "HTTP 500", retryAfterMs: 0 };

test("stores no notification without a receiver", async () => {
  const scenario = new NotificationScenario(null);
  const { engine } = await scenario.harness.control("c1");
  const id = await scenario.submit(engine);
  await scenario.harness.pass(5_000);
  expect(await scenario.harness.job(id)).toMatchObject({ state: "APPROVAL_REQUIRED" });
  expect(scenario.written).toContain("job");
  expect(scenario.written).not.toContain("notification");
});

test("notifies every receiver of the request and of the decision, without the input", async () => {
  const scenario = new NotificationScenario(["r1", "r2"]);
  const { engine } = await scenario.harness.control("c1");
  const id = await scenario.submit(engine);
  await scenario.harness.pass(5_000);
  expect(scenario.sent.map(({ receiver }) => receiver).toSorted()).toEqual(["r1", "r2"]);
  const [first, second] = scenario.sent;
  expect(first?.id).toBe(second?.id);
  expect(first?.event).toMatchObject({
    specversion: "1.0",
    id: first?.id,
    type: "dev.cordum.approval.requested",
    source: "/tenants/default",
    subject: id,
    data: {
      job_id: id,
      topic: "ask.pay",
      rule: "look-twice",
      requester: "sam",
      links: {
        job: `/api/v1/jobs/${id}`,
        approve: `/api/v1/approvals/${id}/approve`,
        reject: `/api/v1/approvals/${id}/reject`,
      },
    },
  });
  await scenario.harness.run(approve(engine, { org: "default", jobId: id, by: "alice" }));
  await scenario.harness.pass(5_000);
  expect(scenario.sent).toHaveLength(4);
  expect(scenario.sent[2]?.event).toMatchObject({
    type: "dev.cordum.approval.decided",
    data: { outcome: "approved", decided_by: "alice" },
  });
  expect(scenario.sent[2]?.id).not.toBe(first?.id);
  expect(JSON.stringify(scenario.sent)).not.toMatch(/secret input|hunter2/);
});

test("retries with the same id until the receiver accepts", async () => {
  const scenario = new NotificationScenario();
  scenario.answer = (tries) => (tries <= 2 ? FAILED : { kind: "accepted" });
  const { engine } = await scenario.harness.control("c1");
  await scenario.submit(engine);
  await scenario.harness.pass(600_000);
  expect(scenario.sent).toHaveLength(3);
  expect(new Set(scenario.sent.map(({ id }) => id)).size).toBe(1);
});

test("another process sends after a crash before or during the request", async () => {
  const scenario = new NotificationScenario();
  const engine = scenario.harness.engine("gateway");
  await scenario.submit(engine);
  scenario.harness.crash("gateway");
  expect(scenario.sent).toEqual([]);
  scenario.answer = () => new Promise(() => {});
  await scenario.harness.control("c1");
  await scenario.harness.pass(5_000);
  expect(scenario.sent).toHaveLength(1);
  scenario.harness.crash("c1");
  scenario.answer = () => ({ kind: "accepted" });
  await scenario.harness.control("c2");
  await scenario.harness.pass(120_000);
  expect(scenario.sent).toHaveLength(2);
  expect(scenario.sent[1]?.id).toBe(scenario.sent[0]?.id);
});

test("two processes send it once while the request takes longer than the lease of a timer", async () => {
  const scenario = new NotificationScenario();
  scenario.answer = () => new Promise(() => {});
  const { engine } = await scenario.harness.control("c1");
  await scenario.harness.control("c2");
  await scenario.submit(engine);
  await scenario.harness.pass(25_000);
  expect(scenario.sent).toHaveLength(1);
});

test("gives up after the budget with an audit entry", async () => {
  const scenario = new NotificationScenario();
  scenario.answer = () => FAILED;
  const { engine } = await scenario.harness.control("c1");
  await scenario.submit(engine);
  await scenario.harness.pass(25 * 3_600_000);
  const lines = await auditLines(scenario.harness, engine, "approval");
  expect(JSON.stringify(lines)).toContain("notification_failed");
  const tries = scenario.sent.length;
  await scenario.harness.pass(3_600_000);
  expect(
    scenario.sent.filter(({ event }) => event.type === "dev.cordum.approval.requested").length,
  ).toBeLessThanOrEqual(tries);
});

test("postpones while all requests are in use", async () => {
  const scenario = new NotificationScenario();
  scenario.places = 0;
  const { engine } = await scenario.harness.control("c1");
  await scenario.submit(engine);
  await scenario.harness.pass(30_000);
  expect(scenario.sent).toEqual([]);
  scenario.places = 1;
  await scenario.harness.pass(30_000);
  expect(scenario.sent).toHaveLength(1);
  expect(scenario.places).toBe(1);
});

test("events of two tenants with the same job id contain only their own data", async () => {
  const scenario = new NotificationScenario();
  const { engine } = await scenario.harness.control("c1");
  await scenario.submit(engine, { jobId: "pay-1", org: "acme", topic: "ask.acme" });
  await scenario.submit(engine, { jobId: "pay-1", org: "globex", topic: "ask.globex" });
  await scenario.harness.pass(5_000);
  const of = (org: string) => scenario.sent.filter(({ event }) => event.source === `/tenants/${org}`);
  expect(of("acme")).toHaveLength(1);
  expect(of("globex")).toHaveLength(1);
  expect(of("acme")[0]?.id).not.toBe(of("globex")[0]?.id);
  expect(of("acme")[0]?.event.data).toMatchObject({ tenant: "acme", job_id: "pay-1", topic: "ask.acme" });
  expect(JSON.stringify(of("acme"))).not.toContain("globex");
});

test("waits at least as long as the receiver asks for, but not longer than an hour more", async () => {
  const scenario = new NotificationScenario();
  const waits = [120_000, 1e12];
  scenario.answer = (tries) => {
    const retryAfterMs = waits[tries - 1];
    return retryAfterMs === undefined ? { kind: "accepted" } : { kind: "failed", why: "HTTP 503", retryAfterMs };
  };
  const { engine } = await scenario.harness.control("c1");
  await scenario.submit(engine);
  await scenario.harness.pass(2 * 3_600_000);
  const [first = 0, second = 0, third = 0] = scenario.sentMs;
  expect(scenario.sent).toHaveLength(3);
  expect(second - first).toBeGreaterThanOrEqual(120_000);
  expect(second - first).toBeLessThan(130_000);
  expect(third - second).toBeGreaterThanOrEqual(3_600_000);
  expect(third - second).toBeLessThan(3_610_000);
});

test("commits the job without a notification at the bound of the tenant", async () => {
  const scenario = new NotificationScenario(["r1"], 2);
  scenario.answer = () => FAILED;
  const { engine } = await scenario.harness.control("c1");
  const ids: string[] = [];
  for (let at = 0; at < 4; at++) ids.push(await scenario.submit(engine, { org: "acme" }));
  const other = await scenario.submit(engine, { org: "globex" });
  await scenario.harness.pass(5_000);
  for (const id of [...ids, other])
    expect(await scenario.harness.job(id)).toMatchObject({ state: "APPROVAL_REQUIRED" });
  const events = new Map(scenario.sent.map(({ id, event }) => [id, event.source]));
  expect([...events.values()].toSorted()).toEqual(["/tenants/acme", "/tenants/acme", "/tenants/globex"]);
  scenario.answer = () => ({ kind: "accepted" });
  await scenario.harness.pass(60_000);
  const before = scenario.sent.length;
  await scenario.submit(engine, { org: "acme" });
  await scenario.harness.pass(5_000);
  expect(scenario.sent.length).toBe(before + 1);
});

test("a request that the stop of its process ends is sent again by another one", async () => {
  const scenario = new NotificationScenario();
  scenario.answer = () => ({ kind: "stopped" });
  const { engine } = await scenario.harness.control("c1");
  await scenario.submit(engine);
  await scenario.harness.pass(2_000);
  expect(scenario.sent).toHaveLength(1);
  scenario.harness.crash("c1");
  scenario.answer = () => ({ kind: "accepted" });
  await scenario.harness.control("c2");
  await scenario.harness.pass(60_000);
  expect(scenario.sent.map(({ id }) => id)).toEqual([scenario.sent[0]?.id, scenario.sent[0]?.id]);
});

test("jobs are processed while the receiver hangs", async () => {
  const scenario = new NotificationScenario();
  scenario.answer = () => new Promise(() => {});
  scenario.places = 1;
  const { engine } = await scenario.harness.control("c1");
  const ids: string[] = [];
  for (let at = 0; at < 20; at++) ids.push(await scenario.submit(engine));
  await scenario.harness.pass(5_000);
  for (const jobId of ids) {
    const outcome = await scenario.harness.run(approve(engine, { org: "default", jobId, by: "alice" }));
    expect(outcome.kind).toBe("approved");
  }
  expect(scenario.sent).toHaveLength(1);
});

test("notifies of an approval step of a run", async () => {
  const scenario = new NotificationScenario();
  const { engine } = await scenario.harness.control("c1");
  await scenario.harness.apply(engine, { id: "release", steps: { ask: { type: "approval" } } });
  const runId = await scenario.harness.started(engine, "release");
  await scenario.harness.pass(5_000);
  expect(scenario.sent).toHaveLength(1);
  const { event } = scenario.sent[0] as (typeof scenario.sent)[number];
  expect(event).toMatchObject({ type: "dev.cordum.approval.requested", data: { run_id: runId } });
  await scenario.harness.run(approve(engine, { org: "default", jobId: String(event.subject), by: "bob" }));
  await scenario.harness.pass(5_000);
  expect(scenario.harness.runOf(runId).state).toBe("SUCCEEDED");
  expect(scenario.sent[1]?.event).toMatchObject({ data: { run_id: runId, outcome: "approved", decided_by: "bob" } });
});
