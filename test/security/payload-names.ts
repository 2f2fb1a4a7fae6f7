/**
 * Stores every kind of payload for tenant `acme`, then uses each stored key, and each part of it, as every id that a client
 * may choose. Runs on every world.
 */
import { expect } from "vitest";
import { ROUTES } from "../../src/gateway/server.ts";

export interface Target {
  call(
    method: "GET" | "POST",
    path: string,
    options: { readonly tenant: string; readonly body?: object },
  ): Promise<{ readonly status: number; readonly text: string }>;
  /** Stored payloads by key. */
  payloads(): Promise<ReadonlyMap<string, string>>;
  /** Resolves when the job has this state. */
  reached(tenant: string, jobId: string, state: string): Promise<void>;
  /** Damages a stored payload. */
  replace(key: string, bytes: Uint8Array): Promise<void>;
  /** Publishes a packet of an unsigned bus client, and resolves when it has been processed. */
  publish?(kind: "submit" | "result", body: Readonly<Record<string, unknown>>): Promise<void>;
}

/** In every payload of the victim. */
export const MARK = "acme-payload-mark";
const LARGE = { secret: MARK, text: "x".repeat(5_000) };

export interface Victims {
  /** Ids that the control plane chose, and ids of jobs whose payloads are stored. */
  readonly ids: readonly string[];
  readonly waiting: string;
}

export async function storeEveryKind(target: Target): Promise<Victims> {
  const post = async (path: string, body: object): Promise<Record<string, string>> => {
    const { status, text } = await target.call("POST", path, { tenant: "acme", body });
    expect(status, text).toBeLessThan(300);
    return JSON.parse(text);
  };
  const submit = async (fields: object) =>
    (await post("/jobs", { topic: "demo.far", input: LARGE, ...fields })).job_id ?? "";
  const small = await submit({ input: { secret: MARK } });
  const [large, chosen] = [await submit({}), await submit({ job_id: "chosen" })];
  const waiting = await submit({ topic: "demo.approve", job_id: "waiting" });
  const done = await submit({ topic: "demo.large" });
  await target.reached("acme", done, "SUCCEEDED");
  const copy = { type: "transform", input: "${input}" };
  const ask = { type: "approval", input: "${input}", depends_on: ["work"] };
  const work = { topic: "demo.large", input: "${input}", depends_on: ["copy"] };
  const each = { topic: "demo.far", for_each: "${[input, input]}", depends_on: ["copy"] };
  await post("/workflows", { id: "flow", steps: { copy, work, ask, each } });
  const { run_id = "" } = await post("/workflows/flow/runs", { input: LARGE });
  await target.reached("acme", `${run_id}:ask@1`, "APPROVAL_REQUIRED");
  const steps = ["copy", "work", "ask", "each"].map((step) => `${run_id}:${step}@1`);
  return { ids: [small, large, chosen, waiting, done, run_id, ...steps], waiting };
}

/** Every stored key, its parts, and the wire names of every id. */
export function namesIn(payloads: ReadonlyMap<string, string>, { ids }: Victims): readonly string[] {
  const parts = [...payloads.keys()].flatMap((key) => [key, ...key.split("/"), ...key.split(/[:/]/), `../${key}`]);
  const wire = ids.flatMap((id) => [id, `acme~${id}`, `ctx:${id}`, `res:${id}`, `ctx/${id}`, `ctx:acme~${id}`]);
  return [...new Set([...parts, ...wire])].filter((name) => name.length > 3);
}

const TENANTS = ["intruder", "default", "acme"] as const;

