import { configure } from "../config/config.ts";
import type { Settings } from "../core/settings.ts";
import { readSource, type Source } from "./documents.ts";
import type { TestHandler } from "./handler-gate.ts";
import { PlaneError } from "./plane-error.ts";

/** Options of `createTestPlane`; all are optional. */
export interface TestPlaneOptions {
  /** The policy; without one everything of tenant `default` is allowed, as in `cordum up`. */
  readonly policy?: Source;
  /** Workflow definitions; apply sub-workflows in any order. */
  readonly workflows?: readonly Source[];
  /** Handlers by topic. Jobs of other topics wait for a worker. */
  readonly workers?: Readonly<Record<string, TestHandler>>;
  /** What `requires` of jobs is matched against. */
  readonly capabilities?: readonly string[];
  /** Jobs that a worker handles at a time; 10 by default. */
  readonly concurrency?: number;
  /** Settings, with the names of `cordum.yaml`. */
  readonly config?: Source;
  /** The seed of ids, jitter and faults; equal seeds give equal histories. 1 by default. */
  readonly seed?: number;
  /**
   * Injected faults: crashes, pauses, partitions, lost and duplicated messages, failing store calls, outages of the safety
   * kernel, clock steps. `lite` has all kinds, rarely; `swarm` has a seeded subset, often. `none` by default.
   */
  readonly faults?: "none" | "lite" | "swarm";
  /** The virtual time of the start; 2026-01-01T00:00:00Z by default. */
  readonly startAt?: Date | string;
  readonly limits?: TestPlaneLimits;
}

/** Bounds; exceeding one is an error. */
export interface TestPlaneLimits {
  /** Real milliseconds that a handler may take without virtual waits; 5000 by default. */
  readonly handlerMs?: number;
  /** Virtual time that one call may take; 366 days by default. */
  readonly virtualMs?: number;
  /** Simulated events over the life of the plane; 20 million by default. */
  readonly events?: number;
  /** Jobs over the life of the plane; 10000 by default. */
  readonly jobs?: number;
}

/** The options with their defaults. */
export interface ParsedOptions {
  readonly settings: Settings;
  readonly workers: ReadonlyMap<string, TestHandler>;
  readonly capabilities: readonly string[];
  readonly concurrency: number;
  readonly seed: number;
  readonly faults: "none" | "lite" | "swarm";
  readonly startMs: number;
  readonly limits: Required<TestPlaneLimits>;
}

export function parseOptions(options: TestPlaneOptions): ParsedOptions {
  const { seed = 1, faults = "none", startAt = START, concurrency = 10, capabilities = [] } = options;
  const startMs = new Date(startAt).getTime();
  const limits = { ...LIMITS, ...options.limits };
  const workers = new Map(Object.entries(options.workers ?? {}));
  const problems = [
    ...unknownNames(options, OPTION_NAMES, "option"),
    ...unknownNames(limits, Object.keys(LIMITS), "limit"),
    ...(Number.isSafeInteger(seed) && seed >= 0 ? [] : [`\`seed\` must be a whole number from 0, not \`${seed}\``]),
    ...(["none", "lite", "swarm"].includes(faults)
      ? []
      : [`\`faults\` must be \`none\`, \`lite\` or \`swarm\`, not \`${faults}\``]),
    ...(Number.isFinite(startMs) ? [] : [`\`startAt\` must be a date, not \`${String(startAt)}\``]),
    ...(Number.isSafeInteger(concurrency) && concurrency > 0 ? [] : ["`concurrency` must be a positive whole number"]),
    ...Object.entries(limits)
      .filter(([, value]) => !(value > 0))
      .map(([name, value]) => `\`limits.${name}\` must be a positive number, not \`${value}\``),
    ...[...workers]
      .filter(([, handler]) => typeof handler !== "function")
      .map(([topic]) => `\`workers["${topic}"]\` must be a function`),
  ];
  if (problems.length > 0) throw new PlaneError("invalid_options", problems.join("; "), { problems });
  const settings = settingsOf(options.config);
  return { settings, workers, capabilities, concurrency, seed, faults, startMs, limits };
}

function settingsOf(config: Source | undefined): Settings {
  const configured = configure(config === undefined ? {} : { file: readSource(config, "config") });
  if (configured.kind === "ok") return configured.config.settings;
  const { problems } = configured;
  throw new PlaneError("invalid_config", `invalid configuration:\n  ${problems.join("\n  ")}`, { problems });
}

function unknownNames(given: object, known: readonly string[], noun: string): readonly string[] {
  return Object.keys(given)
    .filter((name) => !known.includes(name))
    .map((name) => `unknown ${noun} \`${name}\`; known are ${known.map((one) => `\`${one}\``).join(", ")}`);
}

const OPTION_NAMES: readonly string[] = [
  ...["policy", "workflows", "workers", "capabilities", "concurrency", "config", "seed", "faults", "startAt", "limits"],
];
const START = "2026-01-01T00:00:00Z";
const LIMITS: Required<TestPlaneLimits> = {
  handlerMs: 5_000,
  virtualMs: 366 * 24 * 3_600_000,
  events: 20_000_000,
  jobs: 10_000,
};
