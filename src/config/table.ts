/**
 * Every setting there is: its name, what it counts, its default, its founding value where that differs, its range, and
 * what it does in one sentence. `cordum config explain`, docs/operations.md and the parser all read this table.
 *
 * 1. Only what something reads stands here.
 * 2. A name is API. Its environment variable follows from it, and no two names share one.
 * 3. Every default and every founding value lies within its range.
 */
import { formatBudget } from "../retry/budget.ts";
import { RETRY_CLASSES, type RetryClass } from "../retry/classes.ts";
import { formatPolicy } from "../retry/policies.ts";
import { DEFAULT_RETRY, FOUNDING_RETRY } from "../retry/settings.ts";

export type Value = string | number | null;

export interface Setting {
  readonly name: string;
  readonly type: SettingType;
  readonly default: Value;
  /** What `profile: founding` makes of the default; absent where it is the same. */
  readonly founding?: Value;
  /** Taken over by a running process when the config file changes; everything else needs a restart. */
  readonly live?: true;
  readonly help: string;
}

export type SettingType =
  /** `never` stands for null, where the setting can be switched off. */
  | { readonly kind: "whole"; readonly unit: Unit; readonly min: number; readonly max: number; readonly orNever?: true }
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  /** null stands for "not set". */
  | { readonly kind: "text"; readonly unit: "path" | "url" | "host" | "name" }
  | { readonly kind: "retry_policy" }
  | { readonly kind: "retry_budget" };

export type Unit = "ms" | "bytes" | "messages" | "jobs" | "records" | "deliveries" | "port";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const ms = (min: number, max: number) => ({ kind: "whole", unit: "ms", min, max }) as const;
const count = <U extends Unit>(unit: U, min: number, max: number) => ({ kind: "whole", unit, min, max }) as const;

const PROCESS_SETTINGS = [
  {
    name: "profile",
    type: { kind: "choice", choices: ["default", "founding"] },
    default: "default",
    help: "`founding` switches every default to the value of the founding documents, so that the two can be compared.",
  },
  {
    name: "name",
    type: { kind: "text", unit: "name" },
    default: null,
    help: "Names this process to operators; made from host, pid and boot when not set.",
  },
  {
    name: "data.dir",
    type: { kind: "text", unit: "path" },
    default: ".cordum",
    help: "The data directory of an embedded control plane; it belongs to one process at a time.",
  },
  {
    name: "http.host",
    type: { kind: "text", unit: "host" },
    default: "127.0.0.1",
    help: "The address the gateway listens on; only loopback, because there are no API keys yet.",
  },
  {
    name: "http.port",
    type: count("port", 0, 65_535),
    default: 8081,
    help: "The port the gateway listens on; 0 picks a free one and prints it.",
  },
  {
    name: "http.body_bytes_max",
    type: count("bytes", 1_024, 2 * 1024 * 1024),
    default: 1024 * 1024,
    help: "The largest request body; a larger one is refused with 413.",
  },
  {
    name: "nats.url",
    type: { kind: "text", unit: "url" },
    default: null,
    help: "The NATS server of a cluster; embedded when not set. Goes together with `redis.url`.",
  },
  {
    name: "redis.url",
    type: { kind: "text", unit: "url" },
    default: null,
    help: "The Redis server of a cluster; embedded when not set. Goes together with `nats.url`.",
  },
  {
    name: "policy.file",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "The safety policy; a built-in one when not set, and `cordum status` says which.",
  },
  {
    name: "safety.fail_mode",
    type: { kind: "choice", choices: ["closed"] },
    default: "closed",
    help: "What happens while the safety kernel does not answer: `closed` makes jobs wait. Also read as `POLICY_CHECK_FAIL_MODE`.",
  },
  {
    name: "log.level",
    type: { kind: "choice", choices: ["debug", "info", "warn", "error"] },
    default: "info",
    help: "Which log lines are written to stderr.",
  },
] as const satisfies readonly Setting[];

