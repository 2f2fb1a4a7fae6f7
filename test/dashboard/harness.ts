/**
 * A real control plane with the built dashboard, and pages of a real browser on it.
 *
 * 1. Every page fails its test on a console error, an uncaught error, a request to another host, or a violation of the
 *    content security policy; `close` reports them.
 * 2. A missing browser fails; `npm test` installs it where it may.
 */
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { expect } from "vitest";
import { build } from "../../scripts/build.mjs";
import { findServer } from "../../scripts/servers.mjs";
import type { Client } from "../../src/client/client.ts";
import { createClient } from "../../src/worlds/client-sdk.ts";
import { startUp, tokenHeader, type UpProcess } from "../cli/run.ts";

export interface DashboardOptions {
  /** Further arguments of `cordum up`; `--demo` and a data directory are given. */
  readonly argv?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Writes the data directory before the start. */
  readonly seed?: (dir: string) => Promise<void>;
  /** No page contains the name of this machine or the path of a temporary folder. */
  readonly isPictured?: boolean;
}

export interface OpenOptions {
  /** Signs in with this key in place of one with all permissions; null: not signed in. */
  readonly key?: string | null;
  readonly width?: number;
  readonly height?: number;
  readonly scheme?: "light" | "dark";
  /** The address of a proxy in front of the control plane. */
  readonly via?: string;
  /** Console errors that belong to the test, such as `/status of 403/`. */
  readonly expected?: readonly RegExp[];
}

export class Dashboard {
  readonly url: string;
  /** A client with all permissions. */
  readonly api: Client;
  readonly #key: string;
  readonly #up: UpProcess;
  readonly #dir: string;
  readonly #browser: Browser;
  readonly #problems: string[] = [];

  private constructor(url: string, key: string, up: UpProcess, dir: string, browser: Browser) {
    this.url = url;
    this.#key = key;
    this.api = createClient({ url, apiKey: key });
    this.#up = up;
    this.#dir = dir;
    this.#browser = browser;
  }

  static async start({ argv = [], env = {}, seed, isPictured = false }: DashboardOptions = {}): Promise<Dashboard> {
    await build({ quiet: true });
    const dir = mkdtempSync(join(tmpdir(), "cordum-dashboard-"));
    await seed?.(join(dir, "data"));
    const args = ["--demo", "--port", "0", "--data", isPictured ? "./data" : join(dir, "data"), ...argv];
    const up = isPictured ? startNeutral(args, env, dir) : startUp(args, env, ["dist/main.js"]);
    const [url, browser] = await Promise.all([up.url, launchBrowser()]);
    const local = createClient({ url, apiKey: tokenHeader(url)["x-api-key"] ?? "" });
    const { key } = await local.request("POST /keys", { body: { tenant: "*", role: "admin", name: "ops" } });
    return new Dashboard(url, key, up, dir, browser);
  }

  /** A new key of a role. */
  async keyOf(role: "viewer" | "operator" | "submitter" | "worker" | "admin", tenant = "default"): Promise<string> {
    const { key } = await this.api.request("POST /keys", { body: { tenant, role, name: role } });
    return key;
  }

