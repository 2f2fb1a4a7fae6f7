// The ticket triage of examples/ with a worker in Python and one in TypeScript, and a concurrent load on a budget and a velocity
// limit, while every process is killed.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { isRunFinal } from "../../../src/core/model/run.ts";
import { permanent, type WorkItem, worker } from "../../../src/worlds/worker-sdk.ts";
import type { Answer, Api } from "../api.ts";
import { FINAL_STATES } from "../api.ts";
import { startClusterTriage, startEmbeddedTriage, type TriageDeployment } from "./triage-deployment.ts";

type Json = Answer["body"];

const DEPLOYMENTS = [
  ["embedded", startEmbeddedTriage],
  ["NATS + Redis", startClusterTriage],
] as const;

/** The process to kill, and the line of a worker that says when. */
const KILLS = {
  gateway: ["agent", "ticket.classify Q"],
  control: ["agent", "ticket.classify Q"],
  kernel: ["agent", "ticket.classify Q"],
  agent: ["agent", "ticket.answer Q"],
  services: ["services", "refund.pay T"],
} as const;

const VELOCITY = 20;
const TOKENS = 2_000;
const JOB_TOKENS = 100;
const RULES = `
  - {id: load-velocity, match: {topics: [load.fast]}, decision: deny, reason: too many, velocity: {max: ${VELOCITY}, within: 1h}}
  - {id: load-fast, match: {topics: [load.fast]}, decision: allow}
  - {id: load-budget, match: {topics: [load.model]}, decision: allow, budget: {tokens: ${TOKENS}, per: tenant}}
`;
const TIMEOUT_MS = 900_000;
/** For a system that hangs; polls less often than others, because many runs are open at once. */
const SLOWLY = { waitMs: 300_000, pollMs: 200 };

describe.each(DEPLOYMENTS)("%s", (_, start) => {
  let deployment: TriageDeployment;

  beforeAll(async () => {
    deployment = await start(RULES);
  }, TIMEOUT_MS);
  afterAll(() => deployment?.stop());

  test(
    "tickets are triaged, refunded, answered and undone while every process is killed",
    async () => {
      const { submitter, operator, crash } = deployment;
      const day = new Date().getUTCDate();
      const approvals = new Approvals(deployment.approver);
      const night = backfillOneNight(operator);
      const open: Promise<readonly [string, Json]>[] = [];
      const named = async (ticket: string, run: Promise<Json>) => [ticket, await run] as const;
      for (const [victim, kill] of Object.entries(crash)) {
        open.push(named(`Q-${victim}`, ask(submitter, `Q-${victim}`)));
        open.push(named(`T-${victim}`, refund(submitter, `T-${victim}`, victim, 120)));
        open.push(named(`X-${victim}`, refund(submitter, `X-${victim}`, victim, 300)));
        const [on, line] = KILLS[victim as keyof typeof KILLS];
        await deployment[on].printed(`${line}-${victim}`);
        await kill();
      }
      const runs = await Promise.all(open);
      // 120 + 300 + 100 is more than a customer gets in a day.
      const denied = Object.keys(crash).map((customer) =>
        named(`D-${customer}`, refund(submitter, `D-${customer}`, customer, 100)),
      );
      runs.push(...(await Promise.all(denied)));
      await night;
      await approvals.stop();
      for (const [ticket, run] of runs) await expectTicket(operator, ticket, run);
      const calls = (runs.length / 4) * CALLS_PER_VICTIM + CALLS_PER_NIGHT;
      const used = await usedTokens(operator, "models");
      // A new day has a new budget.
      if (new Date().getUTCDate() === day) expect(used).toBe(calls * TOKENS_PER_CALL);
    },
    TIMEOUT_MS,
  );

  test(
    "a budget and a velocity limit are exact under load while control processes are killed",
    async () => {
      const { submitter, operator, crash, transport } = deployment;
      const stop = await worker({ id: "load", topics: ["load.model"], concurrency: 16, transport, handle: spend });
      let sent = 0;
      let atKill = (): void => {};
      const isKillDue = new Promise<void>((resolve) => {
        atKill = resolve;
      });
      const submit = async (topic: string, n: number) => {
        const budget = { max_total_tokens: JOB_TOKENS };
        const { status, body } = await submitter.post("/jobs", {
          ...{ topic, input: n, budget },
          idempotency_key: `${topic}-${n}`,
        });
        if (![200, 402, 403].includes(status)) throw new Error(`submit failed with ${status}: ${JSON.stringify(body)}`);
        sent++;
        if (sent === KILL_AT) atKill();
        if (n % 5 === 0) expect(await usedTokens(operator, "load-budget")).toBeLessThanOrEqual(TOKENS);
      };
      let next = 0;
      const client = async () => {
        for (let n = next++; n < JOBS; n = next++) {
          await submit("load.model", n);
          if (n < JOBS / 2) await submit("load.fast", n);
        }
      };
      const clients = Promise.all(Array.from({ length: CLIENTS }, client));
      await isKillDue;
      await crash.control?.();
      await clients;

      const fast = await untilNone(operator, "load.fast", ({ state }) => state === "PENDING");
      expect(fast.filter(({ state }) => state !== "DENIED")).toHaveLength(VELOCITY);
      const ended = await untilNone(operator, "load.model", ({ state }) => !FINAL_STATES.includes(state));
      await stop();
      const jobs = await Promise.all(ended.map(({ job_id }) => operator.job(job_id)));
      const spent = jobs.map(spentBy).reduce((sum, one) => sum + one, 0);
      expect(await usedTokens(operator, "load-budget")).toBe(spent);
      expect(spent).toBeLessThanOrEqual(TOKENS);
    },
    TIMEOUT_MS,
  );
});

