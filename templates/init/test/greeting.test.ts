import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { http, worker } from "cordum/worker";
import { handle, TOPICS } from "../src/greeting.js";
import { ControlPlane } from "./control-plane.js";

let plane: ControlPlane;
let stop: (() => Promise<void>) | undefined;

before(async () => {
  plane = await ControlPlane.start();
  const { url, apiKey } = plane;
  stop = await worker({ topics: TOPICS, handle, transport: http({ url, apiKey, waitMs: 1_000 }) });
});

after(async () => {
  await stop?.();
  await plane?.stop();
});

test("the handler greets", async () => {
  assert.deepEqual(await handle({ input: { name: "Ada" } }), { text: "Hello, Ada!" });
});

test("the handler rejects an input without a name", async () => {
  await assert.rejects(handle({ input: {} }), /`name` must be a text/);
});

test("the workflow ends with the greeting", async () => {
  const run = await plane.run("greeting", { name: "Ada" });
  assert.equal(run.state, "SUCCEEDED");
  assert.equal(run.output, "Hello, Ada!");
});

test("the policy denies deletes and topics without a rule", async () => {
  const denied = await plane.send("/jobs", { topic: "greeting.delete" });
  assert.equal(denied.status, 403);
  assert.equal(denied.body.rule_id, "no-deletes");
  assert.equal((await plane.send("/jobs", { topic: "mail.send" })).status, 403);
});
