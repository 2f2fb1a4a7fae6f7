import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  approvalBlock,
  approvalMismatch,
  approveJob,
  expireApproval,
  jobHashOf,
  rejectJob,
  requestApproval,
} from "../../../src/core/jobs/approval.ts";
import { applyResult } from "../../../src/core/jobs/attempt.ts";
import { cancelJob, redriveJob } from "../../../src/core/jobs/lifecycle.ts";
import { deadLetterOf } from "../../../src/core/model/dead-letter.ts";
import { isFinal, type Job } from "../../../src/core/model/job.ts";
import { allow, ask, asked, at, everyStage, fresh, limited, settings } from "./stages.ts";

const present = (job: Job, snapshot = "s") => ({ job, decision: { ...ask, snapshot } });
const approver = { by: "alice" };

describe("job hash of an approval (L34)", () => {
  test("differs if any field the approver decides about differs", () => {
    const base = { topic: "pay", input: { usd: 1 }, actorId: "a", labels: { team: "x" } };
    const changes: Record<string, unknown>[] = [
      { input: { usd: 82_000 } },
      { topic: "pay.now" },
      { org: "other" },
      { priority: "critical" },
      { capability: "c" },
      { riskTags: ["money"] },
      { requires: ["gpu"] },
      { labels: { team: "y" } },
      { labels: { team: "x", more: "z" } },
      { actorId: "b" },
      { actorType: "human" },
      { actorType: "service" },
      { packId: "p" },
    ];
    const hashes = [base, ...changes.map((change) => ({ ...base, ...change }))].map((facts) => jobHashOf(fresh(facts)));
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  test("different inputs have different hashes, inline or by pointer", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
        const hash = (input: unknown) => jobHashOf(fresh({ input }));
        fc.pre(one !== null && other !== null); // Null counts as no input.
        const isSame = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
        expect(hash(one) === hash(other)).toBe(isSame);
      }),
    );
    const kept = (sha256: string) => jobHashOf(fresh({}, { kind: "pointer", ptr: "ctx:j", bytes: 1, sha256 }));
    expect(kept("a")).not.toBe(kept("b"));
  });
});

