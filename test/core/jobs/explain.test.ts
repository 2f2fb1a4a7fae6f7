import { describe, expect, test } from "vitest";
import { expireJob } from "../../../src/core/jobs/attempt.ts";
import { type ExplainContext, explainJob, waitReasonOf } from "../../../src/core/jobs/explain.ts";
import { decideSafety } from "../../../src/core/jobs/lifecycle.ts";
import { JOB_STATES, type Job } from "../../../src/core/model/job.ts";
import { allow, asked, at, everyStage, fresh, limited, STAGES } from "./stages.ts";

const windowOf = (used: number) => ({ isEmpty: used === 0, isFull: used >= 5, use: { used, max: 5 } });

const around: ExplainContext = {
  nowMs: 10_000,
  window: windowOf(0),
  tenant: null,
  rule: null,
  backlog: { topic: 3, tenant: 2 },
  workers: { serving: 1, free: 1 },
  unfit: null,
  silentMs: null,
  isIdle: false,
  breaker: null,
  killed: null,
  failOpen: null,
  slots: null,
  run: null,
};

describe("every open job", () => {
  test("L37: has a due time and ends at its deadline at the latest", () => {
    for (const job of everyStage()) {
      expect(job.dueMs).toBeLessThanOrEqual(job.deadlineMs);
      expect(expireJob(job, at(job.deadlineMs))?.state).toBe("TIMEOUT");
    }
  });

  test("is explained with reason, times and a command that unblocks it", () => {
    for (const [state, make] of Object.entries(STAGES)) {
      for (const job of make()) {
        expect(job.state).toBe(state);
        const { wait, sentence, unblocks } = explainJob(job, around);
        expect(wait?.sinceMs).toBeLessThanOrEqual(around.nowMs);
        expect(wait?.untilMs).toBeLessThanOrEqual(job.deadlineMs);
        expect(sentence).not.toMatch(/undefined|null|NaN/);
        expect(unblocks.length).toBeGreaterThan(1);
        expect(unblocks.at(-1)?.command).toBe("cordum job cancel j");
        expect(waitReasonOf(job)).toBe(wait?.reason);
      }
    }
  });

  test("an ended job waits for nothing", () => {
    const ended = JOB_STATES.filter((state) => !(state in STAGES));
    for (const state of ended) {
      const job = { ...fresh(), state };
      expect(explainJob(job, around)).toMatchObject({ wait: null, sentence: `ended as ${state}` });
      expect(waitReasonOf(job)).toBeNull();
    }
    expect(explainJob({ ...fresh(), state: "FAILED" }, around).unblocks[0]?.command).toBe("cordum dlq retry j");
  });
});

describe("a job with a worker", () => {
  const sent = (facts: object) => ({ ...fresh(), state: "RUNNING" as const, attempt: 1, workerId: "w1", ...facts });
  const nowMs = 300_000;

  test("shows its age, whatever extended its deadline", () => {
    const job = sent({ dispatchedMs: 60_000, updatedMs: 299_000, dueMs: 350_000 });
    const { sentence, wait } = explainJob(job, { ...around, nowMs });
    expect(wait?.sinceMs).toBe(60_000);
    expect(sentence).toContain("worker `w1` started attempt 1 4 min ago; no progress reported");
  });

  test("shows the age of its last progress", () => {
    const progress = { percent: 40, message: null, atMs: 210_000 };
    const { sentence } = explainJob(sent({ dispatchedMs: 60_000, dueMs: 350_000, progress }), { ...around, nowMs });
    expect(sentence).toContain("4 min ago (40 % done); last progress 90 s ago");
  });
});

describe("a step of a run", () => {
  const step = { runId: "r1", stepId: "s", kind: "approval" as const };

  test("reports the earlier of its own end and that of its run", () => {
    const job = { ...asked(), step } as Job;
    const expiresMs = job.approval?.expiresMs ?? 0;
    const earlier = explainJob(job, { ...around, run: { id: "r1", deadlineMs: 310_000 } });
    expect(earlier.wait).toMatchObject({ untilMs: 310_000, setBy: "timeout of run `r1`" });
    expect(earlier.sentence).toContain("run `r1` ends as TIMEOUT before that, in 5 min");
    const later = explainJob(job, { ...around, run: { id: "r1", deadlineMs: expiresMs + 1 } });
    expect(later.wait?.untilMs).toBe(expiresMs);
    expect(later.sentence).not.toContain("before that");
  });
});

