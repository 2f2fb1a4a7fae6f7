// Each rule on small sources: it finds its violations and allows the rest.

import { describe, expect, it } from "vitest";
import { globalUses } from "./globals.ts";
import { checkDashboardLayers, checkLayers, checkPackages, LAYERS } from "./layers.ts";
import {
  checkBarrels,
  checkDeadFiles,
  checkDefaultExports,
  checkFileLength,
  checkFunctionLength,
  checkHiddenInputs,
  checkNames,
} from "./rules.ts";
import { parseSource, type Source, type Violation } from "./source.ts";
import { checkCycles, checkFolderSize, checkIndexImports, checkReferences } from "./structure.ts";
import { checkPersons, checkWords } from "./words.ts";

/** Violations as `path:line`. */
function places(violations: readonly Violation[]): string[] {
  return violations.map(({ path, line }) => `${path}:${line}`);
}

function plant(files: Record<string, string>): Source[] {
  return Object.entries(files).map(([path, text]) => parseSource(path, text));
}

function objects(check: (sources: Source[]) => Violation[], path: string, text: string): boolean {
  return check(plant({ [path]: text })).length > 0;
}

describe("imports point inward", () => {
  it.each([
    ["src/core/model/a.ts", 'import { b } from "../../engine/b.ts";'],
    ["src/core/model/a.ts", 'import type { B } from "../../ports/b.ts";'],
    ["src/core/model/a.ts", 'import { b } from "../retry/b.ts";'],
    ["src/core/model/a.ts", 'import { type B, c } from "../retry/b.ts";'],
    ["src/core/retry/a.ts", 'import type { B } from "../model/b.ts";'],
    ["src/core/policy/a.ts", 'export { b } from "../jobs/b.ts";'],
    ["src/ports/a.ts", 'import type { Engine } from "../engine/engine.ts";'],
    ["src/engine/a.ts", 'const b = await import("../worlds/b.ts");'],
    ["src/engine/a.ts", 'type B = import("../gateway/b.ts").B;'],
    ["src/engine/a.ts", 'import { config } from "../config/config.ts";'],
    ["src/worker/a.ts", 'import { b } from "../engine/b.ts";'],
    ["src/worlds/a.ts", 'import { b } from "../engine/b.ts";'],
    ["src/sim/a.ts", 'import { b } from "../worlds/b.ts";'],
    ["src/gateway/a.ts", 'import { b } from "../worlds/b.ts";'],
    ["src/ports/world.ts", 'import { b } from "../worlds/b.ts";'],
    ["src/main.ts", 'import { b } from "../test/b.ts";'],
  ])("rejects in %s: %s", (path, text) => {
    expect(objects(checkLayers, path, text)).toBe(true);
  });

  it.each([
    ["src/core/model/a.ts", 'import type { B } from "../retry/b.ts";'],
    ["src/core/model/a.ts", 'import { type B, type C } from "../retry/b.ts";'],
    ["src/core/model/a.ts", '// import { b } from "../engine/b.ts";\nexport const text = "from \\"../engine/b.ts\\"";'],
    ["src/engine/a.ts", 'import { b } from "../ports/b.ts";\nimport type { Config } from "../config/config.ts";'],
    ["src/worlds/a.ts", 'import { b } from "../ports/b.ts";'],
    ["src/sim/a.ts", 'import { b } from "../engine/b.ts";\nimport { c } from "../ports/c.ts";'],
    ["src/cli/deep/a.ts", 'import { b } from "../../worlds/b.ts";'],
    ["src/main.ts", 'import { b } from "./worlds/b.ts";\nimport { c } from "pkg";'],
  ])("allows in %s: %s", (path, text) => {
    expect(checkLayers(plant({ [path]: text }))).toEqual([]);
  });

  it("rejects a folder without a row", () => {
    expect(places(checkLayers(plant({ "src/stuff/a.ts": "export const a = 1;" })))).toEqual(["src/stuff/a.ts:1"]);
  });

  it("names only rows that exist", () => {
    const named = Object.values(LAYERS).flatMap((row) => row.map((entry) => entry.replace(/^type /, "")));
    expect(named.filter((name) => name !== "*" && LAYERS[name] === undefined)).toEqual([]);
  });

  it("reports the line", () => {
    const text = '\nimport type { A } from "./a.ts";\nimport { b } from "../../engine/b.ts";\n';
    expect(places(checkLayers(plant({ "src/core/model/c.ts": text })))).toEqual(["src/core/model/c.ts:3"]);
  });
});

