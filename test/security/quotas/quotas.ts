/** Quotas of a tenant, on every world. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { Settings } from "../../../src/core/settings.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { SUBMIT } from "../../../src/protocol/subjects.ts";

// biome-ignore lint/suspicious/noExplicitAny: a response of any route
export type Answer = { readonly status: number; readonly body: any };

/** A control plane without workers of the topics that these cases use. */
export interface Subject {
  readonly engine: Engine;
  post(tenant: string, path: string, body: object): Promise<Answer>;
  get(tenant: string, path: string): Promise<Answer>;
}

export const QUOTAS = { backlogMax: 3, storedBytesMax: 30_000 } as const;
export const withQuotas = (settings: Settings): Settings => ({
  ...settings,
  limits: { ...settings.limits, ...QUOTAS, inlineBytesMax: 15_000 },
  orgs: { rich: { limits: { backlogMax: 6, storedBytesMax: 60_000 } } },
  unsignedTenants: ["default", "bus"],
});

const LARGE = "x".repeat(12_000);
const refusal = (quota: string) => ({ status: 429, body: { code: "quota_exceeded", quota, retryable: true } });
/** Every case has tenants of its own. */
const fresh = (name: string) => `${name}-${randomBytes(4).toString("hex")}`;

export function quotaCases(open: () => Subject): void {
  const submit = (tenant: string, fields: object = {}) =>
    open().post(tenant, "/jobs", { topic: "idle.topic", ...fields });

  test.each(["same topic", "a topic each", "awaiting approval"])(
    "a full backlog refuses jobs and runs: %s",
    async (kind) => {
      const [tenant, other] = [fresh("full"), fresh("other")];
      const topicOf = (at: number) =>
        kind === "awaiting approval" ? "demo.approve" : kind === "same topic" ? "idle.same" : `idle.t${at}`;
      const ids: string[] = [];
      for (let at = 0; at < QUOTAS.backlogMax; at++) {
        const { status, body } = await submit(tenant, { topic: topicOf(at), idempotency_key: `k${at}` });
        expect(status).toBe(200);
        ids.push(body.job_id);
      }
      const refused = await submit(tenant, { topic: topicOf(9) });
      expect(refused).toMatchObject(refusal("backlog"));
      expect(refused.body).toMatchObject({
        current: 3,
        limit: 3,
        detail: expect.stringContaining("limits.backlog_max"),
      });
      const steps = { a: { type: "worker", topic: "idle.step" } };
      expect(await open().post(tenant, "/workflows", { id: "w", steps })).toMatchObject({ status: 200 });
      expect(await open().post(tenant, "/workflows/w/runs", {})).toMatchObject(refusal("backlog"));
      // Neither replays nor other tenants are refused.
      const replay = await submit(tenant, { topic: topicOf(0), idempotency_key: "k0" });
      expect(replay).toMatchObject({ status: 200, body: { replayed: true } });
      expect(await submit(other)).toMatchObject({ status: 200 });
      expect(await open().post(tenant, `/jobs/${ids[0]}/cancel`, {})).toMatchObject({ status: 200 });
      expect(await submit(tenant)).toMatchObject({ status: 200 });
    },
  );

  test("concurrent submissions do not exceed the backlog", async () => {
    const tenant = fresh("burst");
    const answers = await Promise.all(Array.from({ length: 20 }, () => submit(tenant)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(QUOTAS.backlogMax);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20 - QUOTAS.backlogMax);
  });

  test.each([
    ["inline", LARGE],
    ["stored", LARGE.repeat(2)],
  ])("stored bytes are limited: %s inputs", async (kind, input) => {
    const tenant = fresh("bytes");
    const results = [await submit(tenant, { input }), await submit(tenant, { input }), await submit(tenant, { input })];
    const accepted = kind === "inline" ? 2 : 1;
    expect(results.map(({ status }) => status)).toEqual([200, 200, 200].map((ok, at) => (at < accepted ? ok : 429)));
    expect(results.at(-1)).toMatchObject(refusal("stored_bytes"));
    const steps = { a: { type: "transform", input: 1 } };
    expect(await open().post(tenant, "/workflows", { id: "w", steps })).toMatchObject({ status: 200 });
    expect(await open().post(tenant, "/workflows/w/runs", { input })).toMatchObject(refusal("stored_bytes"));
    // Small inputs are not counted.
    expect(await submit(tenant)).toMatchObject({ status: 200 });
  });

  test("a refused input is not stored", async () => {
    const tenant = fresh("unstored");
    await submit(tenant, { input: LARGE.repeat(2) });
    const { blobs } = open().engine.world;
    const written: string[] = [];
    const put = blobs.put.bind(blobs);
    blobs.put = (key, bytes, untilMs) => {
      written.push(key);
      return put(key, bytes, untilMs);
    };
    try {
      expect(await submit(tenant, { input: LARGE.repeat(2) })).toMatchObject(refusal("stored_bytes"));
      expect(written).toEqual([]);
      expect(await submit(fresh("other"), { input: LARGE.repeat(2) })).toMatchObject({ status: 200 });
      expect(written).toHaveLength(1);
    } finally {
      blobs.put = put;
    }
  });

  test("a step whose large input has no room fails, and its run ends", async () => {
    const tenant = fresh("steps");
    const steps = {
      wait: { type: "delay", delay_sec: 0 },
      each: {
        type: "approval",
        reason: "?",
        for_each: "[1, 2, 3, 4]",
        depends_on: ["wait"],
        input: { all: "${input}" },
      },
    };
    expect(await open().post(tenant, "/workflows", { id: "w", steps })).toMatchObject({ status: 200 });
    const { status, body } = await open().post(tenant, "/workflows/w/runs", { input: LARGE });
    expect(status).toBe(200);
    const run = await ended(open, tenant, body.run_id);
    expect(run.state).toBe("FAILED");
    expect(JSON.stringify(run)).toContain("limits.stored_bytes_max");
    const total = (await open().engine.world.store.counts("stored_bytes", 10_000)).get(tenant) ?? 0;
    expect(total).toBeLessThanOrEqual(QUOTAS.storedBytesMax);
  });

  test("a run with more steps than the quota is admitted while there is room", async () => {
    const tenant = fresh("wide");
    const steps = { each: { type: "approval", reason: "?", for_each: "[1, 2, 3, 4, 5]" } };
    expect(await open().post(tenant, "/workflows", { id: "w", steps })).toMatchObject({ status: 200 });
    expect(await open().post(tenant, "/workflows/w/runs", {})).toMatchObject({ status: 200 });
    expect(await open().post(tenant, "/workflows/w/runs", {})).toMatchObject(refusal("backlog"));
  });

  test("a tenant may have quotas of its own", async () => {
    for (let at = 0; at < 6; at++) expect(await submit("rich")).toMatchObject({ status: 200 });
    expect(await submit("rich")).toMatchObject(refusal("backlog"));
  });

  test("a job of the bus waits until there is room", async () => {
    const { engine } = open();
    const [first] = [await submit("bus"), await submit("bus"), await submit("bus")];
    const body = { kind: "job_request", jobId: "late", topic: "idle.topic", tenantId: "bus" } as const;
    const packet = { traceId: "t", senderId: "client", createdAtMs: 0, body };
    await engine.world.bus.publish({ id: "bus-late", subject: SUBMIT, packet });
    const isLate = async () => (await open().get("bus", "/jobs/late")).status === 200;
    expect(await isLate()).toBe(false);
    await open().post("bus", `/jobs/${first?.body.job_id}/cancel`, {});
    await until(open, isLate);
    expect((await open().get("bus", "/dlq")).body.items).toEqual([]);
  });
}

async function ended(open: () => Subject, tenant: string, runId: string) {
  let run = { state: "" };
  await until(open, async () => {
    run = (await open().get(tenant, `/workflow-runs/${runId}`)).body;
    return ["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"].includes(run.state);
  });
  return run;
}

async function until(open: () => Subject, isReached: () => Promise<boolean>): Promise<void> {
  const { clock } = open().engine.world;
  while (!(await isReached())) await new Promise<void>((resolve) => void clock.after(20, resolve));
}
