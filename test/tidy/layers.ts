// Import rules. Imports point inward: `cli, gateway, lab → engine → core` and `adapters → ports ← engine`. A row is a folder
// of src/ (of src/core/: each of its folders); it lists what its files may import. `type x` allows types only, `*` anything.

import { type Source, targetOf, type Violation } from "./source.ts";

const DECISIONS = [
  "core/model",
  "core/jobs",
  "core/retry",
  "core/policy",
  "core/workflow",
  "core/rollout",
  "core/contention",
  "core/expression",
  "core/evaluation",
  "core/schedule",
];
const INNER = [...DECISIONS, "core/settings", "protocol", "ports", "config"];

export const LAYERS: Readonly<Record<string, readonly string[]>> = {
  "core/model": ["core/model", "type core/retry", "type core/policy", "type core/rollout", "type protocol"],
  "core/jobs": ["core/jobs", "core/model", "core/retry", "protocol", "type core/policy", "type core/settings"],
  "core/retry": ["core/retry"],
  "core/expression": ["core/expression", "core/model"],
  "core/yaml": ["core/yaml"],
  "core/policy": ["core/policy", "core/expression", "core/yaml", "core/schedule", "core/model", "core/retry"],
  "core/workflow": [
    ...["core/workflow", "core/expression", "core/yaml", "core/model", "core/retry", "core/jobs", "protocol"],
    "type core/settings",
  ],
  "core/evaluation": [
    ...["core/evaluation", "core/expression", "core/policy", "core/workflow", "core/contention"],
    ...["type core/rollout", "type core/settings"],
  ],
  "core/rollout": ["core/rollout", "core/model", "core/retry", "type core/settings"],
  "core/contention": ["core/contention", "core/model", "core/retry", "core/rollout", "protocol", "type core/settings"],
  "core/schedule": ["core/schedule", "core/model", "core/retry", "core/rollout"],
  "core/settings": ["core/model", "core/retry"],
  protocol: ["protocol", "core/model", "core/retry", "type core/policy"],
  ports: ["ports", "core/model", "core/retry", "core/policy", "protocol", "type core/evaluation"],
  config: ["config", "core/settings", "core/model", "core/retry"],
  engine: ["engine", "ports", "protocol", ...DECISIONS, "type config", "type core/settings"],
  worker: ["worker", "ports", "protocol", "core/model", "core/retry"],
  adapters: ["adapters", "worker", ...INNER],
  worlds: ["worlds", "adapters", "worker", "client", ...INNER],
  sim: ["sim", "engine", "worker", ...INNER],
  gateway: ["gateway", "engine", ...INNER],
  testing: ["testing", "sim", "gateway", "engine", "worker", ...INNER],
  client: ["client", "core/model"],
  lab: ["lab", "sim", "worlds", "adapters", "gateway", "engine", "worker", "client", ...INNER],
  cli: ["*"],
  main: ["*"],
  index: ["*"],
};

/** The same for folders of dashboard/src; a page imports no other page. */
const DASHBOARD: Readonly<Record<string, readonly string[]>> = {
  data: ["data", "client", "type core/model"],
  kit: ["kit", "data", "client"],
  pages: ["kit", "data", "client"],
  app: ["app", "kit", "data", "pages/registry.ts", "client"],
  "main.tsx": ["app", "data", "styles"],
};

export function checkDashboardLayers(sources: readonly Source[]): Violation[] {
  return sources.flatMap((source) =>
    source.imports.flatMap(({ from, isTypeOnly, line }) => {
      const target = targetOf(source, from);
      if (target === null) return [];
      const [, , area = "", page = ""] = source.path.split("/");
      const row = DASHBOARD[area] ?? [];
      const [top = "", ...rest] = target.replace(/^dashboard\/src\/|^src\//, "").split("/");
      const inner = top === "core" ? `core/${rest[0]}` : top === "pages" ? `pages/${rest[0]}` : top;
      const isOwn = inner === `pages/${page}` || source.path.endsWith("pages/registry.ts");
      if (isOwn || allows(row, inner, isTypeOnly)) return [];
      const message = `imports \`${from}\`: \`${area}\` may import ${row.join(", ")}; move what pages share to kit or data`;
      return [{ path: source.path, line, message }];
    }),
  );
}

/** Packages and `node:` modules that files may import, by path prefix. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  "src/adapters/": ["*"],
  "src/worlds/": ["*"],
  "src/cli/": ["*"],
  "src/main.ts": ["*"],
  "src/gateway/server": ["*"],
  "src/testing/": ["node:async_hooks", "node:fs", "node:path"],
  "src/gateway/": ["type fastify", "typebox"],
  "src/protocol/codec": ["*"],
  // Pure libraries: deterministic, without I/O.
  "src/core/expression/": ["re2js", "@marcbachmann/cel-js"],
  "src/core/yaml/": ["yaml"],
  "src/core/schedule/": ["croner"],
  "src/core/policy/": ["yaml", "re2js", "@marcbachmann/cel-js"],
  "src/core/workflow/": ["yaml", "re2js", "@marcbachmann/cel-js"],
  "src/config": ["yaml"],
};

/** Synchronous hashing is a pure function; every file may import these. */
const HASHING = { from: "node:crypto", names: ["createHash", "hash"] };

/** The row of a file: `src/engine/intake/admit-job.ts` → `engine`, `src/core/jobs/attempt.ts` → `core/jobs`. */
export function areaOf(path: string): string {
  const [, first = "", second = ""] = path.split("/");
  return (first === "core" ? `core/${second}` : first).replace(/\.ts$/, "");
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
        `imports \`${from}\`: packages and \`node:\` modules belong in src/adapters/, src/worlds/, src/cli/, ` +
        "src/main.ts, src/gateway/server* and src/protocol/codec*; put what you need behind a port, or pass it in";
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
