import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { type FakeResponse, fakeTime, spread } from "../fake.ts";
import { cordum } from "../run.ts";
import { type RunFake, runAfter, startRunFake } from "./run-fake.ts";

let fake: RunFake;

afterEach(() => fake?.close());

const STARTED = { run_id: "r1", workflow_id: "photos", version: 3, state: "RUNNING", replayed: false };

/** Accepts the start, then shows the run after each of these seconds. */
async function open(
  seconds: readonly number[],
  end = "SUCCEEDED",
  before: readonly FakeResponse[] = [],
): Promise<void> {
  const [first, left] = [[...before], [...seconds]];
  fake = await startRunFake(({ method, path }) => {
    if (path.endsWith("/explain")) return { status: 200, body: { waits: [] } };
    if (method === "POST") return first.shift() ?? { status: 200, body: STARTED };
    return { status: 200, body: runAfter(left.shift() ?? 4, end) };
  });
}

const starts = () => fake.asked.filter(({ method }) => method === "POST").map(({ body }) => body);

describe("request", () => {
  test("sends the input, or none", async () => {
    await open([]);
    const ran = await cordum(["run", "start", "a/b"], fake.env);
    expect(ran).toMatchObject({ exitCode: 0, out: "r1\n", err: "" });
    expect(fake.asked).toEqual([{ method: "POST", path: "/workflows/a%2Fb/runs", body: { labels: {} } }]);
  });

  test("sends every flag; `--version` is the workflow version", async () => {
    await open([]);
    const flags = ["--key", "k", "--label", "a=b", "--label", "c=d", "--version", "2", "--priority", "batch"];
    const ran = await cordum(["run", "start", "photos", "[1]", ...flags, "--json"], fake.env);
    expect(JSON.parse(ran.out)).toEqual(STARTED);
    const labels = { a: "b", c: "d" };
    expect(starts()).toEqual([{ input: [1], labels, version: 2, priority: "batch", idempotency_key: "k" }]);
  });

  test("reads the input from a file or stdin, and rejects invalid JSON", async () => {
    const dir = mkdtempSync(join(tmpdir(), "cordum-input-"));
    const file = join(dir, "input.json");
    writeFileSync(file, '{"from":"file"}');
    await open([]);
    await cordum(["run", "start", "photos", `@${file}`], fake.env);
    await cordum(["run", "start", "photos", "-"], fake.env, '{"from":"stdin"}');
    expect(starts().map(({ input }) => input)).toEqual([{ from: "file" }, { from: "stdin" }]);
    const wrong = await cordum(["run", "start", "photos", "hello"], fake.env);
    expect(wrong).toMatchObject({ exitCode: 2 });
    expect(wrong.err).toContain("`hello` is not valid JSON");
    const gone = await cordum(["run", "start", "photos", `@${dir}/none`], fake.env);
    expect(gone).toMatchObject({ exitCode: 2 });
    expect(gone.err).toMatch(/cannot read input .*\nnext: cordum run start /);
    expect(starts()).toHaveLength(2);
    rmSync(dir, { recursive: true });
  });
});

describe("--wait", () => {
  test("prints the output, exits with 0 and prompts once per approval", async () => {
    await open([0, 1, 2, 3, 4]);
    const ran = await cordum(["run", "start", "photos", "--wait"], fake.env, "", fakeTime().io);
    expect(ran).toMatchObject({ exitCode: 0, out: '{\n  "tell": "done"\n}\n' });
    expect(ran.err).toBe(
      "step publish awaits approval\nnext: cordum approval approve r1:publish@1\nrun r1 SUCCEEDED after 4.0 s\n",
    );
  });

  test.each(["FAILED", "TIMEOUT", "CANCELLED"])("%s exits with 1, the error and the next command", async (end) => {
    await open([3, 4], end);
    const ran = await cordum(["run", "start", "photos", "--wait", "--json"], fake.env, "", fakeTime().io);
    expect(ran.exitCode).toBe(1);
    expect(JSON.parse(ran.out)).toMatchObject({ run_id: "r1", state: end });
    expect(ran.err).toBe(`run r1 ${end} after 4.0 s: no more disk\nnext: cordum run timeline r1\n`);
  });

  test("retries an unavailable start with the same idempotency key", async () => {
    const full = { status: 429, body: { code: "too_many_runs", title: "full", detail: "10 are open" } };
    await open([4], "SUCCEEDED", [{ ...full, headers: { "retry-after": "2" } }]);
    const { io, pauses } = fakeTime();
    expect(await cordum(["run", "start", "photos", "--wait"], fake.env, "", io)).toMatchObject({ exitCode: 0 });
    expect(pauses).toEqual([spread(2_000)]);
    const [one, two] = starts().map(({ idempotency_key }) => idempotency_key);
    expect(one).toMatch(/./);
    expect(two).toBe(one);
  });

  test("shows progress on a terminal", async () => {
    await open([0, 1, 2, 3, 4]);
    const ran = await cordum(["run", "start", "photos", "--wait"], fake.env, "", {
      ...fakeTime().io,
      isInteractive: true,
    });
    expect(ran.err).toContain("\rRUNNING, 4 of 5 steps, 3.0 s");
  });
});