const FLOW_SETTINGS = [
  {
    name: "bus.ack_wait_ms",
    type: ms(1_000, HOUR_MS),
    default: 30_000,
    founding: 600_000,
    help: "How long a silent consumer keeps a message before another gets it; extended while a handler works.",
  },
  {
    name: "bus.max_deliver",
    type: count("deliveries", 20, 100_000),
    default: 100,
    help: "The broker's own last resort; the retry budgets end before it.",
  },
  {
    name: "bus.max_ack_pending",
    type: count("messages", 1, 100_000),
    default: 1_024,
    help: "Messages that may be with the handlers of one consumer at the same time.",
  },
  {
    name: "bus.park_after_ms",
    type: { ...ms(0, 10 * MINUTE_MS), orNever: true },
    default: 2_000,
    founding: null,
    help: "Retries that wait longer leave the broker's window and wait in the store; `never` keeps them all in the broker.",
  },
  {
    name: "dispatch.window_max",
    type: count("jobs", 1, 100_000),
    default: 1_024,
    help: "Jobs of one topic that may be with workers at the same time.",
  },
  {
    name: "dispatch.deadline_ms",
    type: ms(100, DAY_MS),
    default: MINUTE_MS,
    help: "How long an attempt may take before it counts as lost and the next one is sent.",
  },
  {
    name: "job.deadline_ms",
    type: ms(1_000, 30 * DAY_MS),
    default: DAY_MS,
    help: "A job's own patience: after this it ends as TIMEOUT, whatever it waits for.",
  },
  {
    name: "job.lock_ttl_ms",
    type: ms(1_000, 10 * MINUTE_MS),
    default: MINUTE_MS,
    help: "How long a job's lock outlives a holder that died.",
  },
  {
    name: "sweep.every_ms",
    type: ms(10, MINUTE_MS),
    default: 1_000,
    help: "How often the sweeper looks for what is due.",
  },
  {
    name: "sweep.horizon_ms",
    type: ms(10, 5 * MINUTE_MS),
    default: 2_000,
    help: "Due items this far ahead are claimed and get a timer each, so that they fire as spread as they were meant.",
  },
  {
    name: "sweep.lease_ms",
    type: ms(1_000, HOUR_MS),
    default: 10_000,
    help: "How long a claimed item is hidden from other sweepers; after the death of its claimer it comes back then.",
  },
  {
    name: "sweep.batch_max",
    type: count("records", 1, 10_000),
    default: 1_000,
    help: "Items claimed in one step; a sweep goes on until nothing is due.",
  },
  {
    name: "sweep.outbox_age_ms",
    type: ms(100, 10 * MINUTE_MS),
    default: 5_000,
    help: "Unsent messages older than this are sent by the sweeper; younger ones are left to the process that committed them.",
  },
  {
    name: "retention.jobs_ms",
    type: ms(1_000, 3_650 * DAY_MS),
    default: 7 * DAY_MS,
    help: "How long finished jobs are kept; then they are removed with their payloads.",
  },
  {
    name: "retention.idempotency_ms",
    type: ms(1_000, 365 * DAY_MS),
    default: DAY_MS,
    help: "How long an idempotency key is remembered.",
  },
  {
    name: "limits.inline_bytes_max",
    type: count("bytes", 0, 512 * 1024),
    default: 256 * 1024,
    help: "Payloads up to this size stand in the record and travel with the message; larger ones go by pointer.",
  },
] as const satisfies readonly Setting[];

const WAITS_FOR: Readonly<Record<RetryClass, string>> = {
  poison: "the bytes could not be read",
  unclassified: "it failed and nobody said why",
  lock_busy: "somebody else holds the lock",
  store_unavailable: "the store did not answer",
  safety_unavailable: "the safety kernel did not answer",
  no_worker: "nobody serves the topic",
};

type RetryName = `retry.${RetryClass}.${"policy" | "budget"}`;

export type SettingName =
  | (typeof PROCESS_SETTINGS)[number]["name"]
  | (typeof FLOW_SETTINGS)[number]["name"]
  | RetryName;

type NamedSetting = Setting & { readonly name: SettingName };

export const SETTINGS: readonly NamedSetting[] = [...PROCESS_SETTINGS, ...FLOW_SETTINGS, ...retrySettings()];

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
    const founding = FOUNDING_RETRY[retryClass];
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
