/** Builds the typed settings of the engine and of the process from the values of the table. */
import { parseBudget } from "../core/retry/budget.ts";
import { interval, parsePolicy } from "../core/retry/policies.ts";
import { RETRY_CLASSES, type RetryClass } from "../core/retry/retry-classes.ts";
import type { RetrySettings } from "../core/retry/settings.ts";
import type { Settings } from "../core/settings.ts";
import { namesIn, type SectionValue, sectionSettings } from "./sections.ts";
import type { Value } from "./setting.ts";
import type { SettingName } from "./table.ts";

export type Values = Readonly<Record<SettingName, Value>>;

export interface ProcessSettings {
  readonly profile: "default" | "baseline";
  readonly name: string | null;
  readonly dataDir: string;
  readonly host: string;
  readonly port: number;
  readonly bodyBytesMax: number;
  /** Per caller. */
  readonly ratePerS: number;
  readonly connections: {
    readonly max: number;
    readonly perAddressMax: number;
    readonly headersMs: number;
    readonly requestMs: number;
    readonly keepAliveMs: number;
    readonly responseMs: number;
  };
  readonly session: { readonly idleMs: number; readonly maxMs: number };
  readonly shutdownGraceMs: number;
  readonly natsUrl: string | null;
  readonly redisUrl: string | null;
  readonly clusterWaitMs: number;
  readonly auditKeyFile: string | null;
  readonly policyFile: string | null;
  readonly workflowsDir: string | null;
  readonly safetyAddress: string | null;
  readonly safetyTrust: SafetyTrustSettings;
  readonly signatures: { readonly mode: SignatureMode; readonly keyFile: string | null };
  readonly failMode: "closed" | "open";
  /** null: nothing is notified. */
  readonly notifications: { readonly urls: readonly string[]; readonly secret: string } | null;
  readonly logLevel: "debug" | "info" | "warn" | "error";
}

export type SignatureMode = "off" | "warn" | "enforce";

/** Authentication between a caller and a remote safety kernel; files by path. */
export interface SafetyTrustSettings {
  readonly token: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  readonly ca: string | null;
}

export function processSettings(values: Values): ProcessSettings {
  return {
    profile: values.profile === "baseline" ? "baseline" : "default",
    name: textOrNull(values, "name"),
    dataDir: String(values["data.dir"]),
    host: String(values["http.host"]),
    port: whole(values, "http.port"),
    bodyBytesMax: whole(values, "http.body_bytes_max"),
    ratePerS: whole(values, "http.rate_per_s"),
    connections: {
      max: whole(values, "http.connections_max"),
      perAddressMax: whole(values, "http.connections_per_address_max"),
      headersMs: whole(values, "http.headers_timeout_ms"),
      requestMs: whole(values, "http.request_timeout_ms"),
      keepAliveMs: whole(values, "http.keep_alive_timeout_ms"),
      responseMs: whole(values, "http.response_timeout_ms"),
    },
    session: { idleMs: whole(values, "http.session_idle_ms"), maxMs: whole(values, "http.session_max_ms") },
    shutdownGraceMs: whole(values, "http.shutdown_grace_ms"),
    natsUrl: textOrNull(values, "nats.url"),
    redisUrl: textOrNull(values, "redis.url"),
    clusterWaitMs: whole(values, "cluster.wait_ms"),
    auditKeyFile: textOrNull(values, "audit.key"),
    policyFile: textOrNull(values, "policy.file"),
    workflowsDir: textOrNull(values, "workflows.dir"),
    safetyAddress: textOrNull(values, "safety.address"),
    safetyTrust: {
      token: textOrNull(values, "safety.token"),
      cert: textOrNull(values, "safety.tls.cert"),
      key: textOrNull(values, "safety.tls.key"),
      ca: textOrNull(values, "safety.tls.ca"),
    },
    signatures: { mode: values["cap.signatures"] as SignatureMode, keyFile: textOrNull(values, "cap.key") },
    failMode: values["safety.fail_mode"] === "open" ? "open" : "closed",
    notifications: notificationSettings(values),
    logLevel: values["log.level"] as ProcessSettings["logLevel"],
  };
}

function notificationSettings(values: Values): ProcessSettings["notifications"] {
  const urls = String(values["notifications.approvals.urls"] ?? "")
    .split(" ")
    .filter(Boolean);
  const secret = textOrNull(values, "notifications.approvals.secret");
  return urls.length === 0 || secret === null ? null : { urls, secret };
}

