// Limits of policy rules with real processes and servers: exact under concurrency, and across kill -9.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Deployment, POLICY, startCluster, startEmbedded } from "../deployments.ts";

const DEPLOYMENTS = [
  ["one process", startEmbedded],
  ["two gateways, three control processes and a safety kernel on NATS and Redis", startCluster],
] as const;

const RULES = `rules:
  - {id: fast, match: {topics: ['*.fast']}, decision: deny, reason: too fast, velocity: {max: 10, within: 1h}}
  - {id: twice, match: {topics: ['*.twice']}, decision: deny, reason: too fast, velocity: {max: 7, within: 1h, by: label:customer}}
  - {id: slow, match: {topics: ['*.slow']}, decision: throttle, reason: slow down, throttle: {rate: 4/2s}}
`;

describe.each(DEPLOYMENTS)("%s", (_, start) => {
  let deployment: Deployment;

  beforeAll(async () => {
    deployment = await start();
    const policy = POLICY.replace("rules:\n", RULES);
    const { body } = await deployment.apis[0].post("/policy/publish", { policy });
    for (const api of deployment.apis) {
      await api.until("/policy/rules", (answer) => answer.body.snapshot === body.snapshot);
      const evaluate = () => api.post("/policy/evaluate", { topic: "any.echo" });
      while ((await evaluate()).body.snapshot !== body.snapshot);
    }
  });
  afterAll(() => deployment?.stop());

  async function submitAll(topic: string, count: number, more: object = {}): Promise<readonly string[]> {
    const ids: string[] = [];
    let next = 0;
    const client = async () => {
      for (let at = next++; at < count; at = next++) {
        const { status, body } = await deployment.apis[at % 2 === 0 ? 0 : 1].post("/jobs", {
          topic,
          input: at,
          ...more,
        });
        if (status !== 200 && status !== 403) throw new Error(`submit failed with ${status}: ${JSON.stringify(body)}`);
        ids.push(body.job_id);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    return ids;
  }

  /** Waits until the jobs are decided. No worker serves the topics: those that passed are in the backlog. */
  async function decided(ids: readonly string[]): Promise<{ readonly passed: number; readonly denied: number }> {
    const states = await Promise.all(
      ids.map((id) => deployment.apis[0].until(`/jobs/${id}`, ({ body }) => body.state !== "PENDING")),
    );
    const denied = states.filter(({ body }) => body.state === "DENIED").length;
    return { passed: ids.length - denied, denied };
  }

  test("exactly 10 of 1,000 concurrent jobs pass a velocity limit of 10", async () => {
    const topic = "any.fast";
    expect(await decided(await submitAll(topic, 1_000))).toEqual({ passed: 10, denied: 990 });
    const { body } = await deployment.apis[1].post("/policy/explain", { topic });
    expect(body).toMatchObject({
      decision: "DENY",
      rule_id: "fast",
      limits: [{ kind: "velocity", used: 10, max: 10 }],
    });
  });

  test("counts survive kill -9, and keys of clients do not collide", async () => {
    const topic = "any.twice";
    const customer = { labels: { customer: '"],["a' } };
    expect(await decided(await submitAll(topic, 5, customer))).toEqual({ passed: 5, denied: 0 });
    await deployment.killControl();
    expect(await decided(await submitAll(topic, 5, customer))).toEqual({ passed: 2, denied: 3 });
    expect(await decided(await submitAll(topic, 1, { labels: { customer: "a" } }))).toEqual({ passed: 1, denied: 0 });
  });

  test("jobs beyond a rate come at their slots, also after kill -9", async () => {
    const ids = await submitAll("any.slow", 16);
    const waiting = await Promise.all(ids.map((id) => deployment.apis[0].job(id)));
    await deployment.killControl();
    expect(waiting.some(({ state }) => state === "PENDING")).toBe(true);
    expect(await decided(ids)).toEqual({ passed: 16, denied: 0 });
    // 16 jobs at 4 per 2 s: the last slot comes 6 s after the first.
    const jobs = await Promise.all(ids.map((id) => deployment.apis[0].job(id)));
    const slots = jobs.map(({ created_at, history }) => {
      const wait = history.find(({ event }: { readonly event: string }) => event === "throttled");
      return wait === undefined ? Date.parse(created_at) : Date.parse(wait.at) + wait.delay_ms;
    });
    expect(Math.max(...slots) - Math.min(...slots)).toBeGreaterThanOrEqual(5_900);
  });
});

const CLIENTS = 50;
