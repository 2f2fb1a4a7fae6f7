// The exported types have the fields of the HTTP schemas, and the values are those of the routes.
import { describe, expect, test } from "vitest";
import {
  DEAD_LETTER,
  EXPLANATION,
  JOB,
  JOB_STATE_CHANGE,
  SUBMIT_RESPONSE,
} from "../../src/gateway/views/job-schemas.ts";
import { RUN_DETAIL, RUN_EXPLANATION, TIMELINE_LINE } from "../../src/gateway/views/run-schemas.ts";
import {
  createTestPlane,
  type DeadLetterView,
  type ExplanationView,
  type JobStateView,
  type JobSummary,
  type RunExplanationView,
  type RunView,
  type StepView,
  type SubmittedView,
  type TimelineLine,
} from "../../src/testing/index.ts";

type Fields<T> = Readonly<Record<keyof T & string, true>>;
const fields = <T>(known: Fields<Required<T>>): readonly string[] => Object.keys(known).sort();
const APPROVAL_FACTS = { submitter_can_approve: true, no_approver: true } as const;
const propertiesOf = (schema: object): readonly string[] =>
  Object.keys((schema as { readonly properties: object }).properties).sort();

describe("views", () => {
  test("the types have the fields of the HTTP schemas", () => {
    const job = fields<JobSummary>({
      record_version: true,
      ...{ job_id: true, id: true, topic: true, tenant_id: true, priority: true, labels: true, risk_tags: true },
      ...{ requires: true, capability: true, actor_id: true, actor_type: true, pack_id: true, submitted_by: true },
      ...{ caller: true, state: true, attempt: true, waits_for: true, wait: true, safety: true, approval: true },
      ...{ bypass: true, progress: true, trace_id: true, worker_id: true, created_at: true, updated_at: true },
      ...{ deadline_at: true, error: true },
    });
    expect(job).toEqual(propertiesOf(JOB));
    const run = fields<RunView>({
      record_version: true,
      ...{ run_id: true, workflow_id: true, version: true, state: true, tenant_id: true, created_at: true },
      ...{ updated_at: true, deadline: true, labels: true, error: true, trace_id: true, submitted_by: true },
      ...{
        actor_id: true,
        priority: true,
        ends_as: true,
        ends_with: true,
        compensation: true,
        parent: true,
        rerun_of: true,
        submitted_by_name: true,
        input: true,
        output: true,
      },
      ...{ payload_problems: true, steps: true, lock: true, schedule: true },
    });
    expect(run).toEqual(propertiesOf(RUN_DETAIL));
    const step = fields<StepView>({
      ...{
        state: true,
        type: true,
        compensation: true,
        depends_on: true,
        job_id: true,
        attempt: true,
        worker_id: true,
        sub_run_id: true,
      },
      ...{ started_at: true, ended_at: true, output: true, output_at: true, error: true, why: true, arm: true },
      ...{ arms: true, children: true, approval: true, awaits: true },
      ...{ loop: true, iteration: true, max_iterations: true },
    });
    const { steps } = RUN_DETAIL.properties as unknown as { steps: { patternProperties: Record<string, object> } };
    expect(step).toEqual(propertiesOf(Object.values(steps.patternProperties)[0] ?? {}));
    const letter = fields<DeadLetterView>({
      ...{ id: true, reason: true, source: true, tenant_id: true, created_at: true, error: true, job_id: true },
      ...{ topic: true, attempt: true, subject: true, message_id: true, deliveries: true, fingerprint: true },
    });
    expect(letter).toEqual(propertiesOf(DEAD_LETTER));
    const line = { seq: true, at: true, event: true, step_id: true, index: true, job_id: true } as const;
    expect(fields<TimelineLine>({ ...line, who: true, who_name: true, why: true, cause: true })).toEqual(
      propertiesOf(TIMELINE_LINE),
    );
    const submitted = { job_id: true, id: true, trace_id: true, state: true, replayed: true, status: true } as const;
    expect(
      fields<SubmittedView>({ ...submitted, reason: true, rule_id: true, expires_at: true, ...APPROVAL_FACTS }),
    ).toEqual(propertiesOf(SUBMIT_RESPONSE));
    const explanation = {
      job_id: true,
      state: true,
      wait: true,
      sentence: true,
      unblocks: true,
      approval: true,
      budgets: true,
      shadow: true,
      facts: true,
    } as const;
    expect(fields<ExplanationView>(explanation)).toEqual(propertiesOf(EXPLANATION));
    expect(fields<RunExplanationView>({ run_id: true, state: true, waits: true })).toEqual(
      propertiesOf(RUN_EXPLANATION),
    );
    expect(fields<JobStateView>({ job_id: true, id: true, state: true })).toEqual(propertiesOf(JOB_STATE_CHANGE));
  });

  test("requests are validated like those of HTTP", async () => {
    await using plane = await createTestPlane();
    await expect(plane.jobs.submit({ topic: "a.b", riks_tags: [] })).rejects.toMatchObject({
      code: "invalid_submission",
      message: expect.stringContaining("did you mean `risk_tags`?"),
    });
    await expect(plane.runs.start("missing")).rejects.toMatchObject({ code: "workflow_not_found", status: 404 });
    await expect(plane.jobs.submit({ topic: "a.b", input: 1n })).rejects.toMatchObject({ code: "invalid_options" });
  });
});
