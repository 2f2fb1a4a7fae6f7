/**
 * Canary secrets are put wherever a client, worker or operator could put one by mistake, and searched in everything that
 * is readable. Stored records stay unredacted: a retry needs the original input.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { pinoLog } from "../../../src/adapters/node/pino-log.ts";
import { settingsFrom } from "../../../src/config/config.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { permanent } from "../../../src/core/retry/intent.ts";
import type { JobUpdate, RunUpdate } from "../../../src/engine/observe/event-feed.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { EVENTS, SUBMIT } from "../../../src/protocol/subjects.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { openTestGateway, type TestGateway, type TestKey } from "../test-gateway.ts";
import { applied, cel, runUntil, started } from "../workflow-fixtures.ts";

// Assembled at run time, so that secret scanners do not report this file.
const MARK = "Canary";
const token = (name: string) => `${"ghp"}_${MARK}${name}0123456789abcdef`;
const SECRET_INPUT = {
  password: `${MARK}-password`,
  nested: [{ apiKey: `${MARK}-key`, text: `use ${token("Input")}` }],
  card: { number: `${MARK}-4111`, holder: "visible" },
};
const LABELS = { team: "visible", note: token("Label"), access_token: `${MARK}-label` };

let gateway: TestGateway;
let root: TestKey;
const lines: string[] = [];
const updates: (JobUpdate | RunUpdate)[] = [];
const packets: Packet[] = [];
const sinks = new Map<string, string>();

beforeAll(async () => {
  const target = { write: (text: string) => void lines.push(text) };
  gateway = await openTestGateway({
    settings: settingsFrom({
      "redaction.paths": "input.card.number,input.copied.card.number,output.copied.card.number",
    }),
    log: pinoLog({ level: "debug", name: "test", target }),
  });
  root = await gateway.keyOf("*", "admin");
  gateway.engine.events.subscribe((update) => updates.push(update));
  gateway.engine.events.subscribeRuns((update) => updates.push(update));
  await gateway.world.bus.subscribe(EVENTS, (packet) => packets.push(packet));
  await submitSecrets();
  await collectSinks();
});
afterAll(() => gateway.close());

async function submitSecrets(): Promise<void> {
  const { world } = gateway;
  await startWorker(world, {
    id: "w",
    topics: ["demo.fails"],
    concurrency: 1,
    handle: async () => {
      throw permanent(new Error(`no way: postgres://u:${MARK}Pw@db/x?token=${MARK}Query and ${token("Error")}`));
    },
  });
  const body = { topic: "demo.fails", input: SECRET_INPUT, labels: LABELS };
  const made = await gateway.call("POST", "/api/v1/jobs", { key: root.key, body });
  expect(made.statusCode, made.body).toBe(200);
  await gateway.ended(1);
  await gateway.call("POST", "/api/v1/jobs", { key: root.key, body: { ...body, topic: "demo.approve" } });
  await startLeakyRun();
  // A bus client submits for a tenant that it is not allowed to use, whose name is a secret.
  const request = {
    kind: "job_request",
    jobId: "j1",
    topic: "t",
    tenantId: token("Tenant"),
    input: SECRET_INPUT,
  } as const;
  await world.bus.publish({
    id: "m1",
    subject: SUBMIT,
    packet: { traceId: "t", senderId: "s", createdAtMs: 1, body: request },
  });
  // The dead letter of the job, and that of the message without a tenant.
  while ((await world.store.counts("dead_letters", 10)).size < 2);
  // Log lines as adapters write them.
  world.log.write("warn", `connection lost: redis://u:${MARK}@h`, { error: `at ${token("Log")}`, password: MARK });
}

/** The secrets are in the input, copied by one step, and in the error of another. */
async function startLeakyRun(): Promise<void> {
  const steps = {
    copy: { type: "transform", input: { copied: cel("input") } },
    fails: { topic: "demo.fails", depends_on: ["copy"], input: cel("steps.copy.output") },
  };
  await applied(gateway, { id: "leaky", steps }, root);
  const runId = await started(gateway, "leaky", { input: SECRET_INPUT, labels: LABELS }, root);
  await runUntil(gateway, runId, ({ state }) => state === "FAILED", root);
  const cancel = { key: root.key, body: { reason: `because of ${token("Reason")}` } };
  const held = await started(gateway, "leaky", { input: SECRET_INPUT }, root);
  await gateway.call("POST", `/api/v1/workflow-runs/${held}/cancel`, cancel);
}

