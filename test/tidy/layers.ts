// Who may import whom. Imports point inward: `main, cli, lab → gateway → flow → jobs, retry, policy, workflow,
// rollout → model`, and `worlds → ports ← flow`. A row is a folder of src/ or a file directly in it; the row lists what it may
// import. `type x` means types only: they vanish at run time. `*` means anything.

import { type Source, targetOf, type Violation } from "./source.ts";

const DECISIONS = ["model", "jobs", "retry", "policy", "workflow", "rollout"];
const INNER = [...DECISIONS, "wire", "ports", "world", "config", "settings"];

export const LAYERS: Readonly<Record<string, readonly string[]>> = {
  // What stands on a record is described where it is decided: as types only, so that nouns decide nothing.
  model: ["model", "type retry", "type policy", "type wire"],
  jobs: ["jobs", "model", "retry", "wire", "type policy", "type settings"],
  retry: ["retry"],
  // The metered expression language, which conditions of policies and workflows are written in.
  expression: ["expression", "model"],
  yaml: ["yaml"],
  policy: ["policy", "expression", "yaml", "model", "retry"],
  workflow: ["workflow", "expression", "yaml", "model", "retry", "jobs", "wire", "type settings"],
  rollout: ["rollout", "model", "retry"],
  wire: ["wire", "model", "retry", "type policy"],
  ports: ["ports", "model", "retry", "wire", "policy"],
  world: ["ports"],
  settings: ["model", "retry"],
  config: ["config", "settings", "model", "retry"],
  flow: ["flow", "ports", "wire", ...DECISIONS, "world", "type config", "type settings"],
  control: ["flow", ...INNER],
  worker: ["worker", "ports", "model", "retry", "wire", "world"],
  worlds: ["worlds", "worker", ...INNER],
  sim: ["sim", "control", "flow", "worker", ...INNER],
  gateway: [
    "gateway",
    "flow",
    "ports",
    "model",
    "jobs",
    "retry",
    "policy",
    "workflow",
    "wire",
    "config",
    "settings",
    "world",
  ],
  client: ["client", "model"],
  lab: ["lab", "sim", "worlds", "gateway", "control", "flow", "worker", "client", ...INNER],
  cli: ["*"],
  main: ["*"],
  index: ["*"],
};

/** Folder or file → the packages and `node:` modules it may import. A key that is a path covers what begins with it. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  "src/worlds/": ["*"],
  "src/cli/": ["*"],
  "src/main.ts": ["*"],
  "src/gateway/server": ["*"],
  "src/gateway/": ["type fastify", "typebox"],
  "src/wire/codec": ["*"],
  // Pure libraries: same input, same output, nothing of the outside.
  "src/expression/": ["re2js", "@marcbachmann/cel-js"],
  "src/yaml/": ["yaml"],
  "src/policy/": ["yaml", "re2js", "@marcbachmann/cel-js"],
  "src/workflow/": ["yaml", "re2js", "@marcbachmann/cel-js"],
  "src/config": ["yaml"],
};

/** Hashing at once is a pure function; whoever hashes may import these, anywhere. */
const HASHING = { from: "node:crypto", names: ["createHash", "hash"] };

/** The row that a file belongs to: `src/flow/admit.ts` → `flow`, `src/world.ts` → `world`. */
export function areaOf(path: string): string {
  return path.split("/")[1]?.replace(/\.ts$/, "") ?? "";
}

export function checkLayers(sources: readonly Source[]): Violation[] {
  const violations: Violation[] = [];
  for (const source of sources) {
    const area = areaOf(source.path);
    const row = LAYERS[area];
    if (row === undefined) {
      const message = `\`${area}\` has no row in test/tidy/layers.ts: add one, or move the file to where it belongs`;
      violations.push({ path: source.path, line: 1, message });
      continue;
    }
    for (const { from, isTypeOnly, line } of source.imports) {
      const target = targetOf(source, from);
      if (target === null) continue;
      const reason = refusal(area, row, target, isTypeOnly);
      if (reason !== null) violations.push({ path: source.path, line, message: `imports \`${from}\`: ${reason}` });
    }
  }
  return violations;
}

export function checkPackages(sources: readonly Source[]): Violation[] {
  const violations: Violation[] = [];
  for (const source of sources) {
    const allowed = Object.keys(PACKAGES)
      .filter((prefix) => source.path.startsWith(prefix))
      .flatMap((prefix) => PACKAGES[prefix] ?? []);
    for (const { from, names, isTypeOnly, line } of source.imports) {
      const isHashing =
        from === HASHING.from && names.length > 0 && names.every((name) => HASHING.names.includes(name));
      if (targetOf(source, from) !== null || isHashing || allows(allowed, packageOf(from), isTypeOnly)) continue;
      const message =
        `imports \`${from}\`: packages and \`node:\` modules belong in src/worlds/, src/cli/, src/main.ts, ` +
        "src/gateway/server* and src/wire/codec*; put what you need behind a port, or pass it in";
      violations.push({ path: source.path, line, message });
    }
  }
  return violations;
}

function refusal(area: string, row: readonly string[], target: string, isTypeOnly: boolean): string | null {
  if (!target.startsWith("src/")) return "src/ must not depend on what lies outside it; move what is shared into src/";
  const inner = areaOf(target);
  if (allows(row, inner, isTypeOnly)) return null;
  if (allows(row, inner, true)) return `\`${area}\` may import types only from \`${inner}\`; use \`import type\``;
  return `\`${area}\` may import ${row.join(", ")}; pass it in as an argument, or move it inward`;
}

function allows(list: readonly string[], name: string, isTypeOnly: boolean): boolean {
  return list.includes("*") || list.includes(name) || (isTypeOnly && list.includes(`type ${name}`));
}

/** `@scope/name/sub` → `@scope/name`, `yaml/x` → `yaml`. */
function packageOf(from: string): string {
  return from
    .split("/")
    .slice(0, from.startsWith("@") ? 2 : 1)
    .join("/");
}
