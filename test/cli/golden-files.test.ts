// Transcripts of the commands that read files; see golden.test.ts.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { placesIn } from "../../src/cli/commands/completion.ts";
import { newContext } from "../../src/cli/context.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";
import { ioFor } from "./run.ts";
import { Transcript } from "./transcript.ts";

let dir: string;
let gateway: TestGateway;
let transcript: Transcript;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-golden-"));
  gateway = await openTestGateway();
  transcript = new Transcript({ CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) });
  transcript.name(dir, "<dir>");
});

afterEach(async () => {
  await gateway.close();
  rmSync(dir, { recursive: true, force: true });
});

const file = (name: string, text: string) => {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
};
const rule = (decision: string) => `rules:\n  - {id: r, match: {topics: [a.*]}, decision: ${decision}, reason: why}\n`;
const golden = (name: string) => `golden/${name}.txt`;

test("policies", async () => {
  const [allow, deny] = [file("allow.yaml", rule("allow")), file("deny.yaml", rule("deny"))];
  const requests = file("requests.json", '[{"topic":"a.b"},{"topic":"b.b"}]');
  await transcript.both(["policy", "check", allow]);
  await transcript.both(["policy", "check", file("bad.yaml", "rules: 7\n")]);
  await transcript.both(["policy", "list"]);
  await transcript.run(["policy", "publish", allow, "--note", "the first"]);
  await transcript.run(["policy", "publish", deny, "--json"]);
  await transcript.both(["policy", "list"]);
  await transcript.both(["policy", "diff", allow]);
  await transcript.both(["policy", "explain", "a.b", "--label", "k=v"]);
  await transcript.both(["policy", "simulate", requests, "--policy", allow]);
  const cases = "cases:\n  - {given: {topic: a.b}, expect: {decision: deny, rule: r}}\n";
  const tests = file("tests.yaml", cases);
  await transcript.both(["policy", "test", tests]);
  await transcript.both(["policy", "test", tests, "--policy", allow]);
  await transcript.run(["policy", "test", file("bad-tests.yaml", "cases:\n  - {given: {}, expect: {rule: r}}\n")]);
  await transcript.run(["policy", "test", file("odd-tests.yaml", cases.replace("a.b", "'a b'")), "--policy", allow]);
  await transcript.run(["policy", "publish", allow, "--require-tests", tests]);
  await transcript.run(["policy", "publish", deny, "--require-tests", tests]);
  await transcript.run(["job", "submit", "a.b"]);
  await transcript.both(["policy", "simulate", "--recorded", "--last", "24h", "--policy", allow]);
  await transcript.run(["policy", "simulate", "--recorded", "--policy", deny]);
  await transcript.run(["policy", "simulate"]);
  const dry = rule("deny").replace("why", "why, shadow: true");
  await transcript.run(["policy", "publish", file("dry.yaml", `${dry}  - {id: rest, match: {}, decision: allow}\n`)]);
  await transcript.run(["policy", "explain", "a.b", "--at", "2026-03-02T09:30:00Z"]);
  await gateway.call("POST", "/api/v1/jobs", { body: { topic: "a.b", job_id: "watched" } });
  const stateOf = async () => (await gateway.call("GET", "/api/v1/jobs/watched")).json().state;
  // Dispatched first, then returned because no worker responds.
  await expect.poll(stateOf).toBe("SCHEDULED");
  await transcript.both(["job", "explain", "watched"]);
  await transcript.run(["policy", "rollback", "--json"]);
  await transcript.both(["policy", "rollback", "nothing"]);
  await expect(transcript.text).toMatchFileSnapshot(golden("policy"));
});

test("schedules", async () => {
  const flow = file("flow.yaml", "id: report\nsteps: {wait: {type: delay, delay_sec: 600}}\n");
  const yearly = "id: yearly\nworkflow_id: report\ncron: '30 2 1 1 *'\ntime_zone: Europe/Berlin\n";
  await transcript.run(["schedule", "apply", file("early.yaml", yearly)]);
  await transcript.run(["workflow", "apply", flow]);
  await transcript.both(["schedule", "apply", file("yearly.yaml", yearly)]);
  await transcript.run([
    ...["schedule", "apply"],
    file(
      "bad.yaml",
      `- {id: a, workflow_id: report, cron: 0 0 30 2 *}\n- {id: b, workflow_id: report, every: 2h, paused: true}\n`,
    ),
  ]);
  await transcript.run(["schedule", "apply", file("broken.yaml", "id: [")]);
  await transcript.both(["schedule", "list"]);
  await transcript.both(["schedule", "trigger", "yearly", "--key", "k"]);
  await transcript.run(["schedule", "trigger", "yearly"]);
  await transcript.run(["schedule", "trigger", "yearly", "--overlap", "queue"]);
  await transcript.both(["schedule", "get", "yearly"]);
  await transcript.both(["schedule", "pause", "yearly", "--reason", "migration"]);
  await transcript.both(["schedule", "explain", "yearly"]);
  await transcript.both(["schedule", "resume", "yearly"]);
  await transcript.run(["schedule", "backfill", "yearly"]);
  await transcript.run(["schedule", "backfill", "yearly", "--from", "then"]);
  const range = ["--from", "2020-01-01T00:00:00Z", "--until", "2023-06-01T00:00:00Z", "--pace", "5s"];
  await transcript.run(["schedule", "backfill", "yearly", ...range]);
  await transcript.run(["schedule", "backfill", "yearly", ...range, "--json"]);
  await transcript.both(["schedule", "backfill", "yearly", "--cancel"]);
  await transcript.run(["schedule", "delete", "yearly"]);
  await transcript.run(["schedule", "delete", "b", "--json"]);
  await transcript.run(["schedule", "get", "yearly"]);
  await expect(transcript.text).toMatchFileSnapshot(golden("schedules"));
});

test("settings, backups and new projects", async () => {
  const config = file("cordum.yaml", "http: {port: 9999}\n");
  await transcript.both(["config", "explain", "http.port", "--config", config]);
  await transcript.both(["config", "explain", "http.prt"]);
  await transcript.both(["backup", join(dir, "copy"), "--data", join(dir, "none")]);
  const cluster = { env: { CORDUM_NATS_URL: "nats://127.0.0.1", CORDUM_REDIS_URL: "redis://127.0.0.1" } };
  await transcript.run(["backup", join(dir, "copy")], cluster);
  await transcript.both(["repair", join(dir, "none")]);
  await transcript.run(["completion", "tcsh", "--json"]);
  await transcript.run(["init", join(dir, "agents"), "--json"]);
  await transcript.both(["init", join(dir, "agents")]);
  await expect(transcript.text).toMatchFileSnapshot(golden("files"));
});

test("every command has a transcript", () => {
  const texts = new URL("golden/", import.meta.url);
  const lines = readdirSync(texts).flatMap((name) => readFileSync(new URL(name, texts), "utf8").split("\n"));
  const program = buildProgram(newContext(ioFor({}).io, "1.2.3", () => {}));
  const leaves = placesIn(program).filter(({ commands }) => commands.length === 0);
  const isShown = (path: string) =>
    lines.some((line) => line.startsWith(`$ cordum ${path} `) && line.endsWith("--json"));
  expect(leaves.map(({ path }) => path).filter((path) => !isShown(path))).toEqual(RUN_LONG);
});

/** Tested elsewhere. */
const RUN_LONG = ["up", "sim", "lab rollout", "lab chapter"];