const JOBS = 80;
const CLIENTS = 16;
const KILL_AT = 30;
const TOKENS_PER_CALL = 250;
/** Three of the question, one of each refund. */
const CALLS_PER_VICTIM = 6;
const CALLS_PER_NIGHT = 4;

/** Approves the jobs that wait for a decision, until it is stopped. */
class Approvals {
  readonly #api: Api;
  readonly #ended: Promise<void>;
  #isStopped = false;

  constructor(api: Api) {
    this.#api = api;
    this.#ended = this.#run();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      const { body } = await this.#api.get("/approvals?limit=200");
      for (const { job_id } of body.items) await this.#api.post(`/approvals/${encodeURIComponent(job_id)}/approve`);
      await delay(SLOWLY.pollMs);
    }
  }
}

async function startTicket(api: Api, ticket: string, input: object, labels: object): Promise<string> {
  const { status, body } = await api.post("/workflows/ticket-triage/runs", {
    input: { ticket, ...input },
    labels,
    idempotency_key: ticket,
  });
  if (status !== 200) throw new Error(`start failed with ${status}: ${JSON.stringify(body)}`);
  return body.run_id;
}

async function endOf(api: Api, runId: string): Promise<Json> {
  return (await api.until(`/workflow-runs/${runId}`, ({ body }) => isRunFinal(body.state), SLOWLY)).body;
}

async function refund(api: Api, ticket: string, customer: string, amount: number): Promise<Json> {
  return endOf(api, await startTicket(api, ticket, { text: "please refund it", amount }, { customer }));
}

/** The customer is content with the second answer. */
async function ask(api: Api, ticket: string): Promise<Json> {
  const runId = await startTicket(api, ticket, { text: "where is it?" }, {});
  for (const iteration of [1, 2]) {
    const isAsked = ({ body: { state, steps } }: Answer) =>
      isRunFinal(state) || (steps.resolve.iteration === iteration && steps.reply.state === "RUNNING");
    await api.until(`/workflow-runs/${runId}`, isAsked, SLOWLY);
    await reply(api, runId, ticket, iteration);
  }
  return endOf(api, runId);
}

function reply(api: Api, runId: string, ticket: string, iteration: number): Promise<Answer> {
  return api.post(`/workflow-runs/${runId}/events`, {
    name: "customer.answered",
    data: { resolved: iteration === 2, text: "and when?" },
    correlation_key: ticket,
    event_id: `answer-${iteration}`,
  });
}

