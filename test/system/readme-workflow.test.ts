// The commands of the README sections "A workflow in five minutes" and "The tour in the shell" in a shell, against the program that `npm start` runs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Api } from "./api.ts";
import { Program } from "./program.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
let program: Program;
let dir: string;
let api: Api;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-readme-"));
  program = await Program.build();
  mkdirSync(join(dir, "bin"));
  // `npx cordum` runs the program under test. `curl` is replaced, because it may not be installed.
  writeFileSync(join(dir, "curl.mjs"), CURL);
  for (const [name, command] of Object.entries({
    npx: `shift\nexec "${process.execPath}" "${program.file}" "$@"`,
    curl: `exec "${process.execPath}" "${join(dir, "curl.mjs")}" "$@"`,
  })) {
    writeFileSync(join(dir, "bin", name), `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  }
  const workflows = ["--workflows", "examples/workflows"];
  api = new Api(await program.up(["--demo", "--data", join(dir, "data"), "--port", "0", ...workflows]).url);
});

afterAll(async () => {
  await program.stop();
  rmSync(dir, { recursive: true, force: true });
});

test("the commands start, explain, approve, watch and rerun a run, and curl starts and replays one", async () => {
  const shell = new Shell();
  const [small, large, explain, get, approve, watch, timeline, rerun, start, show, events, ...rest] =
    commands("A workflow in five minutes");
  expect(rest).toEqual([]);

  expect(await shell.run(small)).toMatch(/small {2}SUCCEEDED.*greet {2}SUCCEEDED\n.*SUCCEEDED\n$/s);

  await shell.run(large);
  await api.until(`/workflow-runs/${shell.RUN}`, ({ body }) => body.steps.ask.state === "RUNNING");
  const command = `approval approve ${shell.RUN}:ask@1`;
  expect(await shell.run(explain)).toContain(command);
  expect(await shell.run(get)).toContain(command);
  expect(await shell.run(approve)).toContain("approved");
  expect(await shell.run(watch)).toMatch(/ask {2}SUCCEEDED.*greet {2}SUCCEEDED\n.*SUCCEEDED\n$/s);
  expect(await shell.run(timeline)).toMatch(/run_started.*step_succeeded +ask +local.*run_succeeded/s);

  const again = (await shell.run(rerun)).trim();
  const ended = await api.until(`/workflow-runs/${again}`, ({ body }) => body.state !== "RUNNING");
  expect(ended.body).toMatchObject({ state: "SUCCEEDED", rerun_of: { run_id: shell.RUN, from_step: "pay" } });
  expect(await shell.run(timeline?.replace("$RUN", again))).toMatch(/step_kept +ask.*step_succeeded +pay/s);

  const started = JSON.parse(await shell.run(start));
  expect(started).toMatchObject({ workflow_id: "every-step", replayed: false });
  expect(JSON.parse(await shell.run(start))).toMatchObject({ run_id: started.run_id, replayed: true });
  await api.until(`/workflow-runs/${started.run_id}`, ({ body }) => body.state === "SUCCEEDED");
  expect(JSON.parse(await shell.run(show))).toMatchObject({ state: "SUCCEEDED", output: { greeting: "hello Ann" } });
  expect(JSON.parse(await shell.run(events)).items.at(-1)).toMatchObject({ event: "run_succeeded" });
});

test("the tour: a ticket waits for its approval, the kernel stops and starts, a lock becomes hot", async () => {
  const shell = new Shell();
  const [start, explain, approve, watch, stop, job, restart, heat, locks, ...rest] = commands("The tour in the shell");
  expect(rest).toEqual([]);

  await shell.run(start);
  await api.until(`/workflow-runs/${shell.RUN}`, ({ body }) => body.steps.refund?.state === "RUNNING");
  expect(await shell.run(explain)).toContain(`approval approve ${shell.RUN}:refund@1`);
  await shell.run(approve);
  expect(await shell.run(watch)).toMatch(/tell_customer.*SUCCEEDED\n$/s);

  expect(JSON.parse(await shell.run(stop))).toMatchObject({ kernel_stopped: true });
  expect(await shell.run(job)).toContain("stopped by the demo");
  expect(JSON.parse(await shell.run(restart))).toMatchObject({ kernel_stopped: false });
  await api.until("/status", ({ body }) => body.open_jobs.total === 0 && body.safety.breaker === "closed");

  const { hot_lock } = JSON.parse(await shell.run(heat));
  expect(await shell.run(locks)).toContain(hot_lock.run_id);
});

/** Supports the arguments used in the README. */
const CURL = `
const [silent, url, ...more] = process.argv.slice(2);
const headers = {};
let body;
while (more.length > 0) {
  const [flag, value] = more.splice(0, 2);
  if (flag === "-H") headers[value.split(": ")[0]] = value.split(": ")[1];
  else if (flag === "-d") body = value;
  else throw new Error("unknown argument: " + flag);
}
if (silent !== "-s") throw new Error("unknown arguments: " + process.argv.join(" "));
const init = { method: body === undefined ? "GET" : "POST", headers, body };
process.stdout.write(await (await fetch(url, init)).text());
`;

/** The lines of the section's shell blocks. */
function commands(title: string): readonly string[] {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const [, section = ""] = new RegExp(`\n## ${title}\n(.*?)\n## `, "s").exec(readme) ?? [];
  return [...section.matchAll(/```sh\n(.*?)```/gs)].flatMap(([, block = ""]) => block.trim().split("\n"));
}

/** Runs commands one after another and keeps the variable `RUN`. */
class Shell {
  RUN = "";

  /** Returns the command's stdout. Rejects on a nonzero exit code. */
  async run(command: string | undefined): Promise<string> {
    const runFile = join(dir, "RUN");
    const script = (command ?? "exit 1")
      .replace("http://127.0.0.1:8081", api.url)
      .replace(".cordum/token", join(dir, "data", "token"));
    const child = spawn("sh", ["-c", `set -e\n${script}\nprintf %s "$RUN" > ${runFile}`], {
      cwd: root,
      env: {
        PATH: [join(dir, "bin"), process.env.PATH].join(delimiter),
        CORDUM_URL: api.url,
        CORDUM_DATA_DIR: join(dir, "data"),
        RUN: this.RUN,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [[code], out, err] = await Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
    if (code !== 0) throw new Error(`\`${command}\` exited with ${code}: ${out}${err}`);
    this.RUN = readFileSync(runFile, "utf8");
    return out;
  }
}
