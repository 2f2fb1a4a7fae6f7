// The example of docs/testing.md, verbatim, with node:test and the bundled package in a project of its own.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const example = /```ts\n(.*?)```/s.exec(readFileSync(join(root, "docs/testing.md"), "utf8"))?.[1] ?? "";
let dir: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-testing-"));
  const packageDir = join(dir, "node_modules", "cordum");
  mkdirSync(packageDir, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  writeFileSync(join(packageDir, "package.json"), JSON.stringify(manifest));
  symlinkSync(join(root, "node_modules"), join(packageDir, "node_modules"));
  const options = { format: "esm", platform: "node", logLevel: "error" } as const;
  const entryPoints = { testing: join(root, "src/testing/index.ts") };
  await build({ ...options, entryPoints, bundle: true, packages: "external", outdir: join(packageDir, "dist") });
  await build({ ...options, stdin: { contents: example, loader: "ts" }, outfile: join(dir, "triage.test.mjs") });
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("the example of docs/testing.md passes in a project of its own", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--test", "--test-reporter=tap", "triage.test.mjs"], {
    cwd: dir,
    env: { PATH: process.env.PATH },
  });
  expect(stdout).toContain("# pass 1\n");
  expect(stdout).toContain("# fail 0\n");
});