test("--watch follows the run like `run watch`", async () => {
  await open([0, 4]);
  const ran = await cordum(["run", "start", "photos", "--watch"], fake.env, "", fakeTime().io);
  expect(ran.exitCode).toBe(0);
  expect(ran.out).toContain("  fetch  RUNNING\n");
  expect(ran.out.trim().split("\n").at(-1)).toBe("      4.0 s  run r1  SUCCEEDED");
});

describe("--dry-run", () => {
  const snapshot = "0".repeat(64);
  const decision = { decision: "DENY", rule_id: "no-mail", reason: "not at night", snapshot };
  const steps = [
    { step_id: "a", type: "worker", topic: "mail.send", depends_on: [], decision, input: [1], input_known: true },
    { step_id: "b", type: "notify", topic: null, depends_on: ["a"], decision: null, input: null, input_known: false },
  ];

  test("starts nothing and shows the policy decisions", async () => {
    fake = await startRunFake(() => ({ status: 200, body: { workflow_id: "photos", version: 3, steps } }));
    const ran = await cordum(["run", "start", "photos", "[1]", "--dry-run"], fake.env);
    expect(fake.asked).toEqual([{ method: "POST", path: "/workflows/photos/dry-run", body: { input: [1] } }]);
    expect(ran.out).toBe(
      "STEP  TYPE    TOPIC      DEPENDS ON  POLICY                         INPUT\n" +
        "a     worker  mail.send              DENY by no-mail: not at night  [1]\n" +
        "b     notify             a           not checked                    unknown before the run\n",
    );
    expect(ran).toMatchObject({ exitCode: 0, err: "dry run of workflow photos, version 3; no run was started\n" });
  });

  test("an unavailable kernel exits with 6", async () => {
    const silent = { ...steps[0], decision: null, unavailable: "timeout" };
    fake = await startRunFake(() => ({ status: 200, body: { workflow_id: "photos", version: 3, steps: [silent] } }));
    const ran = await cordum(["run", "rerun", "r1", "--from", "a", "--dry-run"], fake.env);
    expect(fake.asked[0]?.body).toEqual({ from_step: "a", dry_run: true });
    expect(ran.exitCode).toBe(6);
    expect(ran.out).toContain("unavailable: timeout");
    expect(ran.err).toContain("next: cordum doctor\n");
  });
});

describe("errors", () => {
  test.each([
    [404, { code: "workflow_not_found" }, 3, "cordum workflow list"],
    [422, { code: "idempotency_conflict", run_id: "r9" }, 4, "cordum run get r9"],
    [429, { code: "too_many_runs" }, 6, "cordum run list --state RUNNING"],
    [503, { code: "gate_unavailable" }, 6, "cordum doctor"],
    [400, { code: "invalid_run" }, 2, "cordum run start --help"],
    [403, { code: "forbidden" }, 5, "cordum key create --help"],
  ])("%d %j: exit %d, next: %s", async (status, facts, exitCode, next) => {
    fake = await startRunFake(() => ({ status, body: { title: "no", detail: "because", ...facts } }));
    const ran = await cordum(["run", "start", "photos"], fake.env);
    expect(ran).toMatchObject({ exitCode, err: `cordum: no: because\nnext: ${next}\n` });
    expect(fake.asked).toHaveLength(1);
  });

  test("the next command contains the job id of a step", async () => {
    const body = { code: "own_job", title: "no", detail: "because", job_id: "r1:ask@1" };
    fake = await startRunFake(() => ({ status: 403, body }));
    const ran = await cordum(["approval", "approve", "r1:ask@1"], fake.env);
    expect(ran).toMatchObject({ exitCode: 5, err: "cordum: no: because\nnext: cordum job explain r1:ask@1\n" });
  });

  test.each([
    ["run_ended", "cordum run get r1"],
    ["run_open", "cordum run explain r1"],
  ])("%s: exit 4, next: %s", async (code, next) => {
    fake = await startRunFake(() => ({ status: 409, body: { code, title: "no", detail: "because", run_id: "r1" } }));
    const ran = await cordum(["run", "cancel", "r1"], fake.env);
    expect(ran).toMatchObject({ exitCode: 4, err: `cordum: no: because\nnext: ${next}\n` });
  });
});