describe("the backlog", () => {
  const job = decideSafety(fresh(), allow, at(1));
  const reasonIn = (facts: Partial<ExplainContext>, one = job) => explainJob(one, { ...around, ...facts }).wait?.reason;

  test("reports the block that has to be removed first", () => {
    const few = decideSafety(fresh(), limited, at(1));
    const full = windowOf(5);
    expect(reasonIn({})).toBe("turn");
    expect(reasonIn({ window: full })).toBe("window_full");
    expect(reasonIn({ window: full, tenant: { used: 2, max: 2 } })).toBe("tenant_limit");
    expect(reasonIn({ rule: { used: 1, max: 1 } }, few)).toBe("rule_limit");
    expect(reasonIn({ workers: { serving: 0, free: 0 } })).toBe("no_worker");
    expect(reasonIn({ unfit: "the pool is draining", window: full })).toBe("no_fit_worker");
    const killed = { scope: "*", by: "ann", reason: "stop" };
    expect(reasonIn({ killed, window: full, workers: { serving: 0, free: 0 } })).toBe("killed");
    // Jobs in flight prove that a worker serves the topic.
    expect(reasonIn({ workers: { serving: 0, free: 0 }, window: windowOf(1) })).toBe("turn");
    expect(reasonIn({ workers: { serving: 0, free: 0 }, window: windowOf(1), isIdle: true })).toBe("no_worker");
  });

  test("reports queued and in-flight jobs", () => {
    const { sentence } = explainJob(job, { ...around, window: windowOf(5) });
    expect(sentence).toContain("dispatch window of `demo.echo` full: 5 of 5 with workers");
    expect(sentence).toContain("3 queued for `demo.echo`, 2 of them in tenant `default`");
  });

  test("hides figures of other tenants", () => {
    const alone = { ...around, backlog: { topic: null, tenant: 2 } };
    const full = explainJob(job, { ...alone, window: { isEmpty: false, isFull: true, use: null } });
    expect(full.wait?.reason).toBe("window_full");
    expect(full.sentence).toContain("dispatch window of `demo.echo` full;");
    const turn = explainJob(job, { ...alone, window: { isEmpty: false, isFull: false, use: null } });
    for (const { sentence } of [full, turn]) {
      expect(sentence).toContain("2 queued for `demo.echo` in tenant `default`");
      expect(sentence).not.toMatch(/null|undefined|\b[0135] /);
    }
  });
});

test.each([
  [0, 0],
  [1, 1],
  [1_000, 1],
  [1_001, 2],
  [7_200_000, 7_200],
  [-1, 0],
])("a delay that ends in %d ms reports %d s", (delayMs, seconds) => {
  const step = { runId: "r", stepId: "s", kind: "delay" } as const;
  const { sentence } = explainJob({ ...fresh(), step, dueMs: around.nowMs + delayMs }, around);
  expect(sentence).toContain(`delay step: ends in ${seconds} s, at `);
});

test.each([
  [null, null, "a worker started attempt 2 4 s ago; last progress 3 s ago; counts as lost"],
  ["w1", null, "worker `w1` started attempt 2 4 s ago; last progress 3 s ago; counts as lost"],
  ["w1", 0, "worker `w1` started attempt 2 4 s ago (0 % done); last progress 3 s ago; counts as lost"],
  ["w1", 40, "worker `w1` started attempt 2 4 s ago (40 % done); last progress 3 s ago; counts as lost"],
])("a running job of worker %j at %j percent reports both", (workerId, percent, sentence) => {
  const progress = { percent, message: null, atMs: 7_000 };
  const started = { state: "RUNNING", attempt: 2, dispatchedMs: 6_000, dueMs: 16_000, workerId, progress } as const;
  const explained = explainJob({ ...fresh(), ...started }, around);
  expect(explained.sentence).toContain(sentence);
  expect(explained.wait).toMatchObject({ reason: "running", sinceMs: 6_000, untilMs: 16_000 });
});

test("an approval reports its rule, expiry and the submitter restriction", () => {
  const { sentence, wait, unblocks } = explainJob(asked(), around);
  expect(wait).toMatchObject({ reason: "approval", sinceMs: 1, setBy: "rule `r`" });
  expect(sentence).toContain("rule `r` requires approval: a human must look");
  expect(sentence).toContain("submitters cannot approve their own jobs");
  expect(unblocks[0]?.command).toBe("cordum approval approve j");
});

test("a kernel outage reports the breaker, the lease and the command", () => {
  const [, waiting = fresh()] = STAGES.PENDING();
  const facts = { ...around, breaker: "the breaker is open", failOpen: { id: "l1", endsMs: 70_000 } };
  const { sentence, wait, unblocks } = explainJob(waiting, facts);
  expect(wait).toMatchObject({ reason: "safety_unavailable", retryClass: "safety_unavailable", setBy: "full:1s:30s" });
  expect(sentence).toContain("the breaker is open; fail-open lease `l1` ends in 60 s");
  expect(unblocks.map(({ command }) => command)).toContain('cordum failopen open --scope default --reason "..."');
});
