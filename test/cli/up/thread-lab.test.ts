// Real threads: their start takes longer than the experiments.
import { afterEach, expect, test } from "vitest";
import { type LabLimits, type ThreadLab, threadLab } from "../../../src/cli/up/thread-lab.ts";
import type { LabRequest } from "../../../src/gateway/lab.ts";

const LIMITS: LabLimits = { taskMs: 30_000, waiting: 3, waitingPerOrg: 2 };
const { signal: never } = new AbortController();

const ask = (contenders: number, policies = ["default"]): LabRequest => ({
  ...{ kind: "experiment", name: "lock-busy", params: { contenders: String(contenders), policies }, records: [] },
});
/** Minutes of work. */
const LONG = ask(10_000, ["baseline"]);

let lab: ThreadLab;

afterEach(() => lab.close());

test("answers without blocking this process, and again from memory", async () => {
  lab = threadLab(LIMITS);
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 1);
  const first = await lab.run("acme", ask(50), never);
  clearInterval(timer);
  expect(first).toMatchObject({ kind: "answered", answer: { experiment: "lock-busy" } });
  expect(turns).toBeGreaterThan(3);
  expect(await lab.run("acme", ask(50), never)).toBe(first);
  expect(await lab.run("acme", ask(0), never)).toMatchObject({ kind: "rejected", param: "contenders" });
});

test("an experiment beyond its time ends, and the next one gets a new thread", async () => {
  lab = threadLab({ ...LIMITS, taskMs: 6_000 });
  expect(await lab.run("acme", LONG, never)).toEqual({ kind: "over", why: "the simulation exceeded 6000 ms" });
  expect(await lab.run("acme", ask(10), never)).toMatchObject({ kind: "answered" });
});

test("an abandoned experiment ends at once", async () => {
  lab = threadLab(LIMITS);
  await lab.run("acme", ask(10), never);
  const controller = new AbortController();
  const abandoned = lab.run("acme", LONG, controller.signal);
  const next = lab.run("acme", ask(11), never);
  // The thread has started: the message is sent within this turn.
  await new Promise((resolve) => setImmediate(resolve));
  controller.abort();
  expect(await abandoned).toEqual({ kind: "over", why: "the simulation was cancelled" });
  expect(await next).toMatchObject({ kind: "answered" });
});

test("few experiments wait, in total and per tenant", async () => {
  lab = threadLab(LIMITS);
  const controller = new AbortController();
  const running = lab.run("acme", LONG, controller.signal);
  const waiting = lab.run("acme", ask(10), never);
  expect(await lab.run("acme", ask(11), never)).toEqual({ kind: "busy", current: 2, limit: 2 });
  const other = lab.run("other", ask(12), never);
  // A third tenant has no fewer tasks than those that wait.
  expect(await lab.run("third", ask(13), never)).toMatchObject({ kind: "busy" });
  controller.abort();
  const outcomes = await Promise.all([running, waiting, other]);
  expect(outcomes.map(({ kind }) => kind)).toEqual(["over", "answered", "answered"]);
});
