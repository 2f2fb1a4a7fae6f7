/** One record of each kind for tenant `acme`, with texts that no other tenant may see. */
import { API_KEYS } from "../../../src/core/model/api-key.ts";
import { DEAD_LETTERS, withFingerprint } from "../../../src/core/model/dead-letter.ts";
import { FAIL_OPENS } from "../../../src/core/model/fail-open.ts";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { wireJobId } from "../../../src/core/model/job-id.ts";
import { RUNS } from "../../../src/core/model/run.ts";
import type { Table } from "../../../src/core/model/table.ts";
import { headKey, WORKFLOW_HEADS } from "../../../src/core/model/workflow.ts";
import { SCHEDULES, scheduleKey } from "../../../src/core/schedule/schedule.ts";
import { openFailOpen } from "../../../src/engine/safety/fail-open.ts";
import { put } from "../../../src/ports/store.ts";
import type { TestGateway } from "../test-gateway.ts";
import { applied, started } from "../workflow-fixtures.ts";

export interface TenantRecords {
  readonly ids: readonly string[];
  readonly named: Readonly<Record<Name, string>>;
  /** Texts in the records. */
  readonly secrets: readonly string[];
}

type Name =
  | "waiting"
  | "queued"
  | "bypassed"
  | "leased"
  | "deadLetter"
  | "lease"
  | "ownKey"
  | "workflow"
  | "run"
  | "schedule";

/** Must run before the first key is created. */
export async function createTenantRecords(gateway: TestGateway): Promise<TenantRecords> {
  const submit = async (topic: string): Promise<string> => {
    const body = { topic, input: { text: "acme-input" }, labels: { team: "acme-label" } };
    const response = await gateway.call("POST", "/api/v1/jobs", { tenant: "acme", body });
    return response.json<{ job_id: string }>().job_id;
  };
  const [waiting, queued, bypassed] = [
    await submit("demo.approve"),
    await submit("shared.work"),
    await submit("acme.third"),
  ];
  const leased = await createLease(gateway, await submit("acme.leased"));
  const deadLetter = await createDeadLetter(gateway);
  await createBypass(gateway, wireJobId("acme", bypassed));
  const opened = await openFailOpen(gateway.engine, {
    scope: "acme",
    reason: "acme-reason",
    by: "test",
    forMs: 600_000,
  });
  const lease = opened.kind === "opened" ? opened.lease.id : "";
  const workflow = "acme-flow";
  const run = await createRun(gateway, workflow);
  const schedule = await createSchedule(gateway, workflow);
  const { id: ownKey } = await gateway.keyOf("acme", "worker");
  const named = { waiting, queued, bypassed, leased, deadLetter, lease, ownKey, workflow, run, schedule };
  return {
    ids: Object.values(named),
    named,
    secrets: [
      "acme-input",
      "acme-label",
      "acme-reason",
      "acme-error",
      "acme.third",
      "acme.leased",
      "acme-name",
      "acme-worker",
    ],
  };
}

/** The stored state of all records. */
export async function stateOf({ world: { store } }: TestGateway, { named }: TenantRecords): Promise<unknown> {
  const load = <T>(table: Table<T>, id: string) => store.load(table, id);
  return Promise.all([
    load(JOBS, wireJobId("acme", named.waiting)),
    // Without its version: the control plane keeps retrying its dispatch.
    load(JOBS, wireJobId("acme", named.queued)).then((found) => ({ org: found?.value.org, input: found?.value.input })),
    load(JOBS, wireJobId("acme", named.bypassed)).then((found) => found?.value.bypass),
    load(DEAD_LETTERS, named.deadLetter),
    load(FAIL_OPENS, named.lease).then((found) => found?.value.ended ?? null),
    load(API_KEYS, named.ownKey),
    load(WORKFLOW_HEADS, headKey("acme", named.workflow)),
    load(RUNS, named.run),
    load(JOBS, wireJobId("acme", named.leased)),
    load(SCHEDULES, scheduleKey("acme", named.schedule)),
  ]);
}

/** Held by a worker of the tenant. */
async function createLease(gateway: TestGateway, jobId: string): Promise<string> {
  const body = { worker_id: "acme-worker", topics: ["acme.leased"], wait_ms: 10_000 };
  const answer = await gateway.call("POST", "/api/v1/worker/lease", { tenant: "acme", body });
  if (answer.statusCode !== 200) throw new Error(`the job was not leased: ${answer.statusCode}`);
  return jobId;
}

/** Does not start: it is paused. */
async function createSchedule(gateway: TestGateway, workflow: string): Promise<string> {
  const id = "acme-nightly";
  const body = { id, workflow_id: workflow, cron: "30 2 * * *", input: { text: "acme-input" }, paused: true };
  const answer = await gateway.call("POST", "/api/v1/schedules", { tenant: "acme", body });
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return id;
}

/** Stays open: its topic has no worker. */
async function createRun(gateway: TestGateway, id: string): Promise<string> {
  const steps = { work: { topic: "shared.work", labels: { team: "acme-label" } } };
  await applied(gateway, { id, name: "acme-name", steps }, { tenant: "acme" });
  return started(gateway, id, { input: { text: "acme-input" } }, { tenant: "acme" });
}

async function createDeadLetter({ world }: TestGateway): Promise<string> {
  const nowMs = world.clock.now();
  const deadLetter = withFingerprint({
    id: world.random.id(),
    org: "acme",
    createdMs: nowMs,
    dueMs: nowMs + 86_400_000,
    reason: "undecodable",
    error: { name: "Error", message: "acme-error" },
    source: { kind: "message", subject: "sys.job.submit", messageId: "m1", deliveries: 4, base64: "AAAA" },
    history: [],
  });
  const change = { org: "acme", atMs: nowMs, guards: [], sends: [], watch: [] };
  await world.store.commit({ ...change, puts: [put(DEAD_LETTERS, deadLetter.id, null, deadLetter)] });
  return deadLetter.id;
}

async function createBypass({ world }: TestGateway, jobId: string): Promise<void> {
  const { store, clock } = world;
  for (;;) {
    const found = await store.load(JOBS, jobId);
    const bypass = { leaseId: "lease", reason: "acme-reason", atMs: clock.now() };
    const after: Job | null = found && { ...found.value, bypass };
    const change = { org: "acme", atMs: clock.now(), guards: [], sends: [], watch: [] };
    const committed = await store.commit({ ...change, puts: [put(JOBS, jobId, found, after)] });
    if (committed.kind === "committed") return;
  }
}
