/**
 * Every setting there is: its name, what it counts, its default, its founding value where that differs, its range, and
 * what it does in one sentence. `cordum config explain`, docs/operations.md and the parser all read this table.
 *
 * 1. Only what something reads stands here.
 * 2. A name is API. Its environment variable follows from it, and no two names share one.
 * 3. Every default and every founding value lies within its range.
 */
import { formatBudget } from "../core/retry/budget.ts";
import { RETRY_CLASSES, type RetryClass } from "../core/retry/classes.ts";
import { formatPolicy } from "../core/retry/policies.ts";
import { BASELINE_RETRY, DEFAULT_RETRY } from "../core/retry/settings.ts";
import { FLOW_SETTINGS } from "./engine-settings.ts";
import { PROCESS_SETTINGS } from "./process-settings.ts";
import { RUN_SETTINGS } from "./run-settings.ts";
import type { Setting } from "./setting.ts";

const WAITS_FOR: Readonly<Record<RetryClass, string>> = {
  poison: "the bytes could not be read",
  unclassified: "it failed and nobody said why",
  lock_busy: "somebody else holds the lock",
  store_unavailable: "the store did not answer",
  safety_unavailable: "the safety kernel did not answer",
  no_worker: "nobody serves the topic",
  throttled: "the policy says later",
};

type RetryName = `retry.${RetryClass}.${"policy" | "budget"}`;

export type SettingName =
  | (typeof PROCESS_SETTINGS)[number]["name"]
  | (typeof FLOW_SETTINGS)[number]["name"]
  | (typeof RUN_SETTINGS)[number]["name"]
  | RetryName;

type NamedSetting = Setting & { readonly name: SettingName };

export const SETTINGS: readonly NamedSetting[] = [
  ...PROCESS_SETTINGS,
  ...FLOW_SETTINGS,
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
    const founding = BASELINE_RETRY[retryClass];
    return [
      {
        name: `retry.${retryClass}.policy`,
        type: { kind: "retry_policy" },
        ...defaults(formatPolicy(normal.policy), formatPolicy(founding.policy)),
        live: true,
        help: `How long to wait before the next try: ${WAITS_FOR[retryClass]}.`,
      },
      {
        name: `retry.${retryClass}.budget`,
        type: { kind: "retry_budget" },
        ...defaults(formatBudget(normal.budget), formatBudget(founding.budget)),
        live: true,
        help: `When to give up: ${WAITS_FOR[retryClass]}.`,
      },
    ];
  });
}

function defaults(normal: string, founding: string): { default: string; founding?: string } {
  return normal === founding ? { default: normal } : { default: normal, founding };
}
