/**
 * A real control plane with the built dashboard, and pages of a real browser on it.
 *
 * 1. Every page fails its test on a console error, an uncaught error, a request to another host, or a violation of the
 *    content security policy; `close` reports them.
 * 2. A missing browser fails; `npm test` installs it where it may.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
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
}

export interface OpenOptions {
  /** Signs in with this key in place of the start-up token; null: not signed in. */
  readonly key?: string | null;
  readonly width?: number;
  readonly height?: number;
  readonly scheme?: "light" | "dark";
  /** Console errors that belong to the test, such as `/status of 403/`. */
  readonly expected?: readonly RegExp[];
}

export class Dashboard {
  readonly url: string;
  /** A client with all permissions. */
  readonly api: Client;
  readonly #token: string;
  readonly #up: UpProcess;
  readonly #dir: string;
  readonly #browser: Browser;
  readonly #problems: string[] = [];

  private constructor(url: string, up: UpProcess, dir: string, browser: Browser) {
    this.url = url;
    this.#token = tokenHeader(url)["x-api-key"] ?? "";
    this.api = createClient({ url, apiKey: this.#token });
    this.#up = up;
    this.#dir = dir;
    this.#browser = browser;
  }

  static async start({ argv = [], env = {} }: DashboardOptions = {}): Promise<Dashboard> {
    await build({ quiet: true });
    const dir = mkdtempSync(join(tmpdir(), "cordum-dashboard-"));
    const args = ["--demo", "--port", "0", "--data", join(dir, "data"), ...argv];
    const up = startUp(args, env, ["dist/main.js"]);
    const [url, browser] = await Promise.all([up.url, launchBrowser()]);
    return new Dashboard(url, up, dir, browser);
  }

  /** A page, signed in. */
  async open(path: string, options: OpenOptions = {}): Promise<Page> {
    const { key = this.#token, width = 1440, height = 900, scheme = "light", expected = [] } = options;
    const context = await this.#browser.newContext({ viewport: { width, height }, colorScheme: scheme });
    const page = await context.newPage();
    this.#watch(page, expected);
    if (key !== null) {
      const headers = { origin: this.url };
      const response = await context.request.post(`${this.url}/api/v1/session`, { data: { api_key: key }, headers });
      expect(response.status(), "sign-in").toBe(200);
    }
    await page.goto(this.url + path);
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

  #watch(page: Page, expected: readonly RegExp[]): void {
    const add = (text: string) => {
      if (!expected.some((pattern) => pattern.test(text)))
        this.#problems.push(`${new URL(page.url()).pathname}: ${text}`);
    };
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") add(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => add(`uncaught: ${error.stack ?? error.message}`));
    page.on("request", (request) => {
      if (!request.url().startsWith(`${this.url}/`)) add(`request to another host: ${request.url()}`);
    });
  }
}

async function launchBrowser(): Promise<Browser> {
  const executablePath = findServer("chromium");
  if (executablePath === null) throw new Error("no Chromium found: install the package `chromium`");
  const args = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
  // As root, Chromium refuses to start with its sandbox.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? [...args, "--no-sandbox"] : args });
}

interface Finding {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** No serious or critical finding of axe-core, in light and dark. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(AXE);
    const findings = (await page.evaluate("axe.run().then(({ violations }) => violations)")) as readonly Finding[];
    const grave = findings.filter(({ impact }) => impact === "serious" || impact === "critical");
    const lines = grave.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${colorScheme} ${id}: ${node.html} ${node.failureSummary}`),
    );
    expect(lines, page.url()).toEqual([]);
  }
  await page.emulateMedia({ colorScheme: null });
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
