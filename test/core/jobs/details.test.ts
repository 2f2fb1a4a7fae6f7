import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { jobHashOf } from "../../../src/core/jobs/approval.ts";
import { fingerprintOf } from "../../../src/core/jobs/idempotency.ts";
import { newJob, redriveJob } from "../../../src/core/jobs/lifecycle.ts";
import { checkSubmission, type Submission } from "../../../src/core/jobs/submission.ts";
import { resultDetailsOf } from "../../../src/core/model/job-details.ts";

const settings = defaultSettings();
const context = { nowMs: 1_000, settings, random: () => 0.5 };

function submissionWith(details: unknown): Submission {
  const checked = checkSubmission({ topic: "t", details });
  if (checked.kind === "bad") throw new Error(checked.problems.join("; "));
  return checked.submission;
}

const problemsOf = (details: unknown): readonly string[] => {
  const checked = checkSubmission({ topic: "t", details });
  return checked.kind === "bad" ? checked.problems : [];
};

const jobWith = (details: unknown) =>
  newJob(submissionWith(details), { jobId: "j", traceId: "t" }, { kind: "inline", value: 1 }, context);

const DETAILS = {
  adapterId: "gpt",
  env: { LOCALE: "de" },
  parentJobId: "p",
  workflowId: "wf",
  stepIndex: 3,
  memoryId: "repo:a/b",
  contextHints: { maxInputTokens: 9, allowRetrieval: true, tags: ["x"] },
  budget: { maxTotalTokens: 100, deadlineMs: 5_000 },
  compensation: { topic: "undo", priority: "critical", env: { A: "1" }, meta: { riskTags: ["net"] } },
};

describe("optional request fields", () => {
  test("are kept on the job", () => {
    expect(jobWith(DETAILS).details).toEqual(DETAILS);
  });

  test("are left out if empty, and so is `details`", () => {
    expect(jobWith({ adapterId: "", env: {}, stepIndex: 0, budget: { deadlineMs: 0 } })).not.toHaveProperty("details");
    expect(submissionWith(undefined)).not.toHaveProperty("details");
    expect(jobWith({ memoryId: "m", env: {} }).details).toEqual({ memoryId: "m" });
  });

  test("are part of the approval hash and of the idempotency fingerprint", () => {
    const other = { ...DETAILS, env: { LOCALE: "fr" } };
    expect(jobHashOf(jobWith(DETAILS))).not.toBe(jobHashOf(jobWith(other)));
    expect(fingerprintOf(submissionWith(DETAILS))).not.toBe(fingerprintOf(submissionWith(other)));
  });

  test.each([
    [{ env: { CORDUM_CONSTRAINTS: "{}" } }, "`CORDUM_CONSTRAINTS` is reserved"],
    [{ env: { run_id: "r" } }, "`run_id` is reserved"],
    [{ env: { A: "x".repeat(5_000) } }, "`env` must be"],
    [{ env: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`n${at}`, ""])) }, "`env` must be"],
    [{ adapterId: "x".repeat(257) }, "`adapterId` must be"],
    [{ stepIndex: -1 }, "`stepIndex` must be"],
    [{ budget: { deadlineMs: 2n ** 60n } }, "`budget.deadlineMs` must be"],
    [{ budget: { maxInputTokens: -5 } }, "`budget.maxInputTokens` must be"],
    [{ contextHints: { tags: ["x".repeat(300)] } }, "`contextHints.tags` must be"],
    [{ compensation: { topic: "a b" } }, "`compensation.topic` must be"],
    [
      { env: Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`n${at}`, "x".repeat(1_000)])) },
      "exceed 16384 characters",
    ],
  ])("beyond a limit are refused: %#", (details, problem) => {
    expect(problemsOf(details)).toEqual([expect.stringContaining(problem)]);
  });
});

describe("`budget.deadlineMs`", () => {
  test("limits the deadline of the job, also after a redrive", () => {
    const job = jobWith({ budget: { deadlineMs: 5_000 } });
    expect(job).toMatchObject({ deadlineMs: 6_000, dueMs: 6_000 });
    const again = redriveJob({ ...job, state: "FAILED" }, "ann", { ...context, nowMs: 10_000 });
    expect(again).toMatchObject({ deadlineMs: 15_000, dueMs: 15_000 });
  });

  test("does not extend the deadline", () => {
    expect(jobWith({ budget: { deadlineMs: Number.MAX_SAFE_INTEGER } }).deadlineMs).toBe(
      1_000 + settings.job.deadlineMs,
    );
  });
});

test("optional result fields are cut to their limits", () => {
  const base = { jobId: "j", workerId: "w", status: "failed" } as const;
  expect(resultDetailsOf(base)).toBeUndefined();
  const long = "x".repeat(5_000);
  const details = resultDetailsOf({
    ...base,
    executionMs: -4,
    errorCode: long,
    errorCodeEnum: 1_234,
    artifactPtrs: Array.from({ length: 100 }, () => long),
  });
  expect(details).toMatchObject({ executionMs: 0, errorCodeEnum: 1_234 });
  expect(details?.errorCode?.length).toBe(256);
  expect(details?.artifactPtrs?.length).toBe(64);
  expect(details?.artifactPtrs?.[0]?.length).toBe(1_024);
  const internal = ["redis://cordum:payload:default/job/j/0", "s3://b/a"];
  expect(resultDetailsOf({ ...base, artifactPtrs: internal })).toEqual({ artifactPtrs: ["s3://b/a"] });
});

test("pointers to payloads of the control plane are not shown as artifacts", () => {
  const own = "redis://127.0.0.1/cordum:payload:acme/job/j/0";
  const result = {
    jobId: "j",
    workerId: "w",
    status: "succeeded",
    artifactPtrs: [own, "res:j/a", "s3://b/c"],
  } as const;
  expect(resultDetailsOf(result)).toEqual({ artifactPtrs: ["res:j/a", "s3://b/c"] });
});