export async function attackByName(target: Target, name: string, index: number): Promise<void> {
  const evil = (size: number) => ({ topic: "demo.far", input: { evil: "e".repeat(size) } });
  const seen: string[] = [];
  const look = async (tenant: string, path: string) => seen.push((await target.call("GET", path, { tenant })).text);
  const submit = async (tenant: string, body: object) => {
    const { status, text } = await target.call("POST", "/jobs", { tenant, body });
    expect(status, text).toBeLessThan(500);
    seen.push(text);
  };
  const bodies = [
    { ...evil(1), job_id: name },
    { ...evil(5_000), job_id: name },
    { ...evil(5_000), idempotency_key: name },
    { ...evil(5_000), trace_id: name, labels: { [name]: name } },
  ];
  const query = encodeURIComponent(name);
  const paths = [`/memory?ptr=${query}`, `/memory?ptr=redis://${query}`, `/jobs/${query}`, `/traces/${query}`];
  await Promise.all(TENANTS.flatMap((tenant) => bodies.map((body) => submit(tenant, body))));
  const others = TENANTS.filter((tenant) => tenant !== "acme");
  await Promise.all(others.flatMap((tenant) => paths.map((path) => look(tenant, path))));
  if (target.publish) {
    const jobId = `bus-${index}`;
    for (const contextPtr of [name, `redis://${name}`]) {
      await target.publish("submit", { jobId, topic: "demo.far", contextPtr });
      await target.publish("submit", { jobId: name, topic: "demo.far", contextPtr });
      await target.publish("submit", { jobId, topic: "demo.far", tenantId: "acme", contextPtr });
    }
    await target.publish("submit", { jobId, topic: "demo.far", input: 1 });
    await target.publish("result", { jobId, status: "succeeded", workerId: "evil", resultPtr: `redis://${name}` });
    for (const id of [jobId, name]) await look("default", `/jobs/${encodeURIComponent(id)}`);
  }
  for (const text of seen) expect(text, name).not.toContain(MARK);
}

/** Every readable route, with every id that it may be called with. */
export async function viewsOf(target: Target, { ids }: Victims): Promise<readonly string[]> {
  const paths = ROUTES.filter(({ method, longLived }) => method === "GET" && !longLived).flatMap(({ path }) =>
    path.includes(":") ? ids.map((id) => path.replace(/:\w+/g, encodeURIComponent(id))) : [path],
  );
  const memory = ids.flatMap((id) => [`/api/v1/memory?ptr=ctx:${id}`, `/api/v1/memory?ptr=res:${id}`]);
  const texts: string[] = [];
  for (const path of [...paths, ...memory].filter((one) => one.startsWith("/api/v1"))) {
    texts.push((await target.call("GET", path.replace("/api/v1", ""), { tenant: "acme" })).text);
  }
  return texts;
}

/** A payload that changes after the decision does not reach the worker: not by a lease, not with an approval. */
export async function expectDamageIsFound(target: Target): Promise<void> {
  const post = async (path: string, body: object) => {
    const { text } = await target.call("POST", path, { tenant: "acme", body });
    return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
  };
  for (const [topic, state] of [
    ["demo.leased", "SCHEDULED"],
    ["demo.approve", "APPROVAL_REQUIRED"],
  ] as const) {
    const before = await target.payloads();
    const { job_id } = await post("/jobs", { topic, input: LARGE });
    await target.reached("acme", String(job_id), state);
    if (state === "APPROVAL_REQUIRED") await post(`/approvals/${job_id}/approve`, {});
    const key = [...(await target.payloads()).keys()].find((name) => !before.has(name)) ?? "";
    await target.replace(key, new TextEncoder().encode(JSON.stringify({ secret: "replaced" })));
    const leased = await post("/worker/lease", { worker_id: "w2", topics: [topic], max: 100 });
    expect(JSON.stringify(leased)).not.toContain("replaced");
    await target.reached("acme", String(job_id), "FAILED");
    const { text } = await target.call("GET", `/jobs/${job_id}`, { tenant: "acme" });
    expect(JSON.parse(text).error.message).toMatch(/^the input of job .* is damaged/);
    expect(text).not.toContain(key);
  }
}

/** Nothing that was stored before is changed or gone. */
export function expectUnchanged(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): void {
  expect(Object.fromEntries([...before.keys()].map((key) => [key, after.get(key)]))).toEqual(
    Object.fromEntries(before),
  );
}