/** Applies the schedule, starts the slot of the last night, and answers the customer of the ticket that is a question. */
async function backfillOneNight(api: Api): Promise<void> {
  // Paused, so that the next night does not begin during the test.
  const applied = await api.post("/schedules", { ...parse(readFileSync(NIGHTLY, "utf8")), paused: true });
  expect(applied).toMatchObject({ status: 200, body: { next_slot: null } });
  const midnightMs = Date.now() - (Date.now() % DAY_MS);
  const [from, until] = [midnightMs - DAY_MS, midnightMs - DAY_MS / 2].map((ms) => new Date(ms).toISOString());
  expect((await api.post("/schedules/nightly-triage/backfill", { from, until, pace_ms: 100 })).status).toBe(200);
  const list = async (workflow: string, isDone: (items: readonly Json[]) => boolean) =>
    (await api.until(`/workflows/${workflow}/runs?limit=200`, ({ body }) => isDone(body.items), SLOWLY)).body.items;
  const [night] = await list("nightly-triage", ({ length }) => length > 0);
  const isOfNight = ({ parent }: Json) => parent?.run_id === night.run_id;
  const all: readonly Json[] = await list("ticket-triage", (items) => items.filter(isOfNight).length === 2);
  for (const { run_id } of all.filter(isOfNight)) {
    for (const iteration of [1, 2]) await reply(api, run_id, "N-1", iteration);
  }
  expect(await endOf(api, night.run_id)).toMatchObject({ state: "SUCCEEDED", output: { tickets: 2 } });
  expect(await list("nightly-triage", () => true)).toHaveLength(1);
}

const NIGHTLY = join(import.meta.dirname, "..", "..", "..", "examples", "ticket-triage", "nightly.yaml");
const DAY_MS = 86_400_000;

const ENDS: Readonly<Record<string, { readonly run: object; readonly jobs: readonly string[] }>> = {
  Q: {
    run: { state: "SUCCEEDED", output: { category: "question", answers: 2 } },
    jobs: ["classify@1", "answer@1", "answer@2", "update_crm@1"],
  },
  T: {
    run: { state: "SUCCEEDED", output: { category: "refund", answers: 0 } },
    jobs: ["classify@1", "refund@1", "update_crm@1"],
  },
  X: {
    run: { state: "FAILED", compensation: { undone: ["refund"], failed: [], left: [] } },
    jobs: ["classify@1", "refund@1", "refund.undo@1"],
  },
  D: { run: { state: "FAILED", steps: { refund: { state: "DENIED" } } }, jobs: ["classify@1"] },
};

/** The run ended as expected, after one successful end of each of its jobs. */
async function expectTicket(api: Api, ticket: string, run: Json): Promise<void> {
  const { run: expected, jobs } = ENDS[ticket.charAt(0)] ?? { run: {}, jobs: [] };
  expect(run, ticket).toMatchObject(expected);
  for (const id of jobs) {
    const { state, history } = await api.job(encodeURIComponent(`${run.run_id}:${id}`));
    const ends = history.filter(({ event }: Json) => event === "succeeded").length;
    expect([ticket, id, state, ends]).toEqual([ticket, id, "SUCCEEDED", 1]);
  }
}

async function usedTokens(api: Api, ruleId: string): Promise<number> {
  const { body } = await api.get("/status");
  return body.budgets.find(({ rule_id }: Json) => rule_id === ruleId)?.tokens.used ?? 0;
}

/** A quarter of the jobs each: less than reserved, no report, a failure that used tokens, a failure that used none. */
async function spend(item: WorkItem): Promise<unknown> {
  const kind = (item.input as number) % 4;
  if (kind === 0) item.reportUsage({ totalTokens: 60 });
  if (kind === 2) item.reportUsage({ totalTokens: 30 });
  if (kind > 1) throw permanent(new Error("no answer"));
  return null;
}

function spentBy({ state, input, error }: Json): number {
  if (state === "SUCCEEDED") return input % 4 === 0 ? 60 : JOB_TOKENS;
  return error.message === "no answer" && input % 4 === 2 ? 30 : 0;
}

async function untilNone(api: Api, topic: string, isOpen: (job: Json) => boolean): Promise<readonly Json[]> {
  const { body } = await api.until(
    `/jobs?topic=${topic}&limit=200`,
    (answer) => !answer.body.items.some(isOpen),
    SLOWLY,
  );
  return body.items;
}