async function collectSinks(): Promise<void> {
  const { key } = root;
  const wrong = `cordum_${root.id}_${MARK}0123456789abcdefghij`;
  const refused = [
    await gateway.call("GET", "/api/v1/jobs", { key: wrong }),
    await gateway.call("GET", `/api/v1/nothing?password=${MARK}`, { key }),
    await gateway.call("GET", `/api/v1/jobs/${token("Id")}`, { key }),
    await gateway.call("POST", "/api/v1/jobs", { key, body: { topic: `bad ${token("Topic")}` } }),
    await gateway.call("POST", "/api/v1/jobs", { key, body: { topic: "t", [token("Field")]: 1 } }),
    await gateway.call("GET", `/api/v1/jobs?limit=${token("Limit")}`, { key }),
  ];
  for (const response of refused) expect(response.statusCode, response.body).toBeGreaterThanOrEqual(400);
  const get = async (name: string, url: string) => {
    const response = await gateway.call("GET", url, { key });
    expect(response.statusCode, response.body).toBe(200);
    sinks.set(name, response.body);
    return response;
  };
  const letters = (await get("dead letters", "/api/v1/dlq")).json().items as { id: string }[];
  for (const { id } of letters) await get(`dead letter ${id}`, `/api/v1/dlq/${encodeURIComponent(id)}`);
  const jobs = (await get("jobs", "/api/v1/jobs")).json().items as { job_id: string }[];
  for (const { job_id } of jobs) {
    for (const part of ["", "/explain", "/decisions"]) await get(`job${part}`, `/api/v1/jobs/${job_id}${part}`);
  }
  await get("approvals", "/api/v1/approvals");
  const runs = (await get("runs", "/api/v1/workflow-runs")).json().items as { run_id: string }[];
  for (const { run_id } of runs) {
    for (const part of ["", "/timeline", "/explain"]) {
      const response = await get(`run${part} ${run_id}`, `/api/v1/workflow-runs/${run_id}${part}`);
      if (part === "") sinks.set("runs shown", `${sinks.get("runs shown") ?? ""}${response.body}`);
    }
  }
  await get("audit", "/api/v1/audit");
  await get("audit of the system", "/api/v1/audit?system=true");
  await get("metrics", "/metrics");
  await get("status", "/api/v1/status");
  await get("keys", "/api/v1/keys");
  await get("policy", "/api/v1/policy/rules");
  sinks.set("problems", refused.map(({ body }) => body).join("\n"));
  sinks.set("log", lines.join(""));
  sinks.set("updates", JSON.stringify(updates));
  sinks.set("packets of updates", JSON.stringify(packets));
}

test("no sink contains a secret", () => {
  for (const [name, text] of sinks) {
    expect(text, name).not.toMatch(/canary/i);
    for (const [, base64 = ""] of text.matchAll(/"([\w+/=]{40,})"/g)) {
      expect(Buffer.from(base64, "base64").toString("latin1"), name).not.toMatch(/canary/i);
    }
    expect(text, name).not.toContain(root.key.split("_")[2]);
  }
});

test("the sinks contain the non-secret values", () => {
  expect(sinks.get("log")).toContain("delivery_failed");
  expect(sinks.get("log")).toContain("[redacted]");
  expect(sinks.get("problems")).toContain("[redacted]");
  expect(sinks.get("dead letters")).toContain("no way");
  expect(sinks.get("dead letter sys.job.submit/m1")).toContain('"holder":"visible"');
  expect(sinks.get("audit")).toContain("demo.fails");
  expect(sinks.get("approvals")).toContain("visible");
  expect(sinks.get("runs shown")).toContain('"copied":{"password":"[redacted]"');
  expect(sinks.get("packets of updates")).toContain("jobs.changed");
  expect(updates.map(({ state }) => state)).toContain("FAILED");
  expect([...sinks.keys()].filter((name) => name.startsWith("dead letter "))).not.toEqual([]);
});

test("the stored record is unredacted", async () => {
  const { items } = (await gateway.call("GET", "/api/v1/jobs?state=FAILED", { key: root.key })).json();
  const found = await gateway.world.store.load(JOBS, items.at(-1).job_id);
  expect(found?.value.input).toEqual({ kind: "inline", value: SECRET_INPUT });
  expect(found?.value.labels).toEqual(LABELS);
});