describe("an approval", () => {
  test("schedules the unchanged job and records the approver", () => {
    const job = asked();
    const answer = approveJob(job, { by: "alice", note: "looked at it" }, present(job), at(5));
    expect(answer).toMatchObject({
      kind: "approved",
      job: { state: "SCHEDULED", approval: { decidedBy: "alice", decidedMs: 5 }, dueMs: job.deadlineMs },
    });
    expect(answer.kind === "approved" && answer.job.history.at(-1)).toMatchObject({
      event: "approved",
      who: "alice",
      why: "looked at it",
    });
  });

  test("is void if the job or the policy has changed", () => {
    const job = asked();
    const changed = { ...job, input: { kind: "inline", value: { a: 2 } } as const };
    for (const [now, why] of [
      [present(changed), "the job has changed"],
      [present(job, "s2"), "the policy has changed"],
      [{ job, decision: { ...ask, effect: "deny" as const } }, "no longer requires approval"],
    ] as const) {
      const answer = approveJob(job, approver, now, at(5));
      expect(answer).toMatchObject({ kind: "void", why: expect.stringContaining(why), job: { state: "PENDING" } });
      expect(answer.kind === "void" && answer.job.approval).toBeUndefined();
    }
  });

  test("rejects the submitter unless the rule allows it", () => {
    expect(approvalBlock(asked({ submittedBy: "alice" }), { by: "alice" }, 5)).toBe("own_job");
    expect(approvalBlock(asked({ submittedBy: "alice" }), { by: "bob" }, 5)).toBeNull();
    const terms = { approval: { expiresMs: null, bySubmitter: true } };
    expect(approvalBlock(asked({ submittedBy: "alice" }, terms), { by: "alice" }, 5)).toBeNull();
  });

  test("is used once and expires", () => {
    const job = asked({}, { approval: { expiresMs: 1_000, bySubmitter: false } });
    expect(approvalBlock(job, { by: "alice" }, 1_000)).toBeNull();
    expect(approveJob(job, approver, present(job), at(1_001))).toEqual({ kind: "expired" });
    const approved = approveJob(job, approver, present(job), at(5));
    expect(approved.kind === "approved" && approvalBlock(approved.job, { by: "bob" }, 6)).toBe("not_waiting");
  });

  test("expires at the job's deadline at the latest", () => {
    const long = { ...ask, approval: { expiresMs: settings.job.deadlineMs * 2, bySubmitter: false } };
    const job = requestApproval(fresh(), long, at(10));
    expect(job.approval?.expiresMs).toBe(job.deadlineMs);
    expect(job.dueMs).toBe(job.deadlineMs);
  });

  test("expiry writes a dead letter, rejection does not", () => {
    const expired = expireApproval(asked(), at(9));
    expect(expired).toMatchObject({ state: "TIMEOUT", error: { name: "ApprovalExpired" } });
    expect(deadLetterOf(expired)).toMatchObject({ reason: "timeout" });
    const refused = rejectJob(asked(), { by: "alice" }, "too much", at(9)) as Job;
    expect(refused).toMatchObject({
      state: "DENIED",
      error: { message: "too much" },
      approval: { decidedBy: "alice", note: "too much" },
    });
    expect(deadLetterOf(refused)).toBeNull();
    expect(rejectJob(refused, { by: "bob" }, "again", at(10))).toBeNull();
  });

  test("reports mismatches of hash and snapshot", () => {
    const { approval } = asked();
    if (!approval) throw new Error("not asked");
    expect(approvalMismatch(approval, {})).toBeNull();
    expect(approvalMismatch(approval, { jobHash: approval.jobHash, snapshot: "s" })).toBeNull();
    expect(approvalMismatch(approval, { jobHash: "other" })).toContain("`other`");
    expect(approvalMismatch(approval, { snapshot: "old" })).toContain("`old`");
  });
});

test("ignores results of jobs that were never sent", () => {
  for (const job of everyStage().filter(({ attempt }) => attempt === 0)) {
    const result = { jobId: "j", workerId: "w", status: "succeeded", output: 1 } as const;
    expect(applyResult(job, result, { kind: "inline", value: 1 }, at(5))).toBeNull();
  }
});

describe("cancel and redrive", () => {
  test("cancels any open job once", () => {
    for (const job of everyStage()) {
      const cancelled = cancelJob(job, "alice", "not needed", at(99)) as Job;
      expect(cancelled).toMatchObject({ state: "CANCELLED", error: { name: "Cancelled" } });
      expect(cancelled.history.at(-1)).toMatchObject({ event: "cancelled", who: "alice", why: "not needed" });
      expect(deadLetterOf(cancelled)).toBeNull();
      expect(cancelJob(cancelled, "bob", "again", at(100))).toBeNull();
      expect(redriveJob(cancelled, "bob", at(100))).toBeNull();
    }
  });

  test("a redrive resets retries, deadline and allow verdicts, and keeps other verdicts", () => {
    const ended = expireApproval(asked(), at(9));
    const redriven = redriveJob(ended, "alice", at(1_000)) as Job;
    expect(redriven).toMatchObject({ id: ended.id, state: "PENDING", safety: ask, error: null, patience: {} });
    for (const safety of [allow, limited]) {
      expect(redriveJob({ ...ended, safety }, "alice", at(1_000))?.safety).toBeNull();
    }
    expect(redriven.approval).toBeUndefined();
    expect(redriven.deadlineMs).toBe(1_000 + settings.job.deadlineMs);
    expect(redriven.history.at(-1)).toMatchObject({ event: "revived", who: "alice" });
    expect(isFinal(redriven.state)).toBe(false);
  });
});

/** Ignores key order; -0 and 0 are equal in JSON. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return fields.map(([name, item]) => [name, sorted(item)]).concat([["object"]]);
}