describe("layers of the dashboard", () => {
  it.each([
    ["dashboard/src/pages/jobs/a.tsx", 'import { b } from "../runs/b.ts";'],
    ["dashboard/src/kit/a.tsx", 'import { b } from "../pages/jobs/b.ts";'],
    ["dashboard/src/data/a.ts", 'import { b } from "../kit/b.tsx";'],
    ["dashboard/src/data/a.ts", 'import { b } from "../../../src/core/model/b.ts";'],
    ["dashboard/src/pages/jobs/a.tsx", 'import { b } from "../../../../src/gateway/b.ts";'],
  ])("rejects in %s: %s", (path, text) => {
    expect(objects(checkDashboardLayers, path, text)).toBe(true);
  });

  it.each([
    ["dashboard/src/pages/jobs/a.tsx", 'import { b } from "./b.ts";\nimport { c } from "../../kit/c.tsx";'],
    ["dashboard/src/pages/registry.ts", 'const b = import("./jobs/b.tsx");'],
    ["dashboard/src/data/a.ts", 'import { b } from "../../../src/client/b.ts";'],
  ])("allows in %s: %s", (path, text) => {
    expect(checkDashboardLayers(plant({ [path]: text }))).toEqual([]);
  });
});

describe("packages stay outside the core", () => {
  it.each([
    ["src/engine/a.ts", 'import { readFile } from "node:fs/promises";'],
    ["src/core/model/a.ts", 'import { z } from "zod";'],
    ["src/core/model/a.ts", 'import type { Redis } from "ioredis";'],
    ["src/engine/a.ts", 'import { createHash, randomUUID } from "node:crypto";'],
    ["src/engine/a.ts", 'import * as crypto from "node:crypto";'],
    ["src/core/policy/a.ts", 'import { parse } from "yaml-like";'],
    ["src/gateway/routes/jobs.ts", 'import { fastify } from "fastify";'],
    ["src/sim/a.ts", 'const timers = await import("node:timers");'],
  ])("rejects in %s: %s", (path, text) => {
    expect(objects(checkPackages, path, text)).toBe(true);
  });

  it.each([
    ["src/adapters/redis/connection.ts", 'import { Redis } from "ioredis";\nimport { join } from "node:path";'],
    ["src/cli/a.ts", 'import { Command } from "commander";'],
    ["src/main.ts", 'import { hostname } from "node:os";'],
    ["src/gateway/server.ts", 'import { fastify } from "fastify";'],
    ["src/gateway/routes/jobs.ts", 'import type { FastifyInstance } from "fastify";'],
    ["src/protocol/codec.ts", 'import { x } from "@bufbuild/protobuf/wire";'],
    ["src/core/policy/a.ts", 'import { parse } from "yaml";\nimport { createHash } from "node:crypto";'],
    ["src/core/policy/a.ts", 'import { x } from "@marcbachmann/cel-js/sub";'],
  ])("allows in %s: %s", (path, text) => {
    expect(checkPackages(plant({ [path]: text }))).toEqual([]);
  });
});

describe("no hidden inputs in the core", () => {
  it.each([
    "const a = Date.now();",
    "const a = new Date();",
    "const a = Date();",
    "const { now } = Date;",
    'const a = Date["now"]();',
    "const a = Math.random();",
    "const roll = Math.random;",
    "setTimeout(() => {}, 5);",
    "const later = setInterval;",
    "setImmediate(done);",
    "const a = performance.now();",
    "const a = globalThis.performance.now();",
    "const a = globalThis.setTimeout;",
    "const a = process.env.HOME;",
    "const a = process?.pid;",
    "const a = (process as never);",
    "AbortSignal.timeout(5);",
    'await crypto.subtle.digest("SHA-256", bytes);',
    "const id = crypto.randomUUID();",
    'await fetch("http://x");',
    "class A { #at = Date.now(); }",
    "function f(now = Date.now()) { return now; }",
    "const f = (setTimeout: number) => setTimeout; setTimeout(f, 1);",
    "const a = { process };",
    ["const a = `$", "{Date.now()}`;"].join(""),
    "for (const process of list) use(process);\nprocess.exit();",
  ])("rejects %s", (text) => {
    expect(objects(checkHiddenInputs, "src/engine/a.ts", text)).toBe(true);
  });

  it.each([
    "const a = new Date(now).toISOString();",
    "const a = Date.UTC(2026, 1);",
    "const a: Date | undefined = undefined;",
    "const a = Math.max(1, 2);",
    "queueMicrotask(f);",
    "clock.setTimeout(f, 5);",
    "interface Clock { setTimeout(f: () => void, ms: number): void; now(): number }",
    "const clock = { setTimeout: f, now: g };",
    "class Clock { setTimeout() {} process = 1; }",
    "// Date.now()\nconst text = 'Date.now()';",
    "function f(process: { id: string }) { return process.id; }",
    "for (const process of processes) process.crash();",
    "const f = ({ fetch }: Ports) => fetch(1);",
    "const [performance, ...crypto] = list; use(performance.x, crypto);",
    'import { process } from "./process.ts"; process.start();',
    "try { f(); } catch (process) { g(process); }",
    "type P = typeof process;",
    "job.process.pid;",
    "const url = import.meta.url;",
  ])("allows %s", (text) => {
    expect(checkHiddenInputs(plant({ "src/engine/a.ts": text }))).toEqual([]);
  });

  it("applies to the core only", () => {
    const text = "setTimeout(() => process.exit(), Date.now());";
    for (const outside of ["src/worlds/a.ts", "src/gateway/a.ts", "src/cli/a.ts", "src/main.ts"]) {
      expect(objects(checkHiddenInputs, outside, text)).toBe(false);
    }
    for (const core of [
      "src/core/model/a.ts",
      "src/sim/a.ts",
      "src/worker/a.ts",
      "src/config/config.ts",
      "src/engine/start-control.ts",
    ]) {
      expect(objects(checkHiddenInputs, core, text)).toBe(true);
    }
  });

  it("allows the simulator's timeline to drain microtasks", () => {
    expect(objects(checkHiddenInputs, "src/sim/timeline.ts", "setImmediate(step); process.nextTick(step);")).toBe(
      false,
    );
    expect(objects(checkHiddenInputs, "src/sim/timeline.ts", "setTimeout(step);")).toBe(true);
    expect(objects(checkHiddenInputs, "src/sim/bus.ts", "setImmediate(step);")).toBe(true);
  });

  it("reports the global and the line", () => {
    const { tree } = parseSource("src/a.ts", "const a = 1;\nconst b = Date.now() + Math.random();");
    expect(globalUses(tree).map(({ name }) => name)).toEqual(["Date.now", "Math.random"]);
    expect(places(checkHiddenInputs(plant({ "src/engine/a.ts": "let a;\na = Date.now();" })))).toEqual([
      "src/engine/a.ts:2",
    ]);
  });
});

