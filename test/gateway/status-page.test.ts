// Runs the script of the status page on a minimal stub of the DOM.
import { expect, test } from "vitest";
import { PAGE } from "../../src/gateway/status-page/page.ts";
import { SCRIPT } from "../../src/gateway/status-page/script.ts";
import { openTestGateway } from "./test-gateway.ts";

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

/** Runs the script with `respond` as its server. Only elements of the page exist. */
function openPage(
  respond: (url: string, headers: Readonly<Record<string, string>>) => Promise<Response>,
  location: { hash: string; readonly pathname: string } = { hash: "", pathname: "/" },
) {
  const elements = new Map(
    [...PAGE.matchAll(/id="([\w-]+)"( hidden)?/g)].map(([, id = "", hidden]) => {
      return [id, Object.assign(new Element(), { hidden: hidden !== undefined })];
    }),
  );
  const timers: (() => void)[] = [];
  const document = { getElementById: (id: string) => elements.get(id), createElement: () => new Element() };
  const fetch = async (url: string, options: { headers: Readonly<Record<string, string>> }) => {
    return respond(url, options.headers);
  };
  const run = new Function("document", "fetch", "setInterval", "setTimeout", "location", "history", SCRIPT);
  run(
    document,
    fetch,
    (fn: () => void) => timers.push(fn),
    () => {},
    location,
    { replaceState: () => Object.assign(location, { hash: "" }) },
  );
  const at = (id: string): Element => elements.get(id) ?? new Element();
  return { at, timers };
}

const EVENT =
  'event: job\ndata: {"job_id":"j1","topic":"demo.echo","state":"SUCCEEDED","at":"2030-01-01T10:20:30.456Z"}\n\n';

const RUN_EVENT =
  'event: run\ndata: {"run_id":"r1","workflow_id":"order","state":"PAUSED","at":"2030-01-01T10:20:31.456Z"}\n\n';

/** Polls after each turn of the event loop. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

test("renders the status and live events", async () => {
  const gateway = await openTestGateway();
  await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.approve" } });
  await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.unserved" } });
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
  expect(at("cards").text).toContain("Approvals 1 jobs awaiting approval");
  expect(at("queues").text + at("retries").text).toMatch(/demo\.unserved|no_worker 1/);
  expect(at("workers").text).toContain("w<1> demo.echo 0 / 4");
  expect(at("safety").text).toContain("breaker closed: checks are sent to the kernel");
  expect(at("safety").text).toContain("policy test: 4 rules, default deny");
  expect(at("about").text).toContain("start-up token of this machine");
  expect(at("figures").text).toContain("lock_busy_retry_count 0 retries because of a busy lock");
  expect(at("cards").text).toContain("Runs 0 open workflow runs");
  expect(at("live").text).toBe("10:20:31.456 run r1 order PAUSED 10:20:30.456 j1 demo.echo SUCCEEDED");
});

test("marks values that only operators see", async () => {
  const gateway = await openTestGateway();
  const { key } = await gateway.keyOf("acme", "viewer");
  const status = (await gateway.call("GET", "/api/v1/status", { key })).body;
  await gateway.close();
  const { at } = openPage(async (url) => new Response(url.endsWith("stream") ? ": connected\n\n" : status));
  await until(() => at("about").text.includes("tenant acme"));
  for (const id of ["figures", "retries", "safety"]) expect(at(id).text).toContain("only for keys of tenant *");
  expect(at("cards").text).toContain("Runs 0 open workflow runs, limit 10");
  expect(at("cards").text).not.toMatch(/null|undefined/);
});

test("L57: prompts for a required key, sends it, and discards a rejected one", async () => {
  const seen: (string | undefined)[] = [];
  const refusal = (title: string) => Response.json({ title, detail: "send one" }, { status: 401 });
  const { at, timers } = openPage(async (_, headers) => {
    seen.push(headers["x-api-key"]);
    return refusal("invalid API key");
  });
  await until(() => at("ready").textContent === "API key required");
  expect(at("ask").hidden).toBe(false);
  expect(at("refused").textContent).toBe("");
  at("key").value = " cordum_a_b ";
  at("key-form").listeners.get("submit")?.({ preventDefault: () => {} });
  await until(() => at("refused").textContent !== "");
  expect(at("refused").textContent).toBe("invalid API key: send one");
  expect(at("key").value).toBe("");
  timers[0]?.();
  await until(() => seen.length === 3);
  expect(seen).toEqual([undefined, "cordum_a_b", undefined]);
});

test("shows no section before sign-in, nor after the key has been revoked", async () => {
  const gateway = await openTestGateway();
  const status = (await gateway.call("GET", "/api/v1/status")).body;
  await gateway.close();
  const refusal = () => Response.json({ title: "API key required", detail: "send one" }, { status: 401 });
  let isSignedIn = false;
  const { at, timers } = openPage(async (url) => {
    if (!isSignedIn) return refusal();
    return new Response(url.endsWith("stream") ? ": connected\n\n" : status);
  });
  expect(at("content").hidden).toBe(true);
  await until(() => !at("ask").hidden);
  expect(at("content").hidden).toBe(true);
  isSignedIn = true;
  timers[0]?.();
  await until(() => at("ask").hidden);
  expect(at("content").hidden).toBe(false);
  isSignedIn = false;
  timers[0]?.();
  await until(() => !at("ask").hidden);
  expect(at("content").hidden).toBe(true);
  expect(at("who").text + at("fresh").text).toBe("");
  // Every section with figures is inside the hidden part.
  expect(PAGE.slice(0, PAGE.indexOf('id="content"'))).not.toMatch(/data-none=|id="cards"/);
});

test("L52: shows that the server is not responding", async () => {
  const { at } = openPage(() => Promise.reject(new Error("refused")));
  await until(() => at("ready").textContent === "not responding");
  expect(at("ready").className).toContain("bad");
});

test("sends the key in the fragment of the link, and removes it from the address", () => {
  const seen: (string | undefined)[] = [];
  const location = { hash: "#cordum_local_secret", pathname: "/" };
  openPage((_, headers) => {
    seen.push(headers["x-api-key"]);
    return Promise.reject(new Error("refused"));
  }, location);
  expect(seen).toEqual(["cordum_local_secret"]);
  expect(location.hash).toBe("");
});