  /** A page, signed in. */
  async open(path: string, options: OpenOptions = {}): Promise<Page> {
    const { key = this.#key, width = 1440, height = 900, scheme = "light", expected = [], via = this.url } = options;
    const context = await this.#browser.newContext({ viewport: { width, height }, colorScheme: scheme });
    const page = await context.newPage();
    this.#watch(page, via, expected);
    if (key !== null) {
      const headers = { origin: via };
      const response = await context.request.post(`${via}/api/v1/session`, { data: { api_key: key }, headers });
      expect(response.status(), "sign-in").toBe(200);
    }
    await page.goto(via + path);
    return page;
  }

  /** Problems of all pages so far; empty when all is well. */
  problems(): readonly string[] {
    return this.#problems;
  }

  async close(): Promise<void> {
    await this.#browser.close();
    this.#up.child.kill("SIGTERM");
    await this.#up.ended;
    rmSync(this.#dir, { recursive: true, force: true });
    expect(this.#problems).toEqual([]);
  }

  #watch(page: Page, url: string, expected: readonly RegExp[]): void {
    const add = (text: string) => {
      if (!expected.some((pattern) => pattern.test(text)))
        this.#problems.push(`${new URL(page.url()).pathname}: ${text}`);
    };
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") add(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => add(`uncaught: ${error.stack ?? error.message}`));
    page.on("request", (request) => {
      if (!request.url().startsWith(`${url}/`)) add(`request to another host: ${request.url()}`);
    });
  }
}

/** In the folder, under a name of its own. */
function startNeutral(args: readonly string[], env: Readonly<Record<string, string>>, dir: string): UpProcess {
  symlinkSync(join(ROOT, "examples"), join(dir, "examples"));
  return startUp(args, { CORDUM_NAME: "control-1", ...env }, [join(ROOT, "dist", "main.js")], dir);
}

const ROOT = join(import.meta.dirname, "..", "..");

async function launchBrowser(): Promise<Browser> {
  const executablePath = findServer("chromium");
  if (executablePath === null) throw new Error("no Chromium found: install the package `chromium`");
  const args = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
  // As root, Chromium refuses to start with its sandbox.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? [...args, "--no-sandbox"] : args });
}

/** What the copy menu of a button copies. */
export async function copied(page: Page, button: string, as: "curl" | "CLI"): Promise<string> {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByLabel(`copy “${button}” as a command`).click();
  await page.getByRole("button", { name: `Copy as ${as}` }).click();
  await page.getByText("copied").first().waitFor();
  return (await page.evaluate("navigator.clipboard.readText()")) as string;
}

interface Finding {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** No serious or critical finding of axe-core, in light and dark. */
export async function expectAccessible(page: Page): Promise<void> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(AXE);
  for (const [colorScheme, rules] of RULES) {
    await page.emulateMedia({ colorScheme });
    const options = JSON.stringify({ resultTypes: ["violations"], ...rules });
    const run = `axe.run(${options}).then(({ violations }) => violations)`;
    const findings = (await page.evaluate(run)) as readonly Finding[];
    const grave = findings.filter(({ impact }) => impact === "serious" || impact === "critical");
    const lines = grave.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${colorScheme} ${id}: ${node.html} ${node.failureSummary}`),
    );
    expect(lines, page.url()).toEqual([]);
  }
  await page.emulateMedia({ colorScheme: null });
}

/** All rules in one scheme; in the other those that depend on colours. */
const RULES = [
  ["light", {}],
  ["dark", { runOnly: ["color-contrast", "link-in-text-block"] }],
] as const;

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export interface Proxy {
  readonly url: string;
  /** Closes all connections and refuses new ones. */
  cut(): void;
  restore(): void;
  /** From the cut until the last connection that was refused. */
  outageMs(): number;
  close(): Promise<void>;
}

/** A proxy in front of the control plane whose connections can be cut. */
export async function startProxy(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let isCut = false;
  const outage = { fromMs: 0, toMs: 0 };
  const server = createServer((client) => {
    if (isCut) {
      outage.toMs = performance.now();
      return void client.destroy();
    }
    const upstream = connect(Number(port), hostname);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  const closeAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      isCut = true;
      outage.fromMs = outage.toMs = performance.now();
      closeAll();
    },
    restore() {
      isCut = false;
    },
    outageMs: () => outage.toMs - outage.fromMs,
    close() {
      closeAll();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly args: { readonly name?: string };
  /** CPU time in µs. */
  readonly tdur?: number;
}

/** The CPU time of the longest tasks of the page's main thread during the work, in ms. Time spent waiting for a core is not counted. */
export async function longestTasksMs(page: Page, work: () => Promise<void>): Promise<readonly number[]> {
  const browser = page.context().browser();
  if (browser === null) throw new Error("the page has no browser");
  await browser.startTracing(page, { categories: ["toplevel", "__metadata"] });
  await work();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  const mains = new Set(
    traceEvents
      .filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain")
      .map(({ pid, tid }) => `${pid} ${tid}`),
  );
  return traceEvents
    .filter(({ pid, tid, tdur }) => tdur !== undefined && mains.has(`${pid} ${tid}`))
    .map(({ tdur = 0 }) => tdur / 1_000)
    .sort((a, b) => b - a)
    .slice(0, 5);
}
