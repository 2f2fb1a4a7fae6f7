import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import {
  applyResult,
  dispatchJob,
  expireJob,
  recordProgress,
  requeueJob,
  resumeJob,
  waitForRule,
} from "../../../src/core/jobs/attempt.ts";
import {
  decideSafety,
  newJob,
  recheckAfterPolicyChange,
  redriveJob,
  waitForSafety,
} from "../../../src/core/jobs/lifecycle.ts";
import { checkSubmission, type Submission } from "../../../src/core/jobs/submission.ts";
import type { DecisionContext } from "../../../src/core/jobs/transitions.ts";
import { deadLetterOf } from "../../../src/core/model/dead-letter.ts";
import { HISTORY_MAX, isFinal, JOB_MOVES, JOB_STATES, JOBS, type Job, moveJob } from "../../../src/core/model/job.ts";
import type { JobResult } from "../../../src/protocol/packet.ts";

const settings = defaultSettings();
const at = (nowMs: number): DecisionContext => ({ nowMs, settings, random: () => 0.5 });
const allow = { effect: "allow", ruleId: "r", reason: "fine", snapshot: "s" } as const;
const deny = { effect: "deny", ruleId: "r", reason: "no", snapshot: "s" } as const;
const failed: JobResult = { jobId: "j", workerId: "w", status: "failed_retryable", errorMessage: "boom" };
const succeeded: JobResult = { jobId: "j", workerId: "w", status: "succeeded", output: 1 };

function submission(facts: Record<string, unknown> = {}): Submission {
  const checked = checkSubmission({ topic: "demo.echo", input: { a: 1 }, ...facts });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}

const fresh = (nowMs = 0): Job =>
  newJob(submission(), { jobId: "j", traceId: "t" }, { kind: "inline", value: { a: 1 } }, at(nowMs));
const scheduled = (): Job => decideSafety(fresh(), allow, at(1));
const dispatched = (): Job => dispatchJob(scheduled(), at(2));

describe("legal transitions", () => {
  test("open states have successors, and every state is reachable", () => {
    const reached = new Set<string>(["PENDING"]);
    for (const _ of JOB_STATES)
      for (const state of reached) for (const to of JOB_MOVES[state as Job["state"]]) reached.add(to);
    expect([...reached].sort()).toEqual([...JOB_STATES].sort());
    expect(JOB_STATES.filter(isFinal)).toEqual(["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT", "DENIED"]);
  });

  test("L2: rejects an illegal transition", () => {
    const done = moveJob(dispatched(), "SUCCEEDED", 3);
    expect(() => moveJob(done, "FAILED", 4)).toThrow("job `j` cannot go from SUCCEEDED to FAILED");
  });

  test("L37: every open state has a due time, at the job's deadline at the latest", () => {
    const retrying = applyResult(dispatched(), failed, null, at(3));
    const waiting = waitForSafety(fresh(), "down", at(3));
    for (const job of [fresh(), waiting, scheduled(), dispatched(), retrying as Job]) {
      expect(job.dueMs).toBeLessThanOrEqual(job.deadlineMs);
      expect(expireJob(job, at(job.deadlineMs))?.state).toBe("TIMEOUT");
    }
  });
});

describe("indexes of a job", () => {
  test("queued jobs count in the backlog, dispatched jobs in the window", () => {
    expect(JOBS.placement(scheduled()).queue?.name).toBe("backlog/demo.echo/default");
    expect(JOBS.placement(scheduled()).counters).toEqual([
      { group: "backlog", name: "demo.echo" },
      { group: "backlog/demo.echo", name: "default" },
      { group: "open_jobs", name: "default" },
    ]);
    expect(JOBS.placement(dispatched()).queue).toBeNull();
    expect(JOBS.placement(dispatched()).counters).toEqual([
      { group: "inflight", name: "demo.echo" },
      { group: "running", name: "default" },
      { group: "open_jobs", name: "default" },
    ]);
    expect(JOBS.placement(moveJob(dispatched(), "SUCCEEDED", 3)).counters).toEqual([]);
  });

  test("orders by priority, then by age", () => {
    const score = (priority: Job["priority"], createdMs: number) =>
      JOBS.placement({ ...scheduled(), priority, createdMs }).queue?.score ?? 0;
    const now = 1_800_000_000_000;
    expect(score("critical", now)).toBeLessThan(score("interactive", 0));
    expect(score("interactive", now)).toBeLessThan(score("batch", 0));
    expect(score("batch", 1)).toBeLessThan(score("batch", 2));
    expect(Number.isSafeInteger(score("batch", now))).toBe(true);
  });
});

