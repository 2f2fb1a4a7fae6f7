// npm run mutate -- [--files GLOB]... [--at FILE:LINE]... [--tests FOLDER]... [--count N] [--seed N] [--min PERCENT]
//   [--timeout SECONDS]
// Mutation testing: changes one place of the sources at a time and runs the test files that reach it, the nearest and fastest
// first. Prints the mutants that no test detects, and exits with 1 if fewer than `--min` percent were detected. The same seed
// draws the same mutants; `--at` takes all mutants that begin in a line, to check survivors again. Works on a copy in a temporary folder; the checkout is not touched. Not part of `npm test`.

import { spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { parseArgs } from "node:util";
import { FAST_ENV } from "./fast-tests.mjs";
import { ensureInstalled } from "./install.mjs";
import { root, runAsMain } from "./run.mjs";

/** The tests that may detect a mutant: those of the engine in this process, also behind the gateway and in the lab. */
const TESTS = ["contract", "core", "engine", "gateway", "lab", "protocol", "security", "sim", "testing"].map(
  (folder) => `test/${folder}/`,
);

const { values } = parseArgs({
  options: {
    files: { type: "string", multiple: true, default: ["src/core/**", "src/engine/**"] },
    at: { type: "string", multiple: true, default: [] },
    tests: { type: "string", multiple: true, default: TESTS },
    count: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    min: { type: "string", default: "90" },
    timeout: { type: "string", default: "600" },
  },
});

/** A slow test is not a failed one. */
const TEST_MS_MAX = "600000";
const FIRST_RUN_MS_MAX = 3_600_000;
const SIM_SEEDS = "8";
/** Test files of this many seconds together run first. */
const FIRST_SEC = 10;

await runAsMain(async () => {
  await ensureInstalled();
  const { mutantsOf } = await import("./mutants.mjs");
  const files = sourcesIn(values.files);
  const all = files.flatMap((file) => mutantsOf(read(root, file)).map((mutant) => ({ file, ...mutant })));
  if (all.length === 0)
    throw new Error(`no mutants in ${values.files.join(", ")}; give --files a glob such as src/core/**`);
  const isAt = new Set(values.at);
  const mutants =
    isAt.size > 0
      ? all.filter((mutant) => isAt.has(placeOf(mutant)))
      : draw(all, Number(values.count), Number(values.seed));
  console.log(`${mutants.length} of ${all.length} mutants in ${files.length} files, seed ${values.seed}`);
  const copy = copyTree();
  const survivors = [];
  try {
    const reach = await findReach(copy, mutants);
    for (const [at, mutant] of mutants.entries()) {
      const detectedBy = await detect(copy, mutant, reach);
      if (detectedBy === null) survivors.push(mutant);
      const result = detectedBy === null ? "SURVIVED" : "detected";
      console.log(
        `${at + 1}/${mutants.length} ${result}  ${describe(mutant)}${detectedBy ? `  by ${detectedBy}` : ""}`,
      );
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  const score = (100 * (mutants.length - survivors.length)) / mutants.length;
  console.log(`\n${survivors.length} survivors${survivors.map((mutant) => `\n  ${describe(mutant)}`).join("")}`);
  console.log(`\nscore ${score.toFixed(1)} %, required ${values.min} %`);
  if (score < Number(values.min)) process.exitCode = 1;
});

function sourcesIn(globs) {
  const patterns = globs.map((glob) => {
    const escaped = glob.replace(/[.+^${}()|[\]\\?]/g, "\\$&");
    return new RegExp(`^${escaped.replace(/\*\*\/?|\*/g, (stars) => (stars === "*" ? "[^/]*" : ".*"))}$`);
  });
  const names = readdirSync(join(root, "src"), { recursive: true }).map((name) => `src/${name}`.replaceAll("\\", "/"));
  return names.filter((name) => name.endsWith(".ts") && patterns.some((pattern) => pattern.test(name))).sort();
}

function read(folder, file) {
  return readFileSync(join(folder, file), "utf8");
}

/** A random sample in random order, without repetition. */
function draw(all, count, seed) {
  const left = [...all];
  let state = seed >>> 0;
  // mulberry32
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return Array.from(
    { length: Math.min(count, all.length) },
    () => left.splice(Math.floor(random() * left.length), 1)[0],
  );
}

function copyTree() {
  const copy = mkdtempSync(join(tmpdir(), "cordum-mutate-"));
  const isLeftOut = (path) => /^(node_modules|\.git|dist)(\/|\\|$)/.test(relative(root, path));
  cpSync(root, copy, { recursive: true, filter: (path) => !isLeftOut(path) });
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"), "junction");
  return copy;
}

/** Which test files reach each mutant, and how long each file takes. Also checks that the tests pass without a mutant. */
async function findReach(copy, mutants) {
  const { ANY_TEST, withProbes } = await import("./probes.mjs");
  const [record, report] = [join(copy, "reach.txt"), join(copy, "report.json")];
  writeFileSync(record, "");
  const files = [...new Set(mutants.map(({ file }) => file))];
  for (const file of files) {
    const places = mutants.flatMap((mutant, at) => (mutant.file === file ? [[mutant.start, at]] : []));
    writeFileSync(join(copy, file), withProbes(read(root, file), places, record));
  }
  const reporters = ["--reporter=dot", "--reporter=json", `--outputFile.json=${report}`];
  const { kind, output } = await runTests(copy, values.tests, reporters, FIRST_RUN_MS_MAX);
  // A failure without a mutant would count as a detection.
  if (kind !== "passed") throw new Error(`the tests fail without a mutant:\n${output.slice(-2_000)}`);
  for (const file of files) writeFileSync(join(copy, file), read(root, file));
  const nameOf = (path) => relative(copy, path).replaceAll("\\", "/");
  const seconds = new Map(
    JSON.parse(read(copy, "report.json")).testResults.map((result) => [
      nameOf(result.name),
      (result.endTime - result.startTime) / 1_000,
    ]),
  );
  const testsOf = new Map(mutants.map((mutant) => [mutant, new Set()]));
  const isForAny = new Set();
  for (const line of read(copy, "reach.txt").split("\n").filter(Boolean)) {
    const [at, path] = line.split(" ");
    if (path === ANY_TEST) isForAny.add(mutants[at]);
    else testsOf.get(mutants[at]).add(nameOf(path));
  }
  return { seconds, testsOf, isForAny };
}

/** The test that detects the mutant, or null. */
async function detect(copy, mutant, reach) {
  const source = read(copy, mutant.file);
  writeFileSync(join(copy, mutant.file), source.slice(0, mutant.start) + mutant.text + source.slice(mutant.end));
  try {
    for (const tests of stagesOf(mutant, reach)) {
      const { kind, output } = await runTests(copy, tests, undefined, timeoutMsOf(tests, reach));
      if (kind !== "passed") return /FAIL .*?(test\/.*)$/m.exec(output)?.[1] ?? `tests that are ${kind}`;
    }
    return null;
  } finally {
    writeFileSync(join(copy, mutant.file), source);
  }
}

/** Ten times as long as without the mutant, and a minute to start. Tests that take longer loop. */
function timeoutMsOf(tests, { seconds }) {
  const sec = tests.reduce((sum, test) => sum + seconds.get(test), 0);
  return Math.min(60 + 10 * sec, Number(values.timeout)) * 1_000;
}

/** The test files for a mutant, in groups: some near and fast ones, the others that reach it, all others if any may. */
function stagesOf(mutant, { seconds, testsOf, isForAny }) {
  const near = nearTests(mutant.file);
  const rank = (test) => seconds.get(test) + (test.startsWith(near) ? 0 : FIRST_SEC);
  const reached = [...testsOf.get(mutant)].sort((a, b) => rank(a) - rank(b));
  const first = reached.splice(0, 1);
  for (let left = FIRST_SEC; reached.length > 0; first.push(...reached.splice(0, 1))) {
    left -= seconds.get(reached[0]);
    if (left < 0) break;
  }
  const others = isForAny.has(mutant) ? [...seconds.keys()].filter((test) => !testsOf.get(mutant).has(test)) : [];
  // Without a file name, vitest runs all tests.
  return [first, reached, others].filter((tests) => tests.length > 0);
}

/** The mirrored folder of the source, or the nearest that exists. */
function nearTests(file) {
  let folder = dirname(file).replace(/^src/, "test");
  while (!existsSync(join(root, folder))) folder = dirname(folder);
  return `${folder}/`;
}

/** `looping` if the tests do not end in time. */
function runTests(copy, tests, reporters = ["--reporter=dot"], timeoutMs) {
  const vitest = join(copy, "node_modules", "vitest", "vitest.mjs");
  const args = [vitest, "run", "--project=pure", "--bail=1", ...reporters, "--passWithNoTests", ...tests];
  return new Promise((resolve) => {
    const env = { ...process.env, ...FAST_ENV, CORDUM_SIM_SEEDS: SIM_SEEDS, CORDUM_TEST_MS_MAX: TEST_MS_MAX };
    const child = spawn(process.execPath, args, { cwd: copy, env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ kind: code === null ? "looping" : code === 0 ? "passed" : "failed", output });
    });
  });
}

function placeOf({ file, start }) {
  return `${file}:${read(root, file).slice(0, start).split("\n").length}`;
}

function describe(mutant) {
  const { file, start, end, text } = mutant;
  const source = read(root, file);
  const flat = (code) => code.replace(/\s+/g, " ").slice(0, 80);
  return `${placeOf(mutant)}  ${flat(source.slice(start, end))}  →  ${flat(text) || "(nothing)"}`;
}
