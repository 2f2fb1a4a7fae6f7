import type { Acquired, LockLease, LockRequest, Locks } from "../../../src/ports/locks.ts";

/** What the locks contract asks of an adapter's harness, and the vocabulary of its cases. */
export interface LocksSubject {
  /** The locks as another process sees them; where there is but one process, always the same ones. */
  open(): Promise<Locks>;
  /** Drives the subject until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
  /** Lets time pass on the subject's clock. */
  pass(ms: number): Promise<void>;
  /** From now on nothing gets through between that process and the locks' backend; absent where nothing is between. */
  cut?(locks: Locks): Promise<void>;
  /** `noMoments`: why no fence is given for the moment of a commit. */
  readonly capabilities: { readonly betweenProcesses: boolean; readonly noMoments?: string };
  close(): Promise<void>;
}

export type LocksCase = (title: string, body: (kit: LocksKit) => Promise<void>, needs?: "cut" | "moments") => void;

/** Long enough for a renewal to come in time on a busy machine, short enough to wait for where time is real. */
export const TTL_MS = 1_500;
export const WAIT_MS = 60_000;
/** Enough for what was asked to have got there, where that takes real time. */
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

  /** Asks once. */
  ask(locks: Locks, owner: string, parts: Partial<LockRequest> = {}): Promise<Acquired> {
    return this.run(locks.acquire(this.request(owner, parts)));
  }

  /** Asks once, for what must be free. */
  async hold(locks: Locks, owner: string, parts: Partial<LockRequest> = {}): Promise<LockLease> {
    return leaseOf(await this.ask(locks, owner, parts));
  }

  /** Stands in the queue: what is asked for next comes behind it. */
  async queue(locks: Locks, owner: string, parts: Partial<LockRequest> = {}): Promise<Waiting> {
    const waiting = new Waiting(owner, locks.acquire(this.request(owner, { waitMs: WAIT_MS, ...parts })));
    await this.pass(SOON_MS);
    return waiting;
  }

  release(lease: LockLease): Promise<boolean> {
    return this.run(lease.release());
  }
}

/** An acquisition that is under way. */
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
  if (acquired.kind === "busy") throw new Error(`busy: held by ${acquired.holder ?? "nobody"}`);
  return acquired.lease;
}
