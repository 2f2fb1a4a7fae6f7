import type { QuotaName } from "./model/quota.ts";
import type { Policy } from "./retry/policies.ts";
import type { RetrySettings } from "./retry/settings.ts";

/** All settings of the engine, parsed and frozen. `config/` holds the table with names, units, defaults and ranges. */
export interface Settings {
  readonly retry: RetrySettings;
  readonly bus: {
    readonly ackWaitMs: number;
    readonly deliverMax: number;
    readonly ackPendingMax: number;
    /** Longer retries are parked in the store; null keeps them in the broker (baseline). */
    readonly parkAfterMs: number | null;
    readonly poisonDelayMs: number;
  };
  readonly dispatch: {
    /** Jobs of one topic that may be with workers at once. */
    readonly windowMax: number;
    /** After this time without a result, an attempt counts as lost. */
    readonly deadlineMs: number;
  };
  readonly job: {
    /** After this time a job ends as TIMEOUT. */
    readonly deadlineMs: number;
    readonly lockTtlMs: number;
  };
  readonly sweep: {
    readonly everyMs: number;
    /** Items due within this time are claimed and get a timer each, so that they fire at their own time. */
    readonly horizonMs: number;
    readonly leaseMs: number;
    readonly batchMax: number;
    /** Younger outbox messages are left to the process that committed them. */
    readonly outboxAgeMs: number;
  };
  readonly retention: { readonly jobsMs: number; readonly runsMs: number; readonly idempotencyMs: number };
  /** Thresholds of the findings of `cordum doctor`. */
  readonly diagnosis: {
    /** A share of the disk. */
    readonly diskFreeMin: number;
  };
  readonly limits: {
    readonly inlineBytesMax: number;
    /** Inputs of all items of one list step. */
    readonly listInputBytesMax: number;
    /** The output of a step without `max_output_bytes`. */
    readonly outputBytesMax: number;
    /** Open jobs of one tenant. */
    readonly backlogMax: number;
    /** Payload bytes of one tenant (`core/model/quota.ts`). */
    readonly storedBytesMax: number;
    /** Open event streams of one tenant, per gateway process. */
    readonly streamsMax: number;
    /** Topics in the open long polls of one tenant, per gateway process. */
    readonly polledTopicsMax: number;
    /** Jobs of one tenant that may be with workers at once; null for no limit. */
    readonly concurrentJobsMax: number | null;
    /** Open runs of one tenant. */
    readonly concurrentRunsMax: number;
    /** Schedules of one tenant. */
    readonly schedulesMax: number;
    /** Counted keys of policy limits, per tenant. */
    readonly policyKeysMax: number;
    /** The shortest interval of a schedule. */
    readonly scheduleIntervalMsMin: number;
  };
  readonly admission: AdmissionSettings;
  readonly runLock: {
    /** How long a result waits in the hand-over queue; 0 for no wait (baseline). */
    readonly engineWaitMs: number;
    readonly gatewayWaitMs: number;
    /** Poll policy that replaces the hand-over queue; null to use the queue (the baseline polls). */
    readonly gatewayPoll: Policy | null;
    readonly ttlMs: number;
    /** Results of one run in one process share one lock acquisition. */
    readonly coalesce: boolean;
  };
  /** Whether lock contention is recorded, for `lab replay` and rollouts. */
  readonly contention: { readonly record: boolean };
  readonly rollout: {
    /** Error probability of a rollout, in (0, 1). */
    readonly alpha: number;
  };
  readonly run: {
    /** Default deadline of runs whose workflow has no `timeout_sec`. */
    readonly deadlineMs: number;
  };
  /** Overrides by tenant. */
  readonly orgs: Readonly<Record<string, OrgSettings>>;
  readonly approval: { readonly expiresMs: number };
  readonly safety: {
    readonly timeoutMs: number;
    readonly breaker: BreakerSettings;
  };
  readonly worker: {
    /** A worker without a heartbeat for this long counts as gone. */
    readonly silentMs: number;
  };
  /** Worker pools. Without any, every topic is accepted and waits for a worker. */
  readonly pools: Readonly<Record<string, PoolSettings>>;
  /** Tenants for which unsigned bus packets are accepted. */
  readonly unsignedTenants: readonly string[];
  /** Packet signers by sender id. */
  readonly senders: Readonly<Record<string, SenderSettings>>;
  /** Payload paths that are never shown: see `model/redact.ts`. */
  readonly redaction: { readonly paths: readonly string[] };
}

/** Settings that can be reloaded: the holder is shared, the value is frozen. */
export interface LiveSettings {
  readonly current: Settings;
}

export interface OrgSettings {
  readonly limits?: Partial<Record<"concurrentJobsMax" | "concurrentRunsMax" | QuotaName, number>>;
  /** Weight in the fair share; 1 by default. */
  readonly weight?: number;
}

/** How a run gets its slot: atomically in the write that starts it, or behind the polled lock (baseline). */
export interface AdmissionSettings {
  readonly strategy: "atomic" | "polled";
  readonly polled: { readonly policy: Policy; readonly maxWaitMs: number; readonly ttlMs: number };
}

export interface PoolSettings {
  /** Topic patterns, as in a policy. */
  readonly topics: readonly string[];
  /** Capabilities of its workers: jobs that require others are not sent to them. */
  readonly requires: readonly string[];
}

export interface SenderSettings {
  /** The public key (PEM). */
  readonly keyFile: string;
  /** Tenants it may submit for. */
  readonly tenants: readonly string[];
  /** Its owner. */
  readonly person?: string;
  /** The only actor that it submits for. */
  readonly actorId?: string;
  readonly actorType?: "human" | "service";
}

export interface BreakerSettings {
  /** Consecutive failures that open it. */
  readonly failures: number;
  /** Open time before probes, jittered by ±50 % so that replicas do not probe in step. */
  readonly openMs: number;
  /** Concurrent probes while half open, across processes. */
  readonly probes: number;
}
