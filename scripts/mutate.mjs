// npm run mutate -- [--files GLOB]... [--count N] [--seed N] [--min PERCENT] [--timeout SECONDS]
// Mutation testing: changes one place of the sources at a time and runs the tests that should fail. Prints the mutants that
// no test detects, and exits with 1 if fewer than `--min` percent were detected. The same seed draws the same mutants. Works
// on a copy in a temporary folder; the checkout is not touched. Not part of `npm test`.

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

const { values } = parseArgs({
  options: {
    files: { type: "string", multiple: true, default: ["src/core/**", "src/engine/**"] },
    count: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    min: { type: "string", default: "90" },
    timeout: { type: "string", default: "600" },
  },
});

/** The tests that may detect a mutant, the slow ones last. */
const TESTS = [
  ["test/core/", "test/engine/", "test/protocol/"],
  ["test/sim/", "test/contract/"],
];

await runAsMain(async () => {
  await ensureInstalled();
  const { mutantsOf } = await import("./mutants.mjs");
  const files = sourcesIn(values.files);
  const all = files.flatMap((file) => mutantsOf(read(root, file)).map((mutant) => ({ file, ...mutant })));
  if (all.length === 0)
    throw new Error(`no mutants in ${values.files.join(", ")}; give --files a glob such as src/core/**`);
  const mutants = draw(all, Number(values.count), Number(values.seed));
  console.log(`${mutants.length} of ${all.length} mutants in ${files.length} files, seed ${values.seed}`);
  const copy = copyTree();
  const survivors = [];
  try {
    // A failure without a mutant would count as a detection.
    const { kind, output } = await runTests(copy, TESTS.flat());
    if (kind !== "passed") throw new Error(`the tests fail without a mutant:\n${output.slice(-2_000)}`);
    for (const [at, mutant] of mutants.entries()) {
      const detectedBy = await detect(copy, mutant);
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

/** The test that detects the mutant, or null. The tests beside the changed file run first, then the others. */
async function detect(copy, mutant) {
  const source = read(copy, mutant.file);
  writeFileSync(join(copy, mutant.file), source.slice(0, mutant.start) + mutant.text + source.slice(mutant.end));
  const near = nearTests(mutant.file);
  const stages = [
    testsIn([near]),
    ...TESTS.map((folders) => testsIn(folders).filter((test) => !test.startsWith(near))),
  ];
  try {
    // Without a file name, vitest runs all tests.
    for (const tests of stages.filter((files) => files.length > 0)) {
      const { kind, output } = await runTests(copy, tests);
      if (kind !== "passed") return /^.*FAIL .*?(test\/.*)$/m.exec(output)?.[1] ?? `${kind} tests of ${near}`;
    }
    return null;
  } finally {
    writeFileSync(join(copy, mutant.file), source);
  }
}

/** The mirrored folder of the source, or the nearest that exists. */
function nearTests(file) {
  let folder = dirname(file).replace(/^src/, "test");
  while (!existsSync(join(root, folder))) folder = dirname(folder);
  return `${folder}/`;
}

function testsIn(folders) {
  const names = readdirSync(join(root, "test"), { recursive: true }).map((name) =>
    `test/${name}`.replaceAll("\\", "/"),
  );
  return names.filter((name) => name.endsWith(".test.ts") && folders.some((folder) => name.startsWith(folder))).sort();
}

/** `looping` if the tests do not end in time. */
function runTests(copy, tests) {
  const vitest = join(copy, "node_modules", "vitest", "vitest.mjs");
  const args = [vitest, "run", "--project=pure", "--bail=1", "--reporter=dot", "--passWithNoTests", ...tests];
  return new Promise((resolve) => {
    const env = { ...process.env, ...FAST_ENV };
    const child = spawn(process.execPath, args, { cwd: copy, env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const timer = setTimeout(() => child.kill("SIGKILL"), Number(values.timeout) * 1_000);
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ kind: code === null ? "looping" : code === 0 ? "passed" : "failed", output });
    });
  });
}

function describe({ file, start, end, text }) {
  const source = read(root, file);
  const line = source.slice(0, start).split("\n").length;
  const flat = (code) => code.replace(/\s+/g, " ").slice(0, 80);
  return `${file}:${line}  ${flat(source.slice(start, end))}  →  ${flat(text) || "(nothing)"}`;
}
