import { describe, expect, test } from "vitest";
import { createTestPlane } from "../../src/testing/index.ts";

const ONBOARDING = `
id: onboarding
timeout_sec: 2592000
steps:
  welcome: { topic: mail.send, input: { text: welcome } }
  wait: { type: delay, delay_sec: 1209600, depends_on: [welcome] }
  ask: { type: approval, reason: "keep the account?", timeout_sec: 2592000, depends_on: [wait] }
  rest: { type: delay, delay_sec: 1288000, depends_on: [ask] }
  notify: { topic: mail.send, depends_on: [rest], input: { text: "approved by \${steps.ask.output.approved_by}" } }
output: \${steps.notify.output}
`;

describe("workflows on virtual time", () => {
  test("a workflow of 30 days runs in a few thousand events", async () => {
    const sent: string[] = [];
    await using plane = await createTestPlane({
      workflows: [ONBOARDING],
      workers: {
        "mail.send": async ({ input, now }) => {
          sent.push(`${now().toISOString().slice(0, 10)} ${(input as { text: string }).text}`);
          return sent.length;
        },
      },
      startAt: "2026-03-01T12:00:00Z",
    });
    const run = await plane.runs.start("onboarding", {});
    await plane.settle();
    const [asked] = await plane.approvals.list();
    expect(asked).toMatchObject({ reason: "keep the account?" });
    await plane.advance("1d");
    await plane.approvals.approve(asked?.job_id ?? "", { by: "alice" });
    const ended = await run.finished();
    expect(ended).toMatchObject({ state: "SUCCEEDED", output: 2, steps: { ask: { state: "SUCCEEDED" } } });
    expect(sent).toEqual(["2026-03-01 welcome", "2026-03-31 approved by alice"]);
    expect(plane.now.toISOString().slice(0, 10)).toBe("2026-03-31");
    // Every second of 30 days would be millions.
    expect(plane.stats.events).toBeLessThan(50_000);
  });

  test("finished explains what a run waits for", async () => {
    await using plane = await createTestPlane({ workflows: [ONBOARDING] });
    const run = await plane.runs.start("onboarding");
    await expect(run.finished()).rejects.toMatchObject({
      code: "blocked",
      message: expect.stringMatching(/step welcome: .*mail\.send/s),
    });
    await plane.advance("25h");
    expect(await run.finished()).toMatchObject({ state: "FAILED", steps: { welcome: { state: "TIMEOUT" } } });
  });

  test("an approval blocks, expires in virtual time, and can be rejected", async () => {
    const source = "id: ask\nsteps:\n  ask: { type: approval, reason: why, timeout_sec: 3600 }";
    await using plane = await createTestPlane({ workflows: [source] });
    const late = await plane.runs.start("ask");
    await expect(late.finished()).rejects.toMatchObject({ code: "blocked" });
    await plane.advance("61m");
    expect(await late.get()).toMatchObject({ state: "FAILED", steps: { ask: { state: "TIMEOUT" } } });
    const rejected = await plane.runs.start("ask");
    await plane.settle();
    const [{ job_id } = { job_id: "" }] = await plane.approvals.list();
    await expect(plane.approvals.approve(job_id, { by: "tester" })).rejects.toMatchObject({ code: "own_job" });
    await plane.approvals.reject(job_id, { by: "bob", reason: "no" });
    expect(await rejected.finished()).toMatchObject({ state: "FAILED" });
  });

  test("for_each runs one handler per item", async () => {
    await using plane = await createTestPlane({
      workflows: [
        {
          id: "squares",
          steps: { each: { topic: "math.square", for_each: "${input.items}", input: { n: "${item}" } } },
          output: "${steps.each.output}",
        },
      ],
      workers: { "math.square": ({ input }) => (input as { n: number }).n ** 2 },
    });
    const run = await plane.runs.start("squares", { items: [1, 2, 3, 4] });
    expect(await run.finished()).toMatchObject({
      state: "SUCCEEDED",
      output: [1, 4, 9, 16],
      steps: { each: { children: { count: 4, succeeded: 4 } } },
    });
  });

  test("a sub-workflow is a run of its own, and blocks its parent", async () => {
    await using plane = await createTestPlane({
      workflows: [
        "id: outer\nsteps:\n  inner: { type: subworkflow, workflow: inner, input: { name: Ann } }\noutput: ${steps.inner.output}",
        "id: inner\nsteps:\n  ask: { type: approval, reason: ok }\n  say: { topic: say.hello, depends_on: [ask] }\noutput: ${steps.say.output}",
      ],
      workers: { "say.hello": ({ input }) => `hello ${(input as { name: string }).name}` },
    });
    const run = await plane.runs.start("outer");
    await expect(run.finished()).rejects.toMatchObject({ code: "blocked" });
    const { steps } = await run.get();
    const inner = plane.runs.get(steps.inner?.sub_run_id ?? "");
    expect(await inner.get()).toMatchObject({ workflow_id: "inner", parent: { run_id: run.id } });
    const [asked] = await plane.approvals.list();
    await plane.approvals.approve(asked?.job_id ?? "");
    expect(await run.finished()).toMatchObject({ state: "SUCCEEDED", output: "hello Ann" });
  });

  test("a paused run blocks until it is resumed, and a cancelled one ends", async () => {
    await using plane = await createTestPlane({
      workflows: [
        "id: slow\nsteps:\n  wait: { type: delay, delay_sec: 60 }\n  last: { type: notify, message: done, depends_on: [wait] }",
      ],
    });
    const run = await plane.runs.start("slow");
    await run.pause("lunch");
    await plane.advance("2m");
    await expect(run.finished()).rejects.toMatchObject({ code: "blocked", message: expect.stringContaining("paused") });
    await run.resume();
    expect(await run.finished()).toMatchObject({ state: "SUCCEEDED" });
    const other = await plane.runs.start("slow");
    await other.cancel("not any more");
    expect(await other.finished()).toMatchObject({ state: "CANCELLED" });
    expect((await other.timeline()).map(({ event }) => event)).toContain("run_cancelled");
    const again = await run.rerun("wait");
    expect(await again.finished()).toMatchObject({ rerun_of: { run_id: run.id } });
    expect(await plane.runs.list({ state: "SUCCEEDED" })).toHaveLength(2);
  });

  test("invalid definitions, policies and settings are rejected with every problem", async () => {
    const workflow = "id: x\nsteps:\n  a: { topic: t, depends_on: [b] }\n  c: { typ: delay }";
    await expect(createTestPlane({ workflows: [workflow] })).rejects.toMatchObject({
      code: "invalid_workflow",
      status: 400,
      problems: expect.arrayContaining([expect.stringContaining("workflow:3"), expect.stringContaining("workflow:4")]),
    });
    await expect(createTestPlane({ policy: "rules: 7" })).rejects.toMatchObject({ code: "invalid_policy" });
    await expect(createTestPlane({ config: { limits: { max_concurrent_rnus: 1 } } })).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringContaining("max_concurrent_runs"),
    });
    await expect(createTestPlane({ workflows: [{ file: "missing.yaml" }] })).rejects.toThrow("missing.yaml");
    await expect(createTestPlane({ fautls: "lite" } as object)).rejects.toThrow("unknown option `fautls`");
    await expect(createTestPlane({ limits: { jobs: -1 } })).rejects.toThrow("`limits.jobs`");
  });
});

test("a run waits for an event, which a test sends", async () => {
  const ask = { type: "wait", event: "answer", correlate: "input.ticket", timeout_sec: 3_600 };
  await using plane = await createTestPlane({ workflows: [{ id: "asks", steps: { ask } }] });
  const run = await plane.runs.start("asks", { ticket: 7 });
  await expect(run.finished()).rejects.toThrow("waiting for event `answer` with correlation key `7`");
  expect(await run.event("answer", "no", { correlation_key: 8 })).toMatchObject({ outcome: "kept" });
  expect(await run.event("answer", "yes", { correlation_key: 7 })).toMatchObject({ step_id: "ask" });
  expect(await run.finished()).toMatchObject({ state: "SUCCEEDED", output: { ask: "yes" } });
  const late = await plane.runs.start("asks", { ticket: 7 });
  await plane.advance("2h");
  expect(await late.get()).toMatchObject({ state: "FAILED", error: { name: "DeadlineExceeded" } });
});
