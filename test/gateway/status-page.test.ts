// The script of the status page, run on a document that is just enough of one: what it makes of answers, and of refusals.

import { expect, test } from "vitest";
import { PAGE } from "../../src/gateway/status-page/status-page.ts";
import { SCRIPT } from "../../src/gateway/status-page/status-page-script.ts";
import { openTestGateway } from "./open.ts";

class Element {
  readonly children: Element[] = [];
  readonly dataset: Record<string, string> = {};
  readonly listeners = new Map<string, (event: object) => void>();
  textContent = "";
  className = "";
  hidden = false;
  value = "";

  append(...items: Element[]): void {
    this.children.push(...items);
  }

  replaceChildren(...items: Element[]): void {
    this.children.splice(0, this.children.length, ...items);
  }

  addEventListener(name: string, listener: (event: object) => void): void {
    this.listeners.set(name, listener);
  }

  get text(): string {
    return [this.textContent, ...this.children.map((child) => child.text)].filter(Boolean).join(" ");
  }
}

/** Runs the script; `ask` answers its requests. Elements that the page does not have are refused. */
function openPage(ask: (url: string, headers: Readonly<Record<string, string>>) => Promise<Response>) {
  const elements = new Map([...PAGE.matchAll(/id="([\w-]+)"/g)].map((match) => [match[1] ?? "", new Element()]));
  const asked: string[] = [];
  const timers: (() => void)[] = [];
  const document = { getElementById: (id: string) => elements.get(id), createElement: () => new Element() };
  const fetch = async (url: string, options: { headers: Readonly<Record<string, string>> }) => {
    asked.push(url);
    return ask(url, options.headers);
  };
  const run = new Function("document", "fetch", "setInterval", "setTimeout", SCRIPT);
  run(
    document,
    fetch,
    (fn: () => void) => timers.push(fn),
    () => {},
  );
  const at = (id: string): Element => elements.get(id) ?? new Element();
  return { at, asked, timers };
}

const EVENT =
  'event: job\ndata: {"job_id":"j1","topic":"demo.echo","state":"SUCCEEDED","at":"2030-01-01T10:20:30.456Z"}\n\n';

const RUN_EVENT =
  'event: run\ndata: {"run_id":"r1","workflow_id":"order","state":"PAUSED","at":"2030-01-01T10:20:31.456Z"}\n\n';

/** Resolves when what is asked for holds; tried after everything that is under way. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

test("shows what status says, with units and what each number means", async () => {
  const gateway = await openTestGateway();
  await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.approve" } });
  await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.nobody" } });
  gateway.engine.registry.record(
    { id: "w<1>", transport: "http", topics: ["demo.echo"], maxParallelJobs: 4 },
    gateway.world.clock.now(),
  );
  const status = (await gateway.call("GET", "/api/v1/status")).body;
  await gateway.close();
  const { at } = openPage(
    async (url) => new Response(url.endsWith("stream") ? `: connected\n\n${EVENT}${RUN_EVENT}` : status),
  );
  await until(() => at("live").children.length > 0);
  expect(at("ready").textContent).toBe("ready");
  expect(at("ask").hidden).toBe(true);
  expect(at("cards").text).toContain("Approvals 1 jobs a human has to decide");
  expect(at("queues").text + at("retries").text).toMatch(/demo\.nobody|no_worker 1/);
  expect(at("workers").text).toContain("w<1> demo.echo 0 / 4");
  expect(at("safety").text).toContain("breaker closed: the kernel is asked");
  expect(at("safety").text).toContain("policy test: 4 rules, else deny");
  expect(at("about").text).toContain("anybody on this machine");
  expect(at("figures").text).toContain("lock_busy_retry_count 0 retries because a lock was held");
  expect(at("cards").text).toContain("Runs 0 open of workflows, not ended yet");
  expect(at("live").text).toBe("10:20:31.456 run r1 order PAUSED 10:20:30.456 j1 demo.echo SUCCEEDED");
});

test("shows a tenant what is its own, and says what is not kept tenant by tenant", async () => {
  const gateway = await openTestGateway();
  const { key } = await gateway.keyOf("acme", "viewer");
  const status = (await gateway.call("GET", "/api/v1/status", { key })).body;
  await gateway.close();
  const { at } = openPage(async (url) => new Response(url.endsWith("stream") ? ": connected\n\n" : status));
  await until(() => at("about").text.includes("tenant acme"));
  for (const id of ["figures", "retries", "safety"]) expect(at(id).text).toContain("ask with a key of tenant *");
  expect(at("cards").text).toContain("Runs 0 open of workflows, at most 10");
  expect(at("cards").text).not.toMatch(/null|undefined/);
});

test("L57: asks for a key where one is needed, and sends it along; a wrong one is told and forgotten", async () => {
  const seen: (string | undefined)[] = [];
  const refusal = (title: string) => Response.json({ title, detail: "send one" }, { status: 401 });
  const { at, timers } = openPage(async (_, headers) => {
    seen.push(headers["x-api-key"]);
    return refusal("unknown API key");
  });
  await until(() => at("ready").textContent === "an API key is needed");
  expect(at("ask").hidden).toBe(false);
  expect(at("refused").textContent).toBe("");
  at("key").value = " cordum_a_b ";
  at("key-form").listeners.get("submit")?.({ preventDefault: () => {} });
  await until(() => at("refused").textContent !== "");
  expect(at("refused").textContent).toBe("unknown API key: send one");
  expect(at("key").value).toBe("");
  timers[0]?.();
  await until(() => seen.length === 3);
  expect(seen).toEqual([undefined, "cordum_a_b", undefined]);
});

test("L52: says when nobody answers", async () => {
  const { at } = openPage(() => Promise.reject(new Error("refused")));
  await until(() => at("ready").textContent === "does not answer");
  expect(at("ready").className).toContain("bad");
});
