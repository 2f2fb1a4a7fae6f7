import type { Placement, Table } from "../model/table.ts";
import { uniformOf } from "../rollout/arm.ts";

/**
 * The record of lock contention: acquisitions that met another one on the same key, sampled by key. `lab replay` and the
 * prediction of a rollout replay it under other retry policies.
 *
 * 1. A key is a hash. The record contains no tenant, no run and no job.
 * 2. Sampling keeps or drops whole keys. A key that is dropped at one level is dropped at every higher level, so the records
 *    of several processes are made comparable by dropping more (`traceOf`).
 */
export interface Acquisition {
  /** Hash of the lock key, 32 bits. */
  readonly key: number;
  /** The first attempt, in any process. */
  readonly arrivedMs: number;
  /** From the first attempt to the acquisition, or to the last attempt. */
  readonly waitMs: number;
  /** From the acquisition to the end of the commit. */
  readonly holdMs: number;
  /** 1 if the lock was free, queued for, or shared with an event of the same process. */
  readonly attempts: number;
  readonly path: ContentionPath;
  /** The lock, or the queue of the process for it, was in use at the first attempt. */
  readonly wasBlocked: boolean;
  /** The last attempt failed, and the caller was refused. */
  readonly isRefused: boolean;
}

/** Results use the engine path, HTTP requests the gateway path. `admission` is the polled lock of run starts. */
export const CONTENTION_PATHS = ["engine", "gateway", "admission"] as const;
export type ContentionPath = (typeof CONTENTION_PATHS)[number];

/** What one process recorded in about a minute. */
export interface ContentionRecord {
  /** Hash of the process name. */
  readonly process: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** Keys are kept with probability 2^-level. */
  readonly level: number;
  /** Acquisitions that the limits of the record excluded, apart from the keys that the level excludes. */
  readonly dropped: number;
  readonly uncontended: number;
  /** Mean round trip of a request that got a free lock; null if too few were measured. */
  readonly lockMs: number | null;
  /** Mean time by which a first retry was later than its delay; null if none was measured. */
  readonly returnMs: number | null;
  /** See `Bus.nakTimerMs`. */
  readonly nakTimerMs: number;
  /** The settings in force, in config syntax. */
  readonly inForce: ContentionSettings;
  readonly acquisitions: readonly Acquisition[];
}

export interface ContentionSettings {
  readonly lockBusyPolicy: string;
  readonly engineWaitMs: number;
  readonly coalesce: boolean;
}

/** Acquisitions in one record. */
export const RECORD_MAX = 16_384;
export const RETENTION_MS = 24 * 3_600_000;
export const LEVEL_MAX = 20;

export const keyHash = (text: string): number => Math.floor(uniformOf(text) * 2 ** 32);

/** Whether a key is kept at a level. */
export const isSampled = (key: number, level: number): boolean => (key & ((1 << level) - 1)) === 0;

/** A stored record: `codec.ts` has its encoding. */
export interface StoredContention {
  readonly version: number;
  readonly process: number;
  readonly fromMs: number;
  readonly toMs: number;
  readonly level: number;
  readonly dropped: number;
  readonly uncontended: number;
  readonly lockMs: number | null;
  readonly returnMs: number | null;
  readonly nakTimerMs: number;
  readonly inForce: ContentionSettings;
  /** Base64. */
  readonly acquisitions: string;
}

export const CONTENTION: Table<StoredContention> = {
  name: "contention",
  placement: ({ toMs }): Placement => ({
    lists: [{ name: CONTENTION_LIST, score: toMs }],
    queue: null,
    counters: [],
    dueMs: toMs + RETENTION_MS,
  }),
};

export const CONTENTION_LIST = "contention";
