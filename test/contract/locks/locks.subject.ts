import type { Acquired, LockLease, LockRequest, Locks } from "../../../src/ports/locks.ts";

/** The interface between the locks contract and an adapter's test harness, and helpers of the cases. */
export interface LocksSubject {
  /** The locks of another process; always the same if there is only one process. */
  open(): Promise<Locks>;
  /** Drives the subject until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
  /** Advances the subject's clock. */
  pass(ms: number): Promise<void>;
  /** Disconnects that process from the backend; absent if there is no connection. */
  cut?(locks: Locks): Promise<void>;
  /** `noReserve`: why `reserveFence` always returns null. */
  readonly capabilities: { readonly betweenProcesses: boolean; readonly noReserve?: string };
  close(): Promise<void>;
}

export type LocksCase = (title: string, body: (kit: LocksKit) => Promise<void>, needs?: "cut" | "reserve") => void;

/** Long enough for renewals on a slow machine, short enough for real time. */
export const TTL_MS = 1_500;
export const WAIT_MS = 60_000;
/** Enough for a request to reach the backend in real time. */
export const SOON_MS = 60;

export class LocksKit {
  readonly subject: LocksSubject;
  readonly key: string;

  constructor(subject: LocksSubject, key: string) {
    this.subject = subject;
    this.key = key;
  }

  open(): Promise<Locks> {
    return this.subject.open();
  }

  /** Two processes, if the adapter has more than one. */
  async two(): Promise<readonly [Locks, Locks]> {
    return [await this.open(), await this.open()];
  }

  request(owner: string, parts: Partial<LockRequest> = {}): LockRequest {
    return { key: this.key, org: "default", ttlMs: TTL_MS, waitMs: 0, owner, ...parts };
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.subject.run(promise);
  }

  pass(ms: number): Promise<void> {
    return this.subject.pass(ms);
  }

  /** Acquires without waiting. */
  attempt(locks: Locks, owner: string, parts: Partial<LockRequest> = {}): Promise<Acquired> {
    return this.run(locks.acquire(this.request(owner, parts)));
  }

  /** Acquires a lock that must be free. */
  async hold(locks: Locks, owner: string, parts: Partial<LockRequest> = {}): Promise<LockLease> {
    return leaseOf(await this.attempt(locks, owner, parts));
  }

  /** Enters the queue. Later requests are behind this one. */
  async queue(locks: Locks, owner: string, parts: Partial<LockRequest> = {}): Promise<Waiting> {
    const waiting = new Waiting(owner, locks.acquire(this.request(owner, { waitMs: WAIT_MS, ...parts })));
    await this.pass(SOON_MS);
    return waiting;
  }

  release(lease: LockLease): Promise<boolean> {
    return this.run(lease.release());
  }
}

/** A pending acquisition. */
export class Waiting {
  readonly owner: string;
  readonly acquired: Promise<Acquired>;
  readonly lease: Promise<LockLease>;
  isSettled = false;

  constructor(owner: string, acquired: Promise<Acquired>) {
    this.owner = owner;
    this.acquired = acquired;
    this.lease = acquired.then(leaseOf);
    const settle = (): void => {
      this.isSettled = true;
    };
    this.lease.then(settle, settle);
  }
}

export function leaseOf(acquired: Acquired): LockLease {
  if (acquired.kind === "busy") throw new Error(`busy: held by ${acquired.holder ?? "no one"}`);
  return acquired.lease;
}
