// Transcripts of the workflow and run commands against a scripted gateway; see golden.test.ts.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { FakeResponse } from "../fake.ts";
import { Transcript } from "../transcript.ts";
import { type AskedWith, at, type RunFake, runAfter, startRunFake, WAITS, WORKFLOW } from "./run-fake.ts";

let dir: string;
let fake: RunFake;
let transcript: Transcript;
let second: number;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-runs-"));
  second = 2;
  fake = await startRunFake(answer);
  transcript = new Transcript(fake.env);
  transcript.name(dir, "<dir>");
});

afterEach(() => {
  fake.close();
  rmSync(dir, { recursive: true, force: true });
});

const ok = (body: object): FakeResponse => ({ status: 200, body });
const refused = (status: number, code: string, more: object = {}): FakeResponse => ({
  status,
  body: { code, status, title: code.replaceAll("_", " "), detail: "because", ...more },
});

/** Advances with `sleep`, so that a watched run ends. */
const change = {
  nowMs: () => Date.parse(at(second)),
  sleep: async () => {
    second += 1;
  },
};

test("workflows", async () => {
  const [good, bad] = [join(dir, "photos.yaml"), join(dir, "bad.yaml")];
  writeFileSync(good, "id: photos\n");
  writeFileSync(bad, "id: bad\n");
  await transcript.both(["workflow", "apply", good]);
  await transcript.both(["workflow", "apply", bad, good]);
  await transcript.run(["workflow", "apply", "-"], { stdin: "id: photos\n" });
  await transcript.run(["workflow", "apply", join(dir, "none.yaml")]);
  await transcript.both(["workflow", "get", "photos", "--version", "3"]);
  await transcript.both(["workflow", "get", "none"]);
  await transcript.both(["workflow", "list"]);
  await transcript.both(["workflow", "delete", "photos"]);
  await expect(transcript.text).toMatchFileSnapshot("../golden/workflows.txt");
});

test("runs", async () => {
  await transcript.both(["run", "start", "photos", "[1]", "--key", "k"]);
  await transcript.both(["run", "start", "photos", "--dry-run"]);
  await transcript.both(["run", "start", "none"]);
  await transcript.both(["run", "get", "r1"], { change });
  await transcript.both(["run", "get", "none"]);
  await transcript.both(["run", "list", "--state", "RUNNING"]);
  await transcript.both(["run", "list", "--state", "GONE"]);
  await transcript.both(["run", "timeline", "r1", "--limit", "3"]);
  await transcript.both(["run", "explain", "r1"]);
  for (const order of ["pause", "resume"]) await transcript.both(["run", order, "r1"]);
  const answer = ["run", "event", "r1", "answer"];
  await transcript.both([...answer, '{"ok":true}', "--correlation-key", "7", "--event-id", "e-1"]);
  await transcript.run([...answer, "--event-id", "e-2"]);
  await transcript.run([...answer, "--event-id", "e-3"]);
  await transcript.run([...answer, "{ok"]);
  await transcript.both(["run", "event", "none", "answer"]);
  await transcript.both(["run", "watch", "r1"], { change });
  await transcript.both(["run", "cancel", "r1", "--reason", "a mistake"]);
  await transcript.run(["run", "rerun", "r1"]);
  await transcript.both(["run", "rerun", "r1", "--from", "resize"]);
  await transcript.both(["run", "rerun", "r1", "--from", "resise"]);
  await expect(transcript.text).toMatchFileSnapshot("../golden/runs.txt");
});

function answer({ method, path, body }: AskedWith): FakeResponse {
  const [noun = "", id = "", verb = ""] = path.split("?")[0]?.slice(1).split("/") ?? [];
  if (id === "none") return refused(404, noun === "workflows" ? "workflow_not_found" : "run_not_found");
  const handle = ANSWERS[`${method} ${noun}${id === "" ? "" : "/ID"}${verb === "" ? "" : `/${verb}`}`];
  return handle?.(body) ?? refused(404, "route_not_found");
}

const STARTED = { run_id: "r1", workflow_id: "photos", version: 3, state: "RUNNING", replayed: false };
const { definition: _, created_by: __, ...LISTED } = WORKFLOW;
const LINE = { index: null, job_id: null, who: null, why: null, cause: null };

const ANSWERS: Readonly<Record<string, (body: AskedWith["body"]) => FakeResponse>> = {
  "POST workflows": ({ source, file }) => {
    const problems = [`${file}:1: a workflow needs \`steps\``];
    if (source.includes("bad")) return refused(400, "invalid_workflow", { problems, detail: problems.join("; ") });
    return ok({ workflow_id: "photos", version: 3, created: file !== "stdin" });
  },
  "GET workflows/ID": () => ok(WORKFLOW),
  "GET workflows": () => ok({ items: [{ ...LISTED, name: "Photos", updated_at: at(0) }], next_cursor: null }),
  "DELETE workflows/ID": () => ok({ workflow_id: "photos", deleted: true }),
  "POST workflows/ID/runs": ({ idempotency_key }) => ok({ ...STARTED, replayed: idempotency_key === "k" }),
  "POST workflows/ID/dry-run": () => {
    const decision = { decision: "ALLOW", rule_id: "rest", reason: "fine", snapshot: "0".repeat(64) };
    const one = { step_id: "fetch", type: "worker", topic: "demo.echo", depends_on: [], decision, unavailable: null };
    return ok({ workflow_id: "photos", version: 3, steps: [{ ...one, input: {}, input_known: true }] });
  },
  "GET workflow-runs": () => {
    const { input, output, steps, lock, ...listed } = runAfter(2);
    return ok({ items: [{ ...listed, step_counts: { SUCCEEDED: 2, RUNNING: 2 } }], next_cursor: null });
  },
  "GET workflow-runs/ID": () => ok(runAfter(second)),
  "GET workflow-runs/ID/explain": () => ok({ run_id: "r1", state: "RUNNING", waits: WAITS }),
  "GET workflow-runs/ID/timeline": () => {
    const first = { ...LINE, seq: 0, at: at(0), event: "run_started", who: "local" };
    const next = { ...LINE, seq: 1, at: at(0), event: "step_started", step_id: "fetch", cause: 0 };
    const child = { ...next, seq: 2, event: "child_failed", step_id: "resize", index: 7, why: "no disk", cause: 1 };
    return ok({ items: [first, next, child], next_cursor: "abc" });
  },
  "POST workflow-runs/ID/pause": () => ok({ run_id: "r1", state: "PAUSED" }),
  "POST workflow-runs/ID/events": ({ event_id, correlation_key }) => {
    const outcome = correlation_key === "7" ? "delivered" : event_id === "e-2" ? "kept" : "duplicate";
    return ok({ run_id: "r1", outcome, step_id: outcome === "delivered" ? "ask" : null });
  },
  "POST workflow-runs/ID/resume": () => ok({ run_id: "r1", state: "RUNNING" }),
  "POST workflow-runs/ID/cancel": ({ reason }) =>
    reason === "a mistake" ? ok({ run_id: "r1", state: "CANCELLED" }) : refused(409, "run_ended", { run_id: "r1" }),
  "POST workflow-runs/ID/rerun": ({ from_step }) =>
    from_step === "resize"
      ? ok({ ...STARTED, run_id: "r2", rerun_of: "r1", from_step })
      : refused(404, "step_not_found", { run_id: "r1", steps: ["resize"] }),
};