describe("files and functions are short", () => {
  const lines = (count: number): string =>
    Array.from({ length: count }, (_, i) => `export const a${i} = 1;\n`).join("");
  const steps = (count: number): string => "  step();\n".repeat(count);

  it("counts the lines of a file", () => {
    expect(objects(checkFileLength, "src/a.ts", lines(400))).toBe(false);
    expect(objects(checkFileLength, "src/a.ts", lines(401))).toBe(true);
  });

  it.each([
    ["a function", (body: string) => `function f() {\n${body}}`],
    ["an arrow", (body: string) => `const f = async (a: string): Promise<void> => {\n${body}};`],
    ["a method", (body: string) => `class A { async #go<T>(a: T): Promise<void> {\n${body}} }`],
    ["a method of an object", (body: string) => `const a = { go() {\n${body}} };`],
  ])("counts the lines of %s", (_kind, wrap) => {
    expect(objects(checkFunctionLength, "src/a.ts", wrap(steps(58)))).toBe(false);
    expect(objects(checkFunctionLength, "src/a.ts", wrap(steps(59)))).toBe(true);
  });

  it("ignores braces in strings, patterns and comments", () => {
    const text = `function f() {\n  const a = "{{{"; /* { */ const b = /[{]\\{/; const c = \`{\${a}{\`;\n}\n${lines(80)}`;
    expect(objects(checkFunctionLength, "src/a.ts", text)).toBe(false);
  });
});

describe("file names", () => {
  it("rejects empty names of files and folders", () => {
    const empty = ["src/utils.ts", "src/engine/helpers.ts", "src/common/a.ts", "test/Util.test.ts", "scripts/misc.mjs"];
    expect(places(checkNames(empty))).toEqual(empty.map((path) => `${path}:1`));
  });

  it("allows words that only contain them", () => {
    expect(checkNames(["src/engine/utility-bill.ts", "src/core/model/commons.ts", "CONTRIBUTING.md"])).toEqual([]);
  });
});

describe("barrels", () => {
  it.each([
    'export * from "./b.ts";',
    'export { b } from "./b.ts";\nexport type { C } from "./c.ts";',
    'import { b } from "./b.ts";\nexport { b };',
    'export const a = 1;\nexport * from "./b.ts";',
  ])("rejects %s", (text) => {
    expect(objects(checkBarrels, "src/engine/index.ts", text)).toBe(true);
    expect(objects(checkBarrels, "src/index.ts", text)).toBe(false);
  });

  it.each([
    'import { b } from "./b.ts";\nexport const a = b;',
    'import "./side-effect.ts";',
    "const a = 1;\nexport { a };",
  ])("allows %s", (text) => {
    expect(objects(checkBarrels, "src/engine/a.ts", text)).toBe(false);
  });
});