describe("results", () => {
  test("the first result ends the job, later ones are ignored", () => {
    const done = applyResult(dispatched(), succeeded, { kind: "inline", value: 1 }, at(3));
    expect(done).toMatchObject({ state: "SUCCEEDED", output: { value: 1 }, workerId: "w" });
    expect(applyResult(done as Job, succeeded, null, at(4))).toBeNull();
    expect(applyResult(done as Job, { ...failed, status: "failed_fatal" }, null, at(4))).toBeNull();
  });

  test.each(["approval", "delay", "subworkflow"] as const)("results for a %s step are ignored", (kind) => {
    const job: Job = { ...moveJob(dispatched(), "RUNNING", 3), step: { runId: "r", stepId: "s", kind } };
    const fatal = { ...failed, status: "failed_fatal" as const };
    for (const forged of [succeeded, failed, fatal]) expect(applyResult(job, forged, null, at(4))).toBeNull();
    const report = { workerId: "w", percent: 1, message: null, extendMs: null };
    expect(recordProgress(job, report, at(4))).toBeNull();
    const work: Job = { ...job, step: { runId: "r", stepId: "s", kind: "worker" } };
    expect(applyResult(work, succeeded, null, at(4))?.state).toBe("SUCCEEDED");
  });

  test("a late success counts, a late failure does not", () => {
    const retrying = applyResult(dispatched(), { ...failed, attempt: 1 }, null, at(3)) as Job;
    const again = dispatchJob(resumeJob(retrying, at(5_000)), at(5_000));
    expect(again.attempt).toBe(2);
    expect(applyResult(again, { ...failed, attempt: 1 }, null, at(5_001))).toBeNull();
    expect(applyResult(again, { ...succeeded, attempt: 1 }, null, at(5_001))?.state).toBe("SUCCEEDED");
    expect(applyResult(retrying, succeeded, null, at(4))?.state).toBe("SUCCEEDED");
  });

  test("a failure is retried by the policy of its class, which is recorded", () => {
    const retrying = applyResult(dispatched(), failed, null, at(100)) as Job;
    expect(retrying.state).toBe("RETRYING");
    expect(retrying.wait).toMatchObject({ retryClass: "unclassified", reason: "boom", setBy: "full:1s:30s" });
    expect(retrying.dueMs).toBe(retrying.wait?.untilMs);
    expect(retrying.history.at(-1)).toMatchObject({ attempt: 1, event: "failed", why: "boom" });
  });

  test("obeys the worker's retry delay exactly, within what is a time", () => {
    for (const [retryAfterMs, delayMs] of [
      [-5, 0],
      [Number.MAX_SAFE_INTEGER, 366 * 86_400_000],
    ] as const) {
      const waiting = applyResult(dispatched(), { ...failed, retryAfterMs }, null, at(100)) as Job;
      expect(new Date(waiting.wait?.untilMs ?? Number.NaN).getTime()).toBe(100 + delayMs);
      expect(waiting.dueMs).toBeLessThanOrEqual(waiting.deadlineMs);
    }
    const asked = { ...failed, retryAfterMs: 777, retryClass: "no_worker" as const };
    const retrying = applyResult(dispatched(), asked, null, at(1_000)) as Job;
    expect(retrying.wait).toMatchObject({ retryClass: "no_worker", untilMs: 1_777, setBy: "worker" });
  });

  test("an exhausted budget writes a dead letter with payload, reason and history", () => {
    let job = dispatched();
    let now = 10;
    while (!isFinal(job.state)) {
      const next = applyResult(job, failed, null, at(now)) as Job;
      now = next.dueMs;
      job = next.state === "RETRYING" ? dispatchJob(resumeJob(next, at(now)), at(now)) : next;
    }
    expect(job.state).toBe("FAILED");
    expect(job.attempt).toBe(8);
    const deadLetter = deadLetterOf(job);
    expect(deadLetter).toMatchObject({
      reason: "budget",
      error: { message: "boom" },
      source: { input: { value: { a: 1 } } },
    });
    expect(deadLetter?.history.length).toBe(8);
  });

  test.each(["rule", "step"])(
    "a worker that tried and failed has used a retry, whatever class it names: %s",
    (which) => {
      const constraints = { budgets: { maxRetries: 2 } };
      const few = { ...allow, effect: "allow_with_constraints", constraints } as const;
      const retry = { retriesMax: 2, initialMs: 1_000, maxMs: 60_000, multiplier: 2, jitter: "full" } as const;
      const step = { runId: "r", stepId: "s", kind: "worker", retry } as const;
      let now = 10;
      const answer = (job: Job, fields: Partial<JobResult>): Job => {
        const next = applyResult(job, { ...failed, retryAfterMs: 100, ...fields }, null, at(now)) as Job;
        now = next.dueMs;
        return next.state === "RETRYING" ? dispatchJob(resumeJob(next, at(now)), at(now)) : next;
      };
      let job: Job = which === "rule" ? { ...dispatched(), safety: few } : { ...dispatched(), step };
      // A returned job and an unavailable store use no budget.
      for (let waits = 0; waits < 10; waits++) {
        job = answer(job, { retryClass: waits < 5 ? "no_worker" : "store_unavailable", isWaiting: true });
      }
      job = answer(job, { retryClass: "store_unavailable" });
      job = answer(job, { retryClass: "no_worker" });
      expect(job).toMatchObject({ state: "DISPATCHED", failures: 2 });
      job = answer(job, { retryClass: "lock_busy" });
      expect(job).toMatchObject({ state: "FAILED", attempt: 13 });
      expect(deadLetterOf(job)).toMatchObject({ reason: "budget" });
    },
  );

  test("a rule's `max_retries` ends the job before its budget and restarts after a redrive", () => {
    const constraints = { budgets: { maxRetries: 1 } };
    const few = { ...allow, effect: "allow_with_constraints", constraints } as const;
    const live = (job: Job, fromMs: number): Job => {
      let now = fromMs;
      let next = dispatchJob(decideSafety(job, few, at(now)), at(now));
      while (!isFinal(next.state)) {
        now += 60_000;
        const answered = applyResult(next, failed, null, at(now)) as Job;
        next = answered.state === "RETRYING" ? dispatchJob(resumeJob(answered, at(now)), at(now)) : answered;
      }
      return next;
    };
    const first = live(fresh(), 1);
    expect(first).toMatchObject({ state: "FAILED", attempt: 2 });
    const second = live(redriveJob(first, "alice", at(1_000_000)) as Job, 1_000_000);
    expect(second).toMatchObject({ state: "FAILED", attempt: 4 });
  });

  test("a rule's `max_retries` does not depend on the history", () => {
    const budgets = { maxRetries: 1, maxConcurrentJobs: 1 };
    let job = decideSafety(fresh(), { ...allow, effect: "allow_with_constraints", constraints: { budgets } }, at(1));
    for (let attempts = 0; attempts < 2; attempts++) {
      expect(isFinal(job.state)).toBe(false);
      if (job.state === "RETRYING") job = resumeJob(job, at(2));
      for (let waits = 0; waits < HISTORY_MAX + 1; waits++) job = resumeJob(waitForRule(job, 1, at(2)), at(2));
      job = applyResult(dispatchJob(job, at(2)), failed, null, at(3)) as Job;
    }
    expect(job).toMatchObject({ state: "FAILED", attempt: 2 });
  });

  test("L2: a permanent failure ends the job with a dead letter", () => {
    const error = { name: "E", message: "never", retryNever: true } as const;
    const job = applyResult(dispatched(), { ...failed, status: "failed_fatal", error }, null, at(3)) as Job;
    expect(job.state).toBe("FAILED");
    expect(deadLetterOf(job)).toMatchObject({ reason: "permanent" });
  });

  test("L4: safety retries do not use the work's budget", () => {
    let job = fresh();
    for (let tries = 0; tries < 50; tries++) job = waitForSafety(job, "down", at(job.dueMs));
    expect(job.patience.unclassified).toBeUndefined();
    expect(job.history.length).toBe(HISTORY_MAX);
    const sent = dispatchJob(decideSafety(job, allow, at(job.dueMs)), at(job.dueMs));
    expect(sent.patience).toEqual({});
  });
});

