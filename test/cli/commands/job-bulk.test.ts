import { afterAll, beforeAll, expect, test } from "vitest";
import { startDemoWorker } from "../../../src/cli/up/demo.ts";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";
import { cordum } from "../run.ts";

let gateway: TestGateway;
let stopWorker: () => Promise<void>;
const env = { CORDUM_URL: "" };

beforeAll(async () => {
  gateway = await openTestGateway();
  env.CORDUM_URL = await gateway.server.listen("127.0.0.1", 0);
});
afterAll(async () => {
  await stopWorker?.();
  await gateway.close();
});

const json = async (...args: readonly string[]) => JSON.parse((await cordum([...args, "--json"], env)).out);
const submit = (topic: string, ...flags: readonly string[]): Promise<{ readonly job_id: string }> =>
  json("job", "submit", topic, "1", ...flags);

test("L50: `job cancel` with filters cancels what `job list` shows, after a dry run", async () => {
  for (let n = 0; n < 3; n++) await submit("far", "--label", "team=a");
  const other = await submit("far", "--label", "team=b");
  const filter = ["--topic", "far", "--label", "team=a"];
  const listed = await json("job", "list", ...filter);
  expect(listed.items).toHaveLength(3);
  const dry = await cordum(["job", "cancel", ...filter, "--dry-run"], env);
  expect(dry.out).toContain("3 jobs matched");
  expect(dry.err).toContain("job cancel --topic far --label team=a");
  const ran = await json("job", "cancel", ...filter, "--reason", "wrong price", "--rate", "1000/s");
  expect(ran).toMatchObject({ action: "cancel", matched: 3, done: 3, rejected: [], next: null });
  expect((await json("job", "list", ...filter, "--state", "CANCELLED")).items).toHaveLength(3);
  expect((await json("job", "get", other.job_id)).state).not.toBe("CANCELLED");
});

test("`job retry` retries one job or those of a query", async () => {
  stopWorker = await startDemoWorker(gateway.world);
  const ids: string[] = [];
  for (let n = 0; n < 2; n++) ids.push((await submit("demo.broken", "--wait")).job_id);
  expect((await cordum(["job", "retry", ids[0] ?? ""], env)).out).toMatch(/^job \S+ retried, state [A-Z]+\n$/);
  await expect.poll(async () => (await json("dlq", "list")).items.length).toBe(2);
  const ran = await json("job", "retry", "--topic", "demo.broken", "--rate", "1000/s");
  expect(ran).toMatchObject({ matched: 2, done: 2, rejected: [] });
});

test.each([
  [["job", "cancel"], "missing job id, filter or --all"],
  [["job", "cancel", "a", "--state", "RUNNING"], "an id excludes --all and filters"],
  [["job", "retry"], "missing job id, filter or --all"],
])("%j is a usage error", async (args, message) => {
  const ran = await cordum(args, env);
  expect(ran.exitCode).toBe(2);
  expect(ran.err).toContain(message);
});
