// The commands of the README section "Three curls" against the program that `npm start` runs.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cordum } from "../cli/run.ts";
import { Api } from "./api.ts";
import { Program } from "./program.ts";

let program: Program;
let dir: string;
let api: Api;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-readme-"));
  program = await Program.build();
  api = new Api(await program.up(["--demo", "--data", dir, "--port", "0"]).url);
});

afterAll(async () => {
  await program.stop();
  rmSync(dir, { recursive: true, force: true });
});

test("an allowed job succeeds, a denied one returns its rule, and an approved one succeeds", async () => {
  const [allowed, denied, asked, approve, show, ...rest] = commands();
  expect(rest).toEqual([]);

  const first = await curl(allowed);
  expect(first.status).toBe(200);
  expect(await api.ended(first.body.job_id, "SUCCEEDED")).toMatchObject({ result: { hello: "world" } });

  expect(await curl(denied)).toMatchObject({
    status: 403,
    body: { code: "denied", rule_id: "deny-demo-forbidden", detail: expect.stringContaining("forbids this topic") },
  });

  const waits = { job_id: "pay-5", state: "APPROVAL_REQUIRED", status: "approval_required" };
  expect(await curl(asked)).toMatchObject({ status: 200, body: waits });
  const env = { CORDUM_URL: api.url };
  expect(await cordum(argumentsOf(approve), env)).toMatchObject({ exitCode: 0 });
  expect(await api.ended("pay-5", "SUCCEEDED")).toMatchObject({ result: { amount: 5 } });
  const shown = await cordum(argumentsOf(show), env);
  expect(shown).toMatchObject({ exitCode: 0, out: expect.stringContaining("SUCCEEDED") });
});

/** The lines of the section's shell blocks. */
function commands(): readonly string[] {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const [, section = ""] = /\n## Three curls\n(.*?)\n## /s.exec(readme) ?? [];
  return [...section.matchAll(/```sh\n(.*?)```/gs)].flatMap(([, block = ""]) => block.trim().split("\n"));
}

/** Sends the request of a curl command. */
function curl(command: string | undefined) {
  const [, url = "", type = "", body = ""] =
    /^curl -s (\S+) -H "x-api-key: \$\(cat \.cordum\/token\)" -H 'content-type: (\S+)' -d '([^']*)'$/.exec(
      command ?? "",
    ) ?? [];
  expect(url).toBe("http://127.0.0.1:8081/api/v1/jobs");
  return api.send("/jobs", body, { "content-type": type });
}

function argumentsOf(command: string | undefined): readonly string[] {
  expect(command).toMatch(/^npx cordum /);
  return (command ?? "").split(" ").slice(2);
}
