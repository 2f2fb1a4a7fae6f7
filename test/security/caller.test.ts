/**
 * Authenticated identity: policies see the caller that the control plane authenticated, keys can be bound to an actor, and
 * four-eyes approval is by person.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readPolicy } from "../../src/core/policy/document.ts";
import { admitJob } from "../../src/engine/intake/index.ts";
import { requestIn, submissionIn } from "../../src/engine/packets.ts";
import type { Packet } from "../../src/protocol/packet.ts";
import { decodeCheck, encodeCheck } from "../../src/protocol/safety.ts";
import { startWorker } from "../../src/worker/worker.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

type Json = Readonly<Record<string, unknown>>;

let gateway: TestGateway;
let root: string;
beforeEach(async () => {
  gateway = await openTestGateway();
  root = (await gateway.keyOf("*", "admin")).key;
});
afterEach(() => gateway.close());

const TOPIC = "demo.pay";

async function post(path: string, body: object, key = root): Promise<{ readonly status: number; readonly body: Json }> {
  const answer = await gateway.call("POST", `/api/v1/${path}`, { body, key });
  return { status: answer.statusCode, body: answer.json() as Json };
}

const get = async (path: string, key = root) =>
  (await gateway.call("GET", `/api/v1/${path}`, { key })).json() as Json & { items: Json[] };

async function newKey(fields: object): Promise<{ readonly id: string; readonly key: string }> {
  const { status, body } = await post("keys", { tenant: "default", role: "operator", ...fields });
  expect([status, body]).toEqual([200, expect.anything()]);
  return body as { id: string; key: string };
}

async function publish(when: string, decision = "deny"): Promise<void> {
  const rule = { id: "by-caller", match: { topics: [TOPIC], when }, decision, reason: "by caller" };
  const policy = JSON.stringify({ default_decision: "allow", rules: [rule] });
  expect(await post("policy/publish", { policy })).toMatchObject({ status: 200 });
}

const submit = (key: string, fields: object = {}) => post("jobs", { topic: TOPIC, ...fields }, key);

/** Looks now and after every update of a job. */
async function found<T>(find: () => Promise<T | undefined>): Promise<T> {
  let onUpdate = () => {};
  const stop = gateway.engine.events.subscribe(() => onUpdate());
  try {
    for (;;) {
      const updated = new Promise<void>((resolve) => {
        onUpdate = resolve;
      });
      const value = await find();
      if (value !== undefined) return value;
      await updated;
    }
  } finally {
    stop();
  }
}

