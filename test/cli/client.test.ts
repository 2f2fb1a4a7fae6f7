import { afterEach, describe, expect, test } from "vitest";
import { placesIn } from "../../src/cli/commands/completion.ts";
import { newContext } from "../../src/cli/context.ts";
import { exitCodeForStatus, NEXT } from "../../src/cli/exit.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { ERRORS } from "../../src/core/model/errors.ts";
import { type FakeGateway, type FakeResponse, fakeTime, spread, startFake } from "./fake.ts";
import { cordum, ioFor } from "./run.ts";

let fake: FakeGateway;

afterEach(() => fake?.close());

const program = buildProgram(newContext(ioFor({}).io, "1.2.3", () => {}));
const COMMANDS = placesIn(program).map(({ path }) => path);

/** Whether the text starts with an existing command. */
function isCommand(next: string): boolean {
  if (/^(export CORDUM_API_KEY=KEY|unset CORDUM_TENANT)$/.test(next)) return true;
  const words = next.replace(/^cordum /, "").split(" ");
  return next.startsWith("cordum ") && [1, 2].some((count) => COMMANDS.includes(words.slice(0, count).join(" ")));
}

describe("errors", () => {
  test.each(Object.entries(ERRORS))("%s has an exit code and an existing next command", async (code, spec) => {
    const body = { ...spec, code, detail: "because", job_id: "j1" };
    fake = await startFake(() => ({ status: spec.status, body }));
    const ran = await cordum(["job", "get", "j1", "--json"], fake.env);
    expect(ran.exitCode).toBe(exitCodeForStatus(spec.status));
    const document = JSON.parse(ran.out);
    expect(document).toMatchObject({ code, exit_code: ran.exitCode });
    expect(document.next).toSatisfy(isCommand);
    expect(ran.err).toBe(`cordum: ${spec.title}: because\nnext: ${document.next}\n`);
    expect(fake.requests).toHaveLength(1);
  });

  test("next commands exist for known error codes only", () => {
    expect(Object.keys(NEXT).filter((code) => !(code in ERRORS))).toEqual([]);
  });

  test("ids that need quoting are not put into commands", async () => {
    const body = { code: "own_job", title: "no", detail: "no", job_id: "x; rm -rf ~" };
    fake = await startFake(() => ({ status: 403, body }));
    const ran = await cordum(["approval", "approve", "x"], fake.env);
    expect(ran).toMatchObject({ exitCode: 5 });
    expect(ran.err).toContain("next: cordum job list\n");
  });
});

test("sends the key, the tenant and the encoded id", async () => {
  fake = await startFake(() => ({ status: 404, body: { code: "job_not_found" } }));
  const env = { ...fake.env, CORDUM_API_KEY: "secret", CORDUM_TENANT: "acme" };
  await cordum(["job", "cancel", "a/b?c"], env);
  expect(fake.requests[0]).toMatchObject({ method: "POST", path: "/jobs/a%2Fb%3Fc/cancel" });
  expect(fake.requests[0]?.headers).toMatchObject({ "x-api-key": "secret", "x-tenant-id": "acme" });
});

describe("unavailable", () => {
  const LATER: FakeResponse = { status: 503, body: { code: "store_unavailable", title: "later", detail: "not now" } };
  const job = (state: string) => ({ job_id: "j1", state, attempt: 1, error: null, wait: null, result: 7 });
  const script = (answers: readonly FakeResponse[]) => {
    const left = [...answers];
    return () => left.shift() ?? { status: 500, body: {} };
  };

  test("fails without --wait and does not retry", async () => {
    fake = await startFake(() => ({ ...LATER, headers: { "retry-after": "2" } }));
    const ran = await cordum(["job", "submit", "a.b", "--json"], fake.env);
    expect(ran.exitCode).toBe(6);
    expect(JSON.parse(ran.out)).toMatchObject({ retry_after_ms: 2_000, next: "cordum doctor" });
    expect(fake.requests).toHaveLength(1);
  });

  test("--wait retries after Retry-After with one idempotency key", async () => {
    fake = await startFake(
      script([
        { ...LATER, body: { ...LATER.body, retry_after_ms: 1_234 } },
        { ...LATER, status: 429, headers: { "retry-after": "3" } },
        { status: 200, body: { job_id: "j1", state: "PENDING" } },
        { ...LATER, headers: { "retry-after": "1" } },
        { status: 200, body: job("RUNNING") },
        { status: 200, body: job("SUCCEEDED") },
      ]),
    );
    const { io, pauses } = fakeTime();
    const ran = await cordum(["job", "submit", "a.b", "--wait"], fake.env, "", io);
    expect(ran).toMatchObject({ exitCode: 0, out: "7\n" });
    expect(pauses.slice(0, 3)).toEqual([spread(1_234), spread(3_000), spread(1_000)]);
    const keys = fake.requests
      .filter(({ method }) => method === "POST")
      .map(({ headers }) => headers["idempotency-key"]);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
  });

  test("--timeout limits the wait", async () => {
    fake = await startFake(() => ({ ...LATER, headers: { "retry-after": "60" } }));
    const { io, pauses } = fakeTime();
    const ran = await cordum(["job", "submit", "a.b", "--wait", "--timeout", "30s"], fake.env, "", io);
    expect(ran.exitCode).toBe(6);
    expect(pauses).toEqual([]);
  });

  test("--wait prompts once for an approval; progress is shown on a terminal only", async () => {
    const states = ["APPROVAL_REQUIRED", "APPROVAL_REQUIRED", "RUNNING", "RUNNING", "DENIED"];
    const answers = [...states.map((state) => ({ status: 200, body: job(state) }))];
    fake = await startFake(script([{ status: 200, body: { job_id: "j1", state: "PENDING" } }, ...answers]));
    const { io } = fakeTime();
    // One second per poll, so that progress is shown.
    const slow = { ...io, sleep: () => io.sleep(1_000), isInteractive: true };
    const ran = await cordum(["job", "submit", "a.b", "--wait"], fake.env, "", slow);
    expect(ran.exitCode).toBe(5);
    expect(ran.err.split("next: cordum approval approve j1")).toHaveLength(2);
    expect(ran.err).toContain("\rRUNNING, 1 attempt, 2 s");
    fake.close();
    fake = await startFake(script([{ status: 200, body: { job_id: "j1" } }, ...answers]));
    const piped = await cordum(["job", "submit", "a.b", "--wait"], fake.env, "", { ...slow, isInteractive: false });
    expect(piped.err).not.toContain("\r");
  });
});

test("escapes control characters of jobs", async () => {
  const evil = "\u001b]0;owned\u0007\u001b[2Jgone\nJOB  fake\u202e";
  const deadLetter = { id: "l1", reason: "permanent", topic: "a.b", created_at: "now", error: { message: evil } };
  fake = await startFake(() => ({ status: 200, body: { items: [deadLetter], next_cursor: null } }));
  const listed = await cordum(["dlq", "list"], fake.env);
  expect(listed.out).toBe(
    "ID  REASON     TOPIC  CREATED  ERROR\n" +
      "l1  permanent  a.b    now      \\u001b]0;owned\\u0007\\u001b[2Jgone\\nJOB  fake\\u202e\n",
  );
  fake.close();
  fake = await startFake(() => ({ status: 403, body: { code: "denied", title: "no", detail: evil } }));
  const refused = await cordum(["job", "submit", "a.b"], fake.env);
  expect(refused.err).not.toContain("\u001b");
});