export function engineSettings(values: Values, sections: readonly SectionValue[]): Settings {
  const number = (name: SettingName) => whole(values, name);
  const parkAfterMs = values["bus.park_after_ms"] === null ? null : number("bus.park_after_ms");
  const retry = retrySettings(values);
  const { orgs, pools, senders } = sectionSettings(sections);
  return {
    retry,
    bus: {
      ackWaitMs: number("bus.ack_wait_ms"),
      deliverMax: number("bus.max_deliver"),
      ackPendingMax: number("bus.max_ack_pending"),
      parkAfterMs,
      poisonDelayMs: interval(retry.poison.policy, 1).hiMs,
    },
    dispatch: { windowMax: number("dispatch.window_max"), deadlineMs: number("dispatch.deadline_ms") },
    job: { deadlineMs: number("job.deadline_ms"), lockTtlMs: number("job.lock_ttl_ms") },
    sweep: {
      everyMs: number("sweep.every_ms"),
      horizonMs: number("sweep.horizon_ms"),
      leaseMs: number("sweep.lease_ms"),
      batchMax: number("sweep.batch_max"),
      outboxAgeMs: number("sweep.outbox_age_ms"),
    },
    retention: {
      jobsMs: number("retention.jobs_ms"),
      runsMs: number("retention.runs_ms"),
      idempotencyMs: number("retention.idempotency_ms"),
    },
    diagnosis: {
      diskFreeMin: number("diagnosis.disk_free_min") / 100,
    },
    limits: limitSettings(values),
    ...runSettings(values),
    orgs,
    approval: { expiresMs: number("approval.expires_ms") },
    safety: {
      timeoutMs: number("safety.timeout_ms"),
      breaker: {
        failures: number("safety.breaker.failures"),
        openMs: number("safety.breaker.open_ms"),
        probes: number("safety.breaker.probes"),
      },
    },
    worker: { silentMs: number("worker.silent_ms") },
    pools,
    unsignedTenants: namesIn(values["cap.unsigned_tenants"]),
    senders,
    redaction: { paths: namesIn(values["redaction.paths"]) },
  };
}

function limitSettings(values: Values): Settings["limits"] {
  const number = (name: SettingName) => whole(values, name);
  return {
    inlineBytesMax: number("limits.inline_bytes_max"),
    listInputBytesMax: number("limits.list_input_bytes_max"),
    outputBytesMax: number("limits.step_output_bytes_max"),
    backlogMax: number("limits.backlog_max"),
    storedBytesMax: number("limits.stored_bytes_max"),
    streamsMax: number("limits.streams_max"),
    polledTopicsMax: number("limits.polled_topics_max"),
    concurrentJobsMax: values["limits.max_concurrent_jobs"] === null ? null : number("limits.max_concurrent_jobs"),
    concurrentRunsMax: number("limits.max_concurrent_runs"),
    schedulesMax: number("limits.schedules_max"),
    policyKeysMax: number("limits.policy_keys_max"),
    scheduleIntervalMsMin: number("limits.schedule_interval_min_ms"),
  };
}

function runSettings(values: Values): Pick<Settings, "admission" | "runLock" | "contention" | "rollout" | "run"> {
  const policy = parsePolicy(String(values["admission.polled.policy"]));
  return {
    admission: {
      strategy: values["admission.strategy"] === "polled" ? "polled" : "atomic",
      polled: {
        policy,
        maxWaitMs: whole(values, "admission.polled.max_wait_ms"),
        ttlMs: whole(values, "admission.polled.ttl_ms"),
      },
    },
    runLock: {
      engineWaitMs: whole(values, "run_lock.engine_wait_ms"),
      gatewayWaitMs: whole(values, "run_lock.gateway_wait_ms"),
      gatewayPoll: values["run_lock.gateway_queue"] === "polled" ? policy : null,
      ttlMs: whole(values, "run_lock.ttl_ms"),
      coalesce: values["run_lock.coalesce"] === "true",
    },
    contention: { record: values["contention.record"] === "on" },
    rollout: { alpha: Number(values["rollout.alpha"]) },
    run: { deadlineMs: whole(values, "run.deadline_ms") },
  };
}

function retrySettings(values: Values): RetrySettings {
  const entry = (retryClass: RetryClass) => ({
    policy: parsePolicy(String(values[`retry.${retryClass}.policy`])),
    budget: parseBudget(String(values[`retry.${retryClass}.budget`])),
  });
  return Object.fromEntries(RETRY_CLASSES.map((retryClass) => [retryClass, entry(retryClass)])) as RetrySettings;
}

function whole(values: Values, name: SettingName): number {
  const value = values[name];
  if (typeof value !== "number") throw new Error(`\`${name}\` must be a number here, but is \`${String(value)}\``);
  return value;
}

function textOrNull(values: Values, name: SettingName): string | null {
  const value = values[name];
  return value === null ? null : String(value);
}