describe("conditions see the authenticated caller", () => {
  const shop = { role: "submitter", name: "shop" };

  test.each([
    ["key", () => newKey(shop), (id: string) => `caller.key == "${id}"`],
    ["name", () => newKey(shop), () => 'caller.name == "shop"'],
    ["role", () => newKey(shop), () => 'caller.role == "submitter"'],
    ["tenant", () => gateway.keyOf("*", "admin"), () => 'caller.tenant == "*"'],
  ] as const)("caller.%s", async (part, create, when) => {
    const matching = await create();
    const other = await newKey({ role: "operator", name: "other" });
    await publish(when(matching.id));
    expect(await submit(matching.key)).toMatchObject({ status: 403, body: { code: "denied" } });
    // Everything that a submitter can claim.
    const claims = { labels: { [`caller.${part}`]: "shop" }, actor_id: matching.id, principal_id: "shop" };
    expect(await submit(other.key, claims)).toMatchObject({ status: 200 });
  });

  test("a check after a policy change sees the caller of the submission", async () => {
    await publish("false");
    const { id, key } = await newKey(shop);
    const jobId = String((await submit(key)).body.job_id);
    await gateway.call("DELETE", `/api/v1/keys/${id}`, { key: root });
    await publish('caller.role == "submitter" && caller.name == "shop"');
    await startWorker(gateway.world, { id: "w", topics: [TOPIC], concurrency: 1, handle: async () => "done" });
    const denied = async () => (await get("jobs?state=DENIED")).items.find(({ job_id }) => job_id === jobId);
    const caller = { key: id, name: "shop", role: "submitter", tenant: "default", person: null };
    expect(await found(denied)).toMatchObject({ submitted_by: id, caller });
  });

  test("the steps of runs and sub-runs have the caller that started the run", async () => {
    await publish('caller.role == "submitter"');
    const pay = { type: "worker", topic: TOPIC, input: {} };
    const sub = { type: "subworkflow", workflow: "inner", input: {} };
    for (const [id, step] of [["inner", pay] as const, ["outer", sub] as const]) {
      expect(await post("workflows", { id, steps: { step } })).toMatchObject({ status: 200 });
    }
    const { id, key } = await newKey(shop);
    expect(JSON.stringify((await post("workflows/inner/dry-run", {}, key)).body)).toContain("by-caller");
    for (const [at, workflow] of ["inner", "outer"].entries()) {
      expect(await post(`workflows/${workflow}/runs`, {}, key)).toMatchObject({ status: 200 });
      const denied = async () => (await get("jobs?state=DENIED")).items.toReversed()[at];
      expect(await found(denied)).toMatchObject({ topic: TOPIC, submitted_by: id, caller: { role: "submitter" } });
    }
  });

  test("explanations and audit entries name the caller", async () => {
    await publish('caller.role == "viewer"');
    const { id, key } = await newKey({ ...shop, person: "sam" });
    const explained = JSON.stringify((await post("policy/explain", { topic: TOPIC }, key)).body);
    expect(explained).toContain(`the caller has key \`${id}\`, name \`shop\`, role \`submitter\`, tenant \`default\``);
    const asOther = await post("policy/explain", { topic: TOPIC, caller: { role: "viewer" } }, key);
    expect(asOther.body).toMatchObject({ rule_id: "by-caller" });
    const jobId = (await submit(key)).body.job_id;
    const { items } = await get("audit?limit=100");
    expect(items.find(({ facts }) => (facts as Json | undefined)?.job === jobId)).toMatchObject({
      who: id,
      facts: { caller_role: "submitter", caller_name: "shop", person: "sam" },
    });
  });

  test("clients of the bus: the signing sender, or nothing", async () => {
    const packet = (signedBy: string | null, senderId: string) =>
      ({
        traceId: "t",
        senderId,
        createdAtMs: 0,
        body: { kind: "job_request", jobId: "j", topic: TOPIC, input: 1, caller: { role: "admin" } },
        origin: { kind: "arrived", bytes: new Uint8Array(), signedBy },
      }) as const;
    const callerOf = (one: ReturnType<typeof packet>) =>
      submissionIn(one, requestIn(one), gateway.engine.settings.current).caller;
    expect(callerOf(packet("ann", "ann"))).toEqual({ name: "ann" });
    expect(callerOf(packet(null, "ann"))).toBeUndefined();
  });

  test("a remote kernel gets the caller in a field that submitters cannot write", () => {
    const request = {
      ...{ jobId: "j", org: "acme", topic: TOPIC, priority: "batch", capability: null, riskTags: [], requires: [] },
      ...{ actorId: null, actorType: null, packId: null, input: 1 },
      labels: { caller: "admin", "caller.role": "admin" },
    };
    expect(decodeCheck(encodeCheck({ ...request, callerKey: "bus:ann" }))).toEqual(request);
    const known = { ...request, callerKey: "k1", caller: { role: "submitter", name: "shop", tenant: "*" } };
    expect(decodeCheck(encodeCheck(known))).toEqual(known);
  });

  test.each([
    ["caller.rol == 'admin'", "no such key: rol"],
    ["caller.person == 'sam'", "no such key: person"],
    ["caler.role == 'admin'", "unknown variable: caler; did you mean `caller`?"],
  ])("a policy with an unknown field is refused: %s", (when, problem) => {
    const rule = { id: "r", match: { when }, decision: "deny", reason: "r" };
    const read = readPolicy({ name: "p.yaml", text: JSON.stringify({ rules: [rule] }) });
    expect(read).toMatchObject({ kind: "bad", problems: [expect.stringContaining(problem)] });
  });
});

describe("a sender of the bus", () => {
  const SENDER = {
    keyFile: "",
    tenants: ["default"],
    person: "zoe",
    actorId: "agent-7",
    actorType: "service",
  } as const;
  const read = (meta: object, principalId?: string) => {
    const body = { kind: "job_request", jobId: "j", topic: TOPIC, input: 1, meta, principalId } as const;
    const origin = { kind: "arrived", bytes: new Uint8Array(), signedBy: "ann" } as const;
    const packet = { traceId: "t", senderId: "ann", createdAtMs: 0, body, origin } as unknown as Packet;
    return submissionIn(packet, requestIn(packet), { senders: { ann: SENDER } });
  };

  test("that is bound to an actor submits for this actor only", () => {
    for (const meta of [{}, { actorId: "agent-7", actorType: "service" }]) {
      expect(read(meta)).toMatchObject({ actorId: "agent-7", actorType: "service", caller: { name: "ann" } });
    }
    expect(() => read({ actorId: "agent-8" })).toThrow("`agent-7` only");
    expect(() => read({ actorType: "human" })).toThrow("`service` only");
    expect(() => read({}, "agent-8")).toThrow("`agent-7` only");
  });

  test("of a person: the person cannot approve its jobs", async () => {
    await publish("true", "require_approval");
    await admitJob(gateway.engine, read({}));
    const [own, other, unnamed] = [await newKey({ person: "zoe" }), await newKey({ person: "sam" }), await newKey({})];
    expect(await post("approvals/j/approve", {}, own.key)).toMatchObject({ body: { code: "own_job" } });
    expect(await post("approvals/j/approve", {}, unnamed.key)).toMatchObject({ body: { code: "person_required" } });
    expect(await post("approvals/j/approve", {}, other.key)).toMatchObject({ status: 200 });
  });
});

