// The package, installed from its tarball as a user installs it.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { entryPointsIn } from "../../../scripts/entry-points.mjs";
import { type Packed, Project, pack, ROOT, run } from "./installed-package.ts";

const { version, devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  version: string;
  devDependencies: Record<string, string>;
};
const SPECIFIERS = entryPointsIn(ROOT).flatMap(({ specifier }) =>
  specifier === undefined ? [] : [specifier.replace(/^\./, "cordum")],
);
const TYPES = [`typescript@${devDependencies.typescript}`, `@types/node@${devDependencies["@types/node"]}`];

let folder: string;
let packed: Packed;
let project: Project;
/** Folders of `node`; `null` is that of the PATH. */
const nodes: Record<"Node of this run" | "Node 24", string | null> = { "Node of this run": null, "Node 24": null };

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "cordum-pack-"));
  packed = await pack(folder);
  project = new Project();
  project.write("package.json", { name: "outside", private: true, type: "module" });
  const other = `node-${process.platform}-${process.arch}`;
  await project.install(packed.file, ...TYPES, `${other}@24`);
  nodes["Node 24"] = join(project.dir, "node_modules", other, "bin");
});

afterAll(() => {
  project.remove();
  rmSync(folder, { recursive: true, force: true });
});

test("contains code, maps, types, docs and templates, and no sources or build state", () => {
  const top = new Set(packed.paths.map((path) => path.split("/")[0]));
  expect([...top].sort()).toEqual(
    ["CHANGELOG.md", "LICENSE", "README.md", "bin", "dist", "docs", "examples", "package.json", "templates"].sort(),
  );
  for (const { name, source, specifier } of entryPointsIn(ROOT)) {
    expect(packed.paths).toEqual(expect.arrayContaining([`dist/${name}.js`, `dist/${name}.js.map`]));
    const types = `${source.replace(/^src/, "dist/types").replace(/\.ts$/, "")}.d.ts`;
    if (specifier !== undefined) expect(packed.paths).toContain(types);
  }
  expect(packed.paths.filter((path) => path.startsWith("dist/."))).toEqual([]);
  expect(packed.sizeBytes).toBeLessThan(4 * 1024 * 1024);
});

test("publint and arethetypeswrong find no problem", async () => {
  const tool = (name: string) => join(ROOT, "node_modules", ".bin", name);
  const lint = await run(tool("publint"), ["run", packed.file, "--strict"], ROOT);
  expect(lint, lint.out + lint.err).toMatchObject({ code: 0 });
  const types = await run(tool("attw"), [packed.file, "--profile", "esm-only", "--no-emoji"], ROOT);
  expect(types, types.out + types.err).toMatchObject({ code: 0 });
});

const STRICT = { strict: true, skipLibCheck: false, exactOptionalPropertyTypes: true, target: "es2023", noEmit: true };

test.each([
  ["nodenext with the types of Node", { module: "nodenext", lib: ["es2023"], types: ["node"] }],
  ["node16 without", { module: "node16", types: [] }],
  ["bundler without", { module: "esnext", moduleResolution: "bundler", types: [] }],
])("every export compiles strictly: %s", async (name, options) => {
  const config = `tsconfig.${name.split(" ")[0]}.json`;
  project.write(config, { compilerOptions: { ...STRICT, ...options }, files: ["exports.ts"] });
  const lines = SPECIFIERS.map((specifier, at) => `export * as module${at} from "${specifier}";`);
  project.write("exports.ts", `${lines.join("\n")}\nimport { worker } from "cordum/worker";\n${NOT_ANY}\n`);
  expect(await project.run("node_modules/.bin/tsc", "-p", config)).toEqual({ code: 0, out: "", err: "" });
});

/** Fails to compile if the declarations are missing and the import is `any`. */
const NOT_ANY = "// @ts-expect-error\nvoid worker({ topics: 7 });";

describe.each(Object.keys(nodes) as (keyof typeof nodes)[])("with %s", (name) => {
  let installed: Project;

  beforeAll(() => {
    installed = project.with(nodes[name]);
  });

  test("the installed command prints its version and completions", async () => {
    if (name === "Node 24") expect((await installed.run("node", "--version")).out).toMatch(/^v24\./);
    expect(await installed.run("node_modules/.bin/cordum", "--version")).toMatchObject({
      code: 0,
      out: `${version}\n`,
    });
    const completion = await installed.run("node_modules/.bin/cordum", "completion", "bash");
    expect(completion).toMatchObject({
      code: 0,
      out: expect.stringContaining("complete -o default -F _cordum cordum"),
    });
  });

  test("every export loads", async () => {
    project.write("load.mjs", SPECIFIERS.map((specifier) => `await import("${specifier}");`).join("\n"));
    expect(await installed.run("node", "load.mjs")).toEqual({ code: 0, out: "", err: "" });
  });

  test("`cordum init` writes a project whose tests pass with the installed package", async () => {
    const target = name === "Node 24" ? "agents-24" : "agents";
    const written = await installed.succeed("node_modules/.bin/cordum", "init", target, "--json");
    const { files, next } = JSON.parse(written.out) as { files: string[]; next: string[] };
    expect(next).toEqual([`cd ${target}`, "npm install", "npm test", "npm start"]);
    expect(files).toContain("policy.yaml");
    const agents = new Project(join(project.dir, target), nodes[name]);
    expect(JSON.parse(readFileSync(join(agents.dir, "package.json"), "utf8"))).toMatchObject({
      name: target,
      dependencies: { cordum: `^${version}` },
    });
    await agents.install(packed.file);
    const tested = await agents.run("npm", "test");
    expect(tested, tested.out + tested.err).toMatchObject({ code: 0 });
    expect(tested.out).toMatch(/pass 4\b/);
    expect(await installed.run("node_modules/.bin/cordum", "init", target)).toMatchObject({ code: 4 });
  });
});
