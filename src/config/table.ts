/**
 * The table of settings, read by the parser, `cordum config explain` and the test that generates docs/operations.md.
 *
 * Setting names are API, and so are their environment variables, which are derived from the names.
 */
import { formatBudget } from "../core/retry/budget.ts";
import { formatPolicy } from "../core/retry/policies.ts";
import { RETRY_CLASSES, type RetryClass } from "../core/retry/retry-classes.ts";
import { BASELINE_RETRY, DEFAULT_RETRY } from "../core/retry/settings.ts";
import { ENGINE_SETTINGS } from "./engine-settings.ts";
import { PROCESS_SETTINGS } from "./process-settings.ts";
import { RUN_SETTINGS } from "./run-settings.ts";
import type { Setting } from "./setting.ts";

const CAUSES: Readonly<Record<RetryClass, string>> = {
  poison: "the message cannot be decoded",
  unclassified: "an error without a retry class",
  lock_busy: "the lock is held",
  store_unavailable: "the store is unavailable",
  safety_unavailable: "the safety kernel is unavailable",
  no_worker: "no worker serves the topic",
  throttled: "a policy rule throttles the job",
};

type RetryName = `retry.${RetryClass}.${"policy" | "budget"}`;

export type SettingName =
  | (typeof PROCESS_SETTINGS)[number]["name"]
  | (typeof ENGINE_SETTINGS)[number]["name"]
  | (typeof RUN_SETTINGS)[number]["name"]
  | RetryName;

type NamedSetting = Setting & { readonly name: SettingName };

export const SETTINGS: readonly NamedSetting[] = [
  ...PROCESS_SETTINGS,
  ...ENGINE_SETTINGS,
  ...RUN_SETTINGS,
  ...retrySettings(),
];

export const SETTING_NAMES: readonly SettingName[] = SETTINGS.map((setting) => setting.name);

const BY_NAME: ReadonlyMap<string, NamedSetting> = new Map(SETTINGS.map((setting) => [setting.name, setting]));

export function settingNamed(name: string): NamedSetting | undefined {
  return BY_NAME.get(name);
}

/** `bus.park_after_ms` is `CORDUM_BUS_PARK_AFTER_MS`. */
export function environmentName(name: string): string {
  return `CORDUM_${name.replaceAll(".", "_").toUpperCase()}`;
}

function retrySettings(): readonly NamedSetting[] {
  return RETRY_CLASSES.flatMap((retryClass): NamedSetting[] => {
    const normal = DEFAULT_RETRY[retryClass];
    const baseline = BASELINE_RETRY[retryClass];
    return [
      {
        name: `retry.${retryClass}.policy`,
        type: { kind: "retry_policy" },
        ...defaults(formatPolicy(normal.policy), formatPolicy(baseline.policy)),
        live: true,
        help: `Retry delay of the class \`${retryClass}\`: ${CAUSES[retryClass]}.`,
      },
      {
        name: `retry.${retryClass}.budget`,
        type: { kind: "retry_budget" },
        ...defaults(formatBudget(normal.budget), formatBudget(baseline.budget)),
        live: true,
        help: `Retry budget of the class \`${retryClass}\`: ${CAUSES[retryClass]}.`,
      },
    ];
  });
}

function defaults(normal: string, baseline: string): { default: string; baseline?: string } {
  return normal === baseline ? { default: normal } : { default: normal, baseline };
}