describe("a key that is bound to an actor", () => {
  const BOUND = { role: "operator", actor_id: "agent-7", actor_type: "service" };

  test("submits for this actor, and every other claim is refused", async () => {
    const { key } = await newKey(BOUND);
    for (const claim of [{ actor_id: "agent-8" }, { principal_id: "agent-8" }, { actor_type: "human" }]) {
      const [field = ""] = Object.keys(claim);
      expect(await submit(key, claim)).toMatchObject({
        status: 403,
        body: { code: "actor_forbidden", detail: expect.stringContaining(`\`${field}\``) },
      });
    }
    for (const claim of [{}, { actor_id: "agent-7", actor_type: "service" }]) {
      const { body } = await submit(key, claim);
      expect(await get(`jobs/${body.job_id}`)).toMatchObject({ actor_id: "agent-7", actor_type: "service" });
    }
  });

  test("starts runs for this actor, whatever the workflow names", async () => {
    const { key } = await newKey(BOUND);
    const step = { type: "worker", topic: TOPIC, input: {}, actor_id: "agent-8", actor_type: "human" };
    expect(await post("workflows", { id: "w", steps: { step } }, key)).toMatchObject({ status: 200 });
    for (const path of ["workflows/w/runs", "workflows/w/dry-run"]) {
      expect(await post(path, { actor_id: "agent-8" }, key)).toMatchObject({ body: { code: "actor_forbidden" } });
    }
    expect(await post("workflows/w/runs", {}, key)).toMatchObject({ status: 200 });
    const { items } = await get("jobs");
    expect(items).toMatchObject([{ actor_id: "agent-7", actor_type: "service" }]);
  });

  test("keys without these fields submit for any actor", async () => {
    const { key } = await gateway.keyOf("default", "submitter");
    const { body } = await submit(key, { actor_id: "agent-8", actor_type: "human" });
    expect(await get(`jobs/${body.job_id}`)).toMatchObject({ actor_id: "agent-8", actor_type: "human" });
  });
});

describe("four-eyes approval", () => {
  const approve = async (jobId: unknown, key: string) => post(`approvals/${jobId}/approve`, {}, key);

  beforeEach(() => publish("true", "require_approval"));

  test("is by person: another key of the submitter cannot approve", async () => {
    const [first, second] = [await newKey({ person: "Zoë" }), await newKey({ person: "Zoe\u0308" })];
    const other = await newKey({ person: "sam" });
    const jobId = (await submit(first.key)).body.job_id;
    for (const { key } of [first, second]) {
      const answer = await approve(jobId, key);
      expect(answer).toMatchObject({ status: 403, body: { code: "own_job", detail: expect.stringContaining("Zoë") } });
    }
    expect(await approve(jobId, other.key)).toMatchObject({ status: 200 });
    const entries = (await get("audit?limit=100")).items.filter(({ kind }) => kind === "approval");
    expect(entries).toMatchObject([{ who: other.id, what: "approved", facts: { person: "sam" } }]);
  });

  test("needs a known person if the submitter is one: a key without a person could be theirs", async () => {
    const [first, unnamed] = [await newKey({ person: "zoe" }), await newKey({})];
    const jobId = (await submit(first.key)).body.job_id;
    expect(await approve(jobId, unnamed.key)).toMatchObject({ status: 403, body: { code: "person_required" } });
    expect(await post(`approvals/${jobId}/reject`, { reason: "no" }, unnamed.key)).toMatchObject({ status: 200 });
  });

  test("covers approval steps of runs", async () => {
    const [first, second] = [await newKey({ person: "zoe" }), await newKey({ person: "zoe" })];
    const step = { type: "approval", reason: "pay?" };
    expect(await post("workflows", { id: "w", steps: { step } })).toMatchObject({ status: 200 });
    expect(await post("workflows/w/runs", {}, first.key)).toMatchObject({ status: 200 });
    const [job] = (await get("approvals")).items;
    expect(job).toMatchObject({ caller: { person: "zoe" } });
    expect(await approve(job?.job_id, second.key)).toMatchObject({ body: { code: "own_job" } });
  });

  test("is by key for keys without a person", async () => {
    const [first, second] = [await gateway.keyOf("default", "operator"), await gateway.keyOf("default", "operator")];
    const jobId = (await submit(first.key)).body.job_id;
    expect(await approve(jobId, first.key)).toMatchObject({ body: { code: "own_job" } });
    expect(await approve(jobId, second.key)).toMatchObject({ status: 200 });
  });

  test.each([" sam", "sam ", "s\u0000am", ""])("the person %j is refused", async (person) => {
    expect(await post("keys", { role: "viewer", tenant: "default", person })).toMatchObject({ status: 400 });
  });
});
