import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { threadEvaluator } from "../../../src/adapters/node/thread-evaluator.ts";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { connectRedis } from "../../../src/adapters/redis/connection.ts";
import { RedisStore } from "../../../src/adapters/redis/store.ts";
import { openStorage } from "../../../src/adapters/sqlite/storage.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { readPolicy } from "../../../src/core/policy/document.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { RECORDED_JOBS, simulateRecorded } from "../../../src/engine/safety/index.ts";
import { put, type Store } from "../../../src/ports/store.ts";
import type { World } from "../../../src/ports/world.ts";
import { startRedis } from "../../servers/start.ts";

const JOB_COUNT = 100_000;
const START_MS = 1_700_000_000_000;

/** Fifty rules, one in ten with a condition. */
const RULES = Array.from({ length: 48 }, (_, at) => {
  const when = at % 10 === 0 ? `, when: 'has(input.amount) && input.amount > ${at * 1_000_000}'` : "";
  return `  - {id: r${at}, match: {topics: [topic.${at}, other.${at}.>]${when}}, decision: allow}`;
});
const DRAFT = `rules:
${RULES.join("\n")}
  - {id: large, match: {topics: [pay], when: 'input.amount >= 900'}, decision: require_approval, reason: large}
  - {id: rest, match: {}, decision: allow}
`;

/** Each payment counts towards two limits, and reserves. */
const LIMITED = `rules:
${RULES.join("\n")}
  - {id: often, match: {topics: [pay]}, decision: deny, reason: often, velocity: {max: 1000, within: 30s, by: tenant}}
  - {id: each, match: {topics: [pay]}, decision: throttle, reason: slow, throttle: {rate: 1000/1s, by: "label:order"}}
  - {id: paid, match: {topics: [pay]}, decision: allow, budget: {tokens: 3000, per: tenant, reserve_tokens: 1}}
  - {id: rest, match: {}, decision: allow}
`;

/** One in ten jobs pays, and one in ten of those pays 900 or more. */
function jobAt(at: number): Job {
  const isPayment = at % 10 === 0;
  return {
    id: `job-${at}`,
    org: "default",
    state: "SUCCEEDED",
    topic: isPayment ? "pay" : `topic.${at % 48}`,
    priority: "batch",
    createdMs: START_MS + at,
    updatedMs: START_MS + at,
    deadlineMs: START_MS + at,
    dueMs: START_MS + 1e9,
    traceId: `job-${at}`,
    actorId: null,
    capability: null,
    riskTags: [],
    requires: [],
    labels: { env: "prod", order: String(at) },
    output: null,
    attempt: 1,
    dispatchedMs: START_MS + at,
    workerId: "w1",
    wait: null,
    patience: {},
    error: null,
    history: [],
    input: { kind: "inline", value: { amount: isPayment ? at % 1_000 : 1, text: "x".repeat(200) } },
    safety: { effect: "allow", ruleId: "old", reason: "no rule objects", snapshot: "s0", atMs: START_MS + at },
    indexed: 1,
  };
}

async function fill(store: Store): Promise<void> {
  for (let from = 0; from < JOB_COUNT; from += BATCH * PARALLEL) {
    const commits = Array.from({ length: PARALLEL }, (_, group) => {
      const first = from + group * BATCH;
      const ids = Array.from({ length: Math.min(BATCH, JOB_COUNT - first) }, (__, at) => first + at);
      const puts = ids.map((at) => put(JOBS, `job-${at}`, null, jobAt(at)));
      return store.commit({ org: "default", atMs: 1, puts, guards: [], sends: [], watch: [] });
    });
    await Promise.all(commits);
  }
}

const BATCH = 50;
const PARALLEL = 20;

const closing: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  embedded: async () => {
    const dir = mkdtempSync(join(tmpdir(), "cordum-recorded-"));
    const { writer, tables } = await openStorage(dir, { clock: wallClock, log: { write: () => {} } });
    closing.push(async () => rmSync(dir, { recursive: true, force: true }));
    closing.push(() => writer.close());
    return new SqliteStore(writer, tables);
  },
  redis: async () => {
    const server = await startRedis();
    const connection = await connectRedis(server.url, { log: { write: () => undefined } });
    closing.push(() => server.stop());
    closing.push(() => connection.close());
    return new RedisStore(connection);
  },
};

test.each(Object.keys(STORES))(
  "lists the flips of 100,000 recorded decisions within ten seconds, %s",
  async (name) => {
    const store = (await STORES[name]?.()) as Store;
    await fill(store);
    const evaluator = threadEvaluator();
    closing.push(() => evaluator.close());
    const read = readPolicy({ name: "draft", text: DRAFT });
    if (read.kind === "bad") throw new Error(read.problems.join());
    const settings = { current: defaultSettings() } as unknown as Engine["settings"];
    const engine = { world: { store, evaluator, clock: wallClock } as unknown as World, settings };
    const cpuBefore = process.cpuUsage();
    let [checked, flipped, pages, cursor] = [0, 0, 0, undefined as string | undefined];
    const groups = new Map<string, number>();
    do {
      const simulated = await simulateRecorded(engine, {
        org: "default",
        text: DRAFT,
        inForce: read.document,
        fromMs: 0,
        untilMs: START_MS + JOB_COUNT,
        limit: RECORDED_JOBS.default,
        cursor,
      });
      if (simulated.kind !== "ok") throw new Error(JSON.stringify(simulated));
      const { flips } = simulated;
      pages += 1;
      checked += flips.checked;
      flipped += flips.flipped;
      for (const { from, to, topic, count } of flips.groups) {
        const key = `${topic}: ${from.effect} by ${from.ruleId} -> ${to.effect} by ${to.ruleId}`;
        groups.set(key, (groups.get(key) ?? 0) + count);
      }
      cursor = flips.cursor ?? undefined;
    } while (cursor !== undefined);
    const { user, system } = process.cpuUsage(cpuBefore);
    const payments = Array.from({ length: JOB_COUNT / 10 }, (_, at) => (at * 10) % 1_000).filter(
      (amount) => amount >= 900,
    );
    expect({ checked, flipped, pages }).toEqual({ checked: JOB_COUNT, flipped: payments.length, pages: 10 });
    expect([...groups]).toEqual([["pay: allow by old -> require_approval by large", payments.length]]);
    // Computing time: the machine may be shared with other tests.
    expect((user + system) / 1e6).toBeLessThan(10);

    const limitedBefore = process.cpuUsage();
    const limited = await simulateRecorded(engine, {
      ...{ org: "default", text: LIMITED, inForce: read.document, fromMs: 0, untilMs: START_MS + JOB_COUNT },
      limit: RECORDED_JOBS.publisherMax,
    });
    const cpu = process.cpuUsage(limitedBefore);
    if (limited.kind !== "ok") throw new Error(JSON.stringify(limited));
    const { flips } = limited;
    expect(flips).toMatchObject({ checked: JOB_COUNT, cursor: null });
    // One payment every 10 ms: those of the first 10 s of each 30 s pass.
    expect(flips.groups).toMatchObject([{ to: { effect: "deny", ruleId: "often" }, count: 6_000 }]);
    expect(flips.limits?.exhausted).toMatchObject([{ ruleId: "paid", per: "tenant", count: 1_000 }]);
    expect((cpu.user + cpu.system) / 1e6).toBeLessThan(10);
  },
  300_000,
);
