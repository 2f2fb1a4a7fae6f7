// The scripts on a copy of the project with a minimal program.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const PROGRAM = `
import { word } from "./word.ts";
const args: string[] = process.argv.slice(2);
if (args[0] === "up") {
  const alive: NodeJS.Timeout = setInterval(() => {}, 1e6);
  process.on("SIGINT", () => { clearInterval(alive); console.log("stopped"); });
}
console.log(word, args.join(" "));
`;

let copy = "";

beforeEach(async () => {
  copy = await mkdtemp(join(tmpdir(), "cordum-checkout-"));
  for (const part of ["scripts", "bin", "package.json", "package-lock.json"]) {
    await cp(join(root, part), join(copy, part), { recursive: true });
  }
  await symlink(join(root, "node_modules"), join(copy, "node_modules"));
  await mkdir(join(copy, "src"));
  await write("src/main.ts", PROGRAM);
  await write("src/word.ts", 'export const word: string = "hello";\n');
});

afterEach(async () => {
  await rm(copy, { recursive: true, force: true });
});

describe("bin/cordum.mjs", () => {
  it("builds without output and passes the arguments", async () => {
    expect(await cordum("job", "list")).toEqual({ code: 0, stdout: "hello job list\n", stderr: "" });
  });

  it("rebuilds after an edit, an addition or a removal only", async () => {
    await cordum();
    const first = await readFile(join(copy, "dist/main.js.map"), "utf8");
    await write("dist/main.js", 'console.log("not built again");');
    expect((await cordum()).stdout).toBe("not built again\n");
    await write("src/word.ts", 'export const word: string = "goodbye";\n');
    expect((await cordum()).stdout).toBe("goodbye \n");
    expect(await readFile(join(copy, "dist/main.js.map"), "utf8")).not.toBe(first);
    await rm(join(copy, "src/word.ts"));
    const broken = await cordum();
    expect(broken.code).toBe(1);
    expect(broken.stderr).toMatch(/build failed.*Could not resolve "\.\/word\.ts"/s);
    expect(broken.stdout).toBe("");
  });

  it("can be started concurrently in a fresh checkout", async () => {
    const answers = await Promise.all(["1", "2", "3", "4"].map((number) => cordum(number)));
    expect(answers.map(({ stdout }) => stdout)).toEqual(["hello 1\n", "hello 2\n", "hello 3\n", "hello 4\n"]);
  });

  it("builds once for concurrent commands, also after a build that was killed", async () => {
    const killed = run("-e", "setInterval(() => {}, 1e6)");
    killed.kill("SIGKILL");
    await once(killed, "close");
    await mkdir(join(copy, "dist"));
    await write("dist/.building", String(killed.pid));
    const builds = await Promise.all([1, 2, 3].map(() => text(run("scripts/build.mjs").stderr!)));
    expect(builds.join("").match(/building …/g)).toHaveLength(1);
    expect(await readdir(join(copy, "dist"))).toEqual([".built", ".built-dashboard", "main.js", "main.js.map"]);
  });

  it("runs the build without sources", async () => {
    await cordum();
    await rm(join(copy, "src"), { recursive: true });
    await rm(join(copy, "scripts"), { recursive: true });
    expect(await cordum("x")).toEqual({ code: 0, stdout: "hello x\n", stderr: "" });
  });

  it("builds each existing entry point with shared chunks and removes stale files", async () => {
    await write("src/index.ts", 'export { word } from "./word.ts";\n');
    await cordum();
    const shared = (await built()).filter((name) => name.startsWith("chunk-"));
    expect(shared).toHaveLength(1);
    expect(await built()).toEqual([...shared, "index.js", "main.js"]);
    await rm(join(copy, "src/index.ts"));
    await cordum();
    expect(await built()).toEqual(["main.js"]);
  });
});

describe("scripts/start.mjs", () => {
  it("runs `up --demo` with the arguments given, and stops on SIGINT with exit code 0", async () => {
    const child = run("scripts/start.mjs", "--port", "9");
    const rest = text(child.stderr!);
    const [line] = (await once(child.stdout!, "data")) as [Buffer];
    expect(String(line)).toBe("hello up --demo --port 9\n");
    child.kill("SIGINT");
    const [[code], last] = await Promise.all([once(child, "close"), once(child.stdout!, "data")]);
    expect(String(last)).toBe("stopped\n");
    expect(code).toBe(0);
    expect(await rest).toBe("cordum: building …\n");
  });

  it("adds the example workflows unless others are given", async () => {
    await mkdir(join(copy, "examples", "workflows"), { recursive: true });
    for (const [given, expected] of [
      [[], "hello up --demo --workflows examples/workflows\n"],
      [["--workflows", "mine"], "hello up --demo --workflows mine\n"],
    ] as const) {
      const child = run("scripts/start.mjs", ...given);
      const [line] = (await once(child.stdout!, "data")) as [Buffer];
      expect(String(line)).toBe(expected);
      child.kill("SIGINT");
      await once(child, "close");
    }
  });
});

describe("scripts/install.mjs", () => {
  const isInstalled = async (): Promise<string> =>
    (await output(run("-e", 'import("./scripts/install.mjs").then((m) => console.log(m.isInstalled()))'))).stdout;

  it("detects whether the locked versions are installed", async () => {
    expect(await isInstalled()).toBe("true\n");
    const lock = await readFile(join(copy, "package-lock.json"), "utf8");
    const { version } = JSON.parse(lock).packages["node_modules/esbuild"] as { version: string };
    await write("package-lock.json", lock.replaceAll(`"version": "${version}"`, '"version": "0.0.1"'));
    expect(await isInstalled()).toBe("false\n");
    await write("package-lock.json", lock);
    await rm(join(copy, "node_modules"));
    expect(await isInstalled()).toBe("false\n");
  });

  it.each([
    ["18.20.4", false],
    ["20.18.9", false],
    ["20.19.0", true],
    ["24.1.0", true],
  ])("accepts Node %s: %s", async (version, isAccepted) => {
    const script = `import("./scripts/install.mjs").then((m) => m.checkNode("${version}"))`;
    const { code, stderr } = await output(run("-e", script));
    expect(code === 0).toBe(isAccepted);
    if (!isAccepted) expect(stderr).toContain(`Node ${version} is not supported; version 20.19 or newer is required`);
  });
});

function cordum(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return output(run("bin/cordum.mjs", ...args));
}

function run(...args: string[]): ChildProcess {
  return spawn(process.execPath, args, { cwd: copy, stdio: ["ignore", "pipe", "pipe"] });
}

async function output(child: ChildProcess): Promise<{ code: number; stdout: string; stderr: string }> {
  const [[code], stdout, stderr] = await Promise.all([once(child, "close"), text(child.stdout!), text(child.stderr!)]);
  return { code: code as number, stdout, stderr };
}

async function write(path: string, content: string): Promise<void> {
  await writeFile(join(copy, path), content);
}

async function built(): Promise<string[]> {
  return (await readdir(join(copy, "dist"))).filter((name) => name.endsWith(".js")).sort();
}