describe("a queued job whose policy was replaced", () => {
  const approval = { by: "bob", atMs: 1, expiresMs: 9 } as unknown as NonNullable<Job["approval"]>;

  test("is checked again soon, without its verdict", () => {
    const again = recheckAfterPolicyChange(scheduled(), at(100));
    expect(again).toMatchObject({ state: "PENDING", safety: null, dueMs: 350, updatedMs: 100 });
    expect(again.history).toEqual(scheduled().history);
  });

  test("loses its approval, and the history says why", () => {
    const safety = { ...allow, effect: "require_approval" } as const;
    const again = recheckAfterPolicyChange({ ...scheduled(), safety, approval }, at(100));
    expect(again).toMatchObject({ state: "PENDING", safety });
    expect(again.approval).toBeUndefined();
    expect(again.history.at(-1)).toMatchObject({ event: "approval_void", atMs: 100 });
    expect(again.history).toHaveLength(scheduled().history.length + 1);
  });
});

describe("time", () => {
  test("an attempt is lost at its deadline, not before, and retried", () => {
    const job = dispatched();
    expect(expireJob(job, at(job.dueMs - 1))).toBeNull();
    expect(expireJob(job, at(job.dueMs))).toMatchObject({ state: "RETRYING", error: { name: "AttemptLost" } });
  });

  test("a lost attempt without retries left ends the job as TIMEOUT, a failed one as FAILED", () => {
    const constraints = { budgets: { maxRetries: 1 } };
    const limited = decideSafety(fresh(), { ...allow, effect: "allow_with_constraints", constraints }, at(1));
    const first = dispatchJob(limited, at(2));
    const retried = expireJob(first, at(first.dueMs)) as Job;
    expect(retried).toMatchObject({ state: "RETRYING", failures: 1 });
    const last = dispatchJob(resumeJob(retried, at(retried.dueMs)), at(retried.dueMs));
    const lost = expireJob(last, at(last.dueMs)) as Job;
    expect(lost).toMatchObject({ state: "TIMEOUT", failures: 2, attempt: 2, error: { name: "AttemptLost" } });
    expect(deadLetterOf(lost)).toMatchObject({ reason: "timeout" });
    expect(applyResult(last, failed, null, at(last.dueMs))).toMatchObject({ state: "FAILED", failures: 2 });
  });

  test("a redriven job has the times of a new one", () => {
    const ended = expireJob(scheduled(), at(scheduled().deadlineMs)) as Job;
    const nowMs = 5_000_000;
    const { deadlineMs, dueMs } = fresh(nowMs);
    expect(redriveJob(ended, "alice", at(nowMs))).toMatchObject({ state: "PENDING", deadlineMs, dueMs });
    expect(dueMs).toBe(nowMs + settings.dispatch.deadlineMs);
    const short = { ...settings, job: { ...settings.job, deadlineMs: 1_000 } };
    const soon = redriveJob(ended, "alice", { ...at(nowMs), settings: short });
    expect(soon).toMatchObject({ deadlineMs: nowMs + 1_000, dueMs: nowMs + 1_000 });
  });

  test("L39: a job past its deadline ends as TIMEOUT with a dead letter", () => {
    const job = expireJob(scheduled(), at(scheduled().deadlineMs)) as Job;
    expect(deadLetterOf(job)).toMatchObject({ reason: "timeout" });
  });

  test("a denial is final, with its reason and without a dead letter", () => {
    const job = decideSafety(fresh(), deny, at(1));
    expect(job).toMatchObject({ state: "DENIED", safety: { reason: "no" }, error: { message: "no" } });
    expect(deadLetterOf(job)).toBeNull();
  });

  test("an undelivered job returns to its place in the backlog", () => {
    const back = requeueJob(dispatched(), at(9));
    expect(JOBS.placement(back).queue).toEqual(JOBS.placement(scheduled()).queue);
    expect(back).toMatchObject({ patience: {}, attempt: 0 });
  });

  test("any sequence of events makes only legal transitions and keeps final states", () => {
    const event = fc.oneof(
      fc.constant({ kind: "time" as const }),
      fc.record({ kind: fc.constant("result" as const), ok: fc.boolean(), attempt: fc.integer({ min: 1, max: 4 }) }),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        let job = dispatched();
        for (const [index, happens] of events.entries()) {
          const context = at(job.dueMs + index);
          const before = job;
          if (happens.kind === "time") job = expireJob(job, context) ?? job;
          else
            job =
              applyResult(job, { ...(happens.ok ? succeeded : failed), attempt: happens.attempt }, null, context) ??
              job;
          if (isFinal(before.state)) expect(job).toBe(before);
          if (job.state === "RETRYING") job = dispatchJob(resumeJob(job, context), context);
        }
      }),
    );
  });
});
