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
  readonly retention: { readonly jobsMs: number; readonly idempotencyMs: number };
  readonly limits: { readonly inlineBytesMax: number };
}

/** Settings that can be replaced while running: the holder is shared, the value is frozen. */
export interface LiveSettings {
  readonly current: Settings;
}