describe("no default exports", () => {
  it("finds every spelling", () => {
    expect(objects(checkDefaultExports, "src/a.ts", "export default 1;")).toBe(true);
    expect(objects(checkDefaultExports, "src/a.ts", "const a = 1; export { a as default };")).toBe(true);
    expect(objects(checkDefaultExports, "src/a.ts", 'export { default } from "./b.ts";')).toBe(true);
    expect(objects(checkDefaultExports, "src/a.ts", 'import a from "pkg"; export const b = a;')).toBe(false);
  });
});

describe("no dead files", () => {
  it("finds files without an importer, also in a cycle", () => {
    const sources = plant({
      "src/main.ts": 'import { a } from "./engine/a.ts";',
      "src/engine/a.ts": 'import type { B } from "../core/model/b.ts";\nconst lazy = () => import("./lazy.ts");',
      "src/engine/lazy.ts": "export const a = 1;",
      "src/core/model/b.ts": "export interface B {}",
      "src/worlds/worker-sdk.ts": "export const w = 1;",
      "src/dead/one.ts": 'import { two } from "./two.ts";',
      "src/dead/two.ts": 'import { one } from "./one.ts";',
    });
    expect(places(checkDeadFiles(sources))).toEqual(["src/dead/one.ts:1", "src/dead/two.ts:1"]);
  });
});

describe("no words of one machine", () => {
  // Composed, so that this file passes the rule.
  const path = (...parts: string[]): string => ["", ...parts, ""].join("/");

  it.each([
    `see ${path("home", "ann")}notes`,
    `"${path("root", "x")}"`,
    `file://${path("Users", "ann")}`,
    `"resolved": ${JSON.stringify("http://x/y.tgz")}`,
    `https://${"registry"}.example.org/x`,
    `cd ${path("srv", "checkout")}`,
  ])("rejects %s", (text) => {
    expect(places(checkWords([{ path: "a.md", text: `fine\n${text}` }], "/srv/checkout"))).toEqual(["a.md:2"]);
  });

  it.each(["https://example.org/home/page", "GET /api/v1/root/x", "/tmp/data", '"resolved": true'])(
    "allows %s",
    (text) => {
      expect(checkWords([{ path: "a.md", text }], "/srv/checkout")).toEqual([]);
    },
  );
});

describe("structure", () => {
  it("finds a cycle of value imports, and none of type imports", () => {
    const cycle = { "src/a.ts": 'import { b } from "./b.ts";', "src/b.ts": 'import { c } from "./c.ts";' };
    const value = plant({ ...cycle, "src/c.ts": 'import { a } from "./a.ts";' });
    expect(places(checkCycles(value))).toEqual(["src/a.ts:1"]);
    expect(checkCycles(value)[0]?.message).toContain("src/b.ts, src/c.ts");
    expect(checkCycles(plant({ ...cycle, "src/c.ts": 'import type { A } from "./a.ts";' }))).toEqual([]);
  });

  it("finds two cycles that share no file", () => {
    const pair = (one: string, two: string) => ({
      [`src/${one}.ts`]: `import { x } from "./${two}.ts";`,
      [`src/${two}.ts`]: `import { x } from "./${one}.ts";`,
    });
    expect(places(checkCycles(plant({ ...pair("a", "b"), ...pair("c", "d") }))).sort()).toEqual([
      "src/a.ts:1",
      "src/c.ts:1",
    ]);
  });

  it("bounds the files of a folder", () => {
    const files = (count: number) => Array.from({ length: count }, (_, at) => `src/x/${at}.ts`);
    expect(checkFolderSize(files(24))).toEqual([]);
    expect(places(checkFolderSize([...files(25), "src/x/y/deep.ts"]))).toEqual(["src/x:1"]);
  });

  it("allows only the index of an engine folder from outside", () => {
    const place = "src/gateway/a.ts";
    const check = (path: string, text: string) => objects(checkIndexImports, path, text);
    expect(check(place, 'import { b } from "../engine/runs/run-lock.ts";')).toBe(true);
    expect(check("src/engine/intake/a.ts", 'import type { B } from "../runs/run-lock.ts";')).toBe(true);
    expect(check(place, 'import { b } from "../engine/runs/index.ts";')).toBe(false);
    expect(check(place, 'import { b } from "../engine/engine.ts";')).toBe(false);
    expect(check("src/engine/runs/a.ts", 'import { b } from "./run-lock.ts";')).toBe(false);
  });

  it("finds references to files that do not exist", () => {
    const files = [{ path: "docs/a.md", text: "see `src/b.ts`\nand src/gone.ts, https://example.org/src/x.ts" }];
    expect(places(checkReferences(files, ["src/b.ts"]))).toEqual(["docs/a.md:2"]);
  });

  it("finds indefinite persons in texts of the project", () => {
    const text = `fine\n${"No"}body waits`;
    expect(places(checkPersons([{ path: "src/a.ts", text }]))).toEqual(["src/a.ts:2"]);
    expect(checkPersons([{ path: "package-lock.json", text }])).toEqual([]);
  });
});
