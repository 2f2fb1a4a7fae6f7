import type { Policy } from "./retry/policies.ts";
import type { RetrySettings } from "./retry/settings.ts";

/** Every setting that the flow reads, parsed and frozen. `config.ts` has the table: name, unit, default, range, origin. */
export interface Settings {
  readonly retry: RetrySettings;
  readonly bus: {
    readonly ackWaitMs: number;
    readonly deliverMax: number;
    readonly ackPendingMax: number;
    /** Longer retries leave the broker's window and wait in the store; null keeps them all in the broker (founding). */
    readonly parkAfterMs: number | null;
    readonly poisonDelayMs: number;
  };
  readonly dispatch: {
    /** Jobs of one topic that may be with workers at the same time. */
    readonly windowMax: number;
    /** How long an attempt may take before it counts as lost and the next one is sent. */
    readonly deadlineMs: number;
  };
  readonly job: {
    /** A job's own patience: after this it ends as TIMEOUT, whatever it waits for. */
    readonly deadlineMs: number;
    readonly lockTtlMs: number;
  };
  readonly sweep: {
    readonly everyMs: number;
    /** Due items this far ahead are claimed and get a timer each, so that they fire as spread as they were meant. */
    readonly horizonMs: number;
    readonly leaseMs: number;
    readonly batchMax: number;
    /** Younger outbox messages are left to the process that committed them. */
    readonly outboxAgeMs: number;
  };
  readonly retention: { readonly jobsMs: number; readonly runsMs: number; readonly idempotencyMs: number };
  readonly limits: {
    readonly inlineBytesMax: number;
    /** Jobs of one org that may be with workers at the same time; null for any number. */
    readonly concurrentJobsMax: number | null;
    /** Runs of one org that may be open at the same time. */
    readonly concurrentRunsMax: number;
  };
  readonly admission: AdmissionSettings;
  readonly runLock: {
    /** How long a result waits in the hand-over queue; 0 for not at all (founding). */
    readonly engineWaitMs: number;
    readonly gatewayWaitMs: number;
    /** At which pace a request asks again, in place of the hand-over queue; null for that (founding: polled). */
    readonly gatewayPoll: Policy | null;
    readonly ttlMs: number;
    /** Results of one run that meet in one process share one turn of its lock. */
    readonly coalesce: boolean;
  };
  readonly run: {
    /** A run's own patience, where its workflow does not say. */
    readonly deadlineMs: number;
  };
  /** What differs for an org, by its id. */
  readonly orgs: Readonly<Record<string, OrgSettings>>;
  readonly approval: { readonly expiresMs: number };
  readonly safety: {
    readonly timeoutMs: number;
    readonly breaker: BreakerSettings;
  };
  readonly worker: {
    /** A worker that was not heard of for so long is taken for gone. */
    readonly silentMs: number;
  };
  /** Who serves what. Empty: every topic is taken, and waits until somebody serves it. */
  readonly pools: Readonly<Record<string, PoolSettings>>;
  /** The tenants for which a client of the bus may speak without a signature. */
  readonly unsignedTenants: readonly string[];
  /** Who may sign packets, by sender id. */
  readonly senders: Readonly<Record<string, SenderSettings>>;
  /** Places in payloads that are never shown: see `model/redact.ts`. */
  readonly redaction: { readonly paths: readonly string[] };
}

/** Settings that can be replaced while running: the holder is shared, the value is frozen. */
export interface LiveSettings {
  readonly current: Settings;
}

export interface OrgSettings {
  readonly limits?: { readonly concurrentJobsMax?: number; readonly concurrentRunsMax?: number };
  /** Its share of turns beside the others; 1 when not said. */
  readonly weight?: number;
}

/** How a run gets its slot: in the write that starts it, or behind the founding lock, which is polled. */
export interface AdmissionSettings {
  readonly strategy: "atomic" | "polled";
  readonly polled: { readonly policy: Policy; readonly maxWaitMs: number; readonly ttlMs: number };
}

export interface PoolSettings {
  /** Topic patterns, as in a policy. */
  readonly topics: readonly string[];
  /** What its workers can do: a job that requires something else is not for them. */
  readonly requires: readonly string[];
}

export interface SenderSettings {
  /** Where its public key is (PEM). */
  readonly keyFile: string;
  /** The tenants that it may submit for. */
  readonly tenants: readonly string[];
}

/** When to stop asking a safety kernel that does not answer, and how to find out that it is back. */
export interface BreakerSettings {
  /** So many failures in a row open it. */
  readonly failures: number;
  /** How long it stays open before probes; spread by a half either way, so that replicas do not probe in step. */
  readonly openMs: number;
  /** Calls that may be under way at once while it is half open, over all processes. */
  readonly probes: number;
}
