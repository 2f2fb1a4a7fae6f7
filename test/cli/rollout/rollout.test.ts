import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";
import { Transcript } from "../transcript.ts";

let gateway: TestGateway;
let transcript: Transcript;
const directory = mkdtempSync(join(tmpdir(), "cordum-rollout-"));

beforeAll(async () => {
  gateway = await openTestGateway();
  transcript = new Transcript({ CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) });
});

afterAll(async () => {
  rmSync(directory, { recursive: true, force: true });
  await gateway.close();
});

test("starts, shows, promotes and rolls back a rollout", async () => {
  await transcript.run(["rollout", "status"]);
  await transcript.run(["rollout", "start", "lock_busy", "--policy", "fixed:2s"]);
  await transcript.run(["rollout", "start", "lock_busy", "--policy", "fixed:2s", "--share", "a tenth"]);
  await transcript.run(["rollout", "start", "lock_busy", "--policy", "fixed:2s", "--share", "100%"]);
  await transcript.run(["rollout", "start", "lock_busy", "--policy", "fixed:2s", "--share", "10%", "--gate", "p95<1"]);
  await transcript.run(["rollout", "start", "lock_busy", "--policy", "fixed:2s", "--share", "10%,30%", "--dry-run"]);
  await transcript.run(["rollout", "start", "lock_busy", "--policy", "fixed:2s", "--share", "10%,30%", "--for", "24h"]);
  await transcript.run(["rollout", "start", "lock_busy", "--policy", "fixed:1s", "--share", "10%"]);
  await transcript.both(["rollout", "list"]);
  await transcript.both(["rollout", "status"]);
  await transcript.run(["rollout", "promote", "R1"]);
  await transcript.run(["rollout", "pause", "R1"]);
  await transcript.run(["rollout", "resume", "R1", "--json"]);
  await transcript.run(["rollout", "pause", "R1", "--json"]);
  await transcript.run(["rollout", "promote", "R1", "--force", "--reason", "measured on the staging cluster"]);
  const explained = await transcript.run(["config", "explain", "retry.lock_busy.policy"]);
  expect(explained.out).toContain("fixed:2s (rollout R1, promoted by local)");
  await transcript.run(["rollout", "promote", "R1", "--json"]);
  await transcript.run(["rollout", "rollback", "R1", "--reason", "latency"]);
  await transcript.run(["rollout", "end", "R1", "--json"]);
  await transcript.run(["rollout", "status", "R1", "--watch"]);
  await transcript.both(["rollout", "show", "R9"]);
  await transcript.run(["rollout", "start", "no_worker", "--policy", "fixed:1s", "--share", "50%", "--json"]);
  await transcript.run(["rollout", "rollback", "R2", "--json"]);
  transcript.name(directory, "<dir>");
  await transcript.both(["rollout", "export", "R1", join(directory, "ticket")]);
  await expect(transcript.text).toMatchFileSnapshot("../golden/rollouts.txt");
});

test("exports a page without scripts and the figures as JSON", async () => {
  const exported = await transcript.run(["rollout", "export", "R1", join(directory, "ticket"), "--json"]);
  const [page = "", data = ""] = JSON.parse(exported.out).files;
  const html = readFileSync(page, "utf8");
  expect(html).toContain("<h1>Rollout R1: lock_busy, bounded:500ms:0.3 → fixed:2s</h1>");
  expect(html).not.toMatch(/<script|https?:\/\//);
  expect(JSON.parse(readFileSync(data, "utf8"))).toMatchObject({ id: "R1", state: "rolled_back" });
});
