/** Data of a control plane: created through its API, saved to a file, and restored to an empty Redis server. */
import { readFileSync, writeFileSync } from "node:fs";
import { Redis } from "ioredis";
import { type Answer, type ControlPlane, openControlPlane } from "./control-plane.ts";

/** First line of a file; each further line is a key. */
export interface Recorded {
  /** When the data was written. */
  readonly atMs: number;
  readonly keys: { readonly submitter: string; readonly approver: string };
  readonly ids: Readonly<Record<RecordedName, string>>;
  /** A job of tenant `acme` with an id that its client chose; from schema 2 on. */
  readonly ofTenant?: string;
}

export type RecordedName =
  | "succeeded"
  | "large"
  | "retried"
  | "failed"
  | "denied"
  | "cancelled"
  | "awaiting"
  | "queued"
  | "finishedRun"
  | "waitingRun";

interface StoredKey {
  readonly key: string;
  readonly type: "string" | "hash" | "zset";
  readonly value: string | readonly string[];
}

export const LARGE_INPUT = { text: "large ".repeat(1_500) };

export const RUN_INPUT = { items: [1, 2, 3], ...LARGE_INPUT };

export const OF_TENANT = {
  ...{ tenant_id: "acme", job_id: "chosen", topic: "idle.topic", input: LARGE_INPUT },
  idempotency_key: "key-of-a-tenant",
};

const WORKFLOW = {
  id: "recorded",
  steps: {
    first: { topic: "demo.echo", for_each: "input.items" },
    ask: { type: "approval", reason: "continue?", depends_on: ["first"] },
    last: { topic: "demo.flaky", depends_on: ["ask"] },
  },
  output: "${steps.last.output}",
};

export async function record(nats: string, redis: string): Promise<Recorded> {
  const atMs = Date.now();
  const plane = await openControlPlane({ nats, redis, nowMs: atMs });
  const makeKey = async (name: string): Promise<string> =>
    accepted(await plane.call("POST", "/keys", { tenant: "*", role: "admin", name })).key;
  const submitter = await makeKey("submitter");
  plane.use(submitter);
  const keys = { submitter, approver: await makeKey("approver") };
  const ids = await fill(plane, keys);
  const ofTenant = accepted(await plane.call("POST", "/jobs", OF_TENANT)).job_id;
  await plane.close();
  return { atMs, keys, ids, ofTenant };
}

async function fill(plane: ControlPlane, keys: Recorded["keys"]): Promise<Recorded["ids"]> {
  // The response to a denied job has its id, too.
  const submit = async (topic: string, more: object = {}): Promise<string> =>
    (await plane.call("POST", "/jobs", { topic, input: { n: 1 }, ...more })).body.job_id;
  const start = async (key: string): Promise<string> => {
    const request = { input: RUN_INPUT, idempotency_key: key };
    return accepted(await plane.call("POST", "/workflows/recorded/runs", request)).run_id;
  };
  accepted(await plane.call("POST", "/workflows", WORKFLOW));
  const ids = {
    succeeded: await submit("demo.echo", { idempotency_key: "key-of-a-job" }),
    large: await submit("demo.echo", { input: LARGE_INPUT }),
    retried: await submit("demo.flaky"),
    failed: await submit("demo.broken"),
    denied: await submit("demo.forbidden"),
    cancelled: await submit("idle.topic"),
    awaiting: await submit("demo.approve", { input: LARGE_INPUT }),
    queued: await submit("idle.topic", { idempotency_key: "key-of-a-queued-job" }),
    finishedRun: await start("key-of-a-run"),
    waitingRun: await start("key-of-a-waiting-run"),
  };
  accepted(await plane.call("POST", `/jobs/${ids.cancelled}/cancel`, { reason: "not needed" }));
  await plane.until("/approvals", ({ body }) => body.items.length === 3);
  plane.use(keys.approver);
  accepted(await plane.call("POST", `/approvals/${ids.finishedRun}:ask@1/approve`, { note: "fine" }));
  await plane.until(`/workflow-runs/${ids.finishedRun}`, ({ body }) => body.state === "SUCCEEDED");
  for (const name of ["succeeded", "large", "retried"] as const) {
    await plane.until(`/jobs/${ids[name]}`, ({ body }) => body.state === "SUCCEEDED");
  }
  await plane.until(`/jobs/${ids.failed}`, ({ body }) => body.state === "FAILED");
  // Moves all audit entries into the chain.
  accepted(await plane.call("GET", "/audit/verify"));
  return ids;
}

export function accepted({ status, body }: Answer): Answer["body"] {
  if (status >= 300) throw new Error(`unexpected status ${status}: ${JSON.stringify(body)}`);
  return body;
}

/** Lock and worker state expires within seconds and is left out. */
const TRANSIENT = /^cordum:lock:(waiter|queue|index)/;

export async function save(file: string, redis: string, recorded: Recorded): Promise<void> {
  const client = new Redis(redis);
  const lines: string[] = [];
  for (const key of (await client.keys("*")).sort()) {
    if (!TRANSIENT.test(key)) lines.push(JSON.stringify(await readKey(client, key)));
  }
  await client.quit();
  writeFileSync(file, `${[JSON.stringify(recorded), ...lines].join("\n")}\n`);
}

async function readKey(client: Redis, key: string): Promise<StoredKey> {
  const type = await client.type(key);
  if (type === "string") return { key, type, value: (await client.get(key)) ?? "" };
  if (type === "hash") return { key, type, value: Object.entries(await client.hgetall(key)).flat() };
  if (type === "zset") return { key, type, value: await client.zrange(key, "0", "-1", "WITHSCORES") };
  throw new Error(`unexpected type \`${type}\` of \`${key}\``);
}

export async function restore(file: string, redis: string): Promise<Recorded> {
  const [first = "", ...lines] = readFileSync(file, "utf8").trimEnd().split("\n");
  const client = new Redis(redis);
  await client.flushall();
  for (const line of lines) await writeKey(client, JSON.parse(line) as StoredKey);
  await client.quit();
  return JSON.parse(first) as Recorded;
}

async function writeKey(client: Redis, { key, type, value }: StoredKey): Promise<void> {
  if (typeof value === "string") await client.set(key, value);
  else if (type === "hash") await client.hset(key, ...value);
  else for (let at = 0; at < value.length; at += 2) await client.zadd(key, value[at + 1]!, value[at]!);
}
