import type { Cancel, Clock } from "../../ports/clock.ts";
import { firstRenewalMs, type LockLease, WAITER_LEASE_MS } from "../../ports/locks.ts";
import { type Grant, type Heir, type LockCalls, monotonicMs } from "./lock-calls.ts";

/**
 * A lock that is held on Redis.
 *
 * 1. It is believed to be ours only as long as the server certainly keeps it: a time limit counts from before the
 *    request was sent, on a clock that does not jump.
 * 2. It is renewed at a third of its time, and very soon when it was handed over, because until then it is ours for a
 *    waiter's lease only; most are released before that. "Not owned" ends it at once; a renewal without an answer is
 *    tried again until time is up. That it is up is watched for from the first renewal on, which comes long before.
 * 3. A release hands on what the server has promised, before the server has heard of it. Until it has, the server keeps
 *    the lock in our name, and afterwards in the heir's: so the heir believes in it for the shorter of the two times.
 * 4. After `release` nothing aborts any more.
 */
export class RedisLease implements LockLease {
  readonly key: string;
  readonly token: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts: number;
  readonly #facts: LeaseFacts;
  /** Made when somebody looks at it: most leases end before anybody does. */
  #abort: AbortController | null = null;
  #isLost = false;
  #validUntilMs: number;
  #next: Grant | null;
  #cancelRenewal: Cancel = () => undefined;
  #cancelEnd: Cancel = () => undefined;
  #isEndWatched = false;
  #isReleased = false;
  #release: Promise<boolean> | null = null;

  constructor(facts: LeaseFacts) {
    this.#facts = facts;
    this.key = facts.key;
    this.token = facts.token;
    this.fence = facts.fence;
    this.waitedMs = facts.waitedMs;
    this.attempts = facts.attempts;
    this.#validUntilMs = facts.validUntilMs;
    this.#next = facts.next;
    this.#renewAfter(firstRenewalMs(facts.ttlMs, facts.isConfirmed));
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    return this.#abort.signal;
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  get isOver(): boolean {
    return this.#isReleased || this.#isLost;
  }

  /** Once; but a release that failed can be asked for again, and is tried again meanwhile. */
  release(): Promise<boolean> {
    this.#isReleased = true;
    this.#stop();
    if (this.#release === null) {
      const release = releaseLock(this.#facts, this.#handOn());
      this.#release = release;
      release.catch(() => {
        this.#release = null;
        leaveNothing(this.#facts, WAITER_LEASE_MS);
      });
    }
    return this.#release;
  }

  /** The server knows that it was handed on to us, and may have promised it already to somebody after us. */
  extend(validUntilMs: number, next: Grant | null): void {
    if (this.isOver) return;
    this.#validUntilMs = Math.max(this.#validUntilMs, validUntilMs);
    this.#next = next;
  }

  lose(why: string): void {
    if (this.isOver) return;
    this.#stop();
    this.#isLost = true;
    this.#abort ??= new AbortController();
    this.#abort.abort(new Error(`lock \`${this.key}\` was lost: ${why}`));
  }

  #handOn(): Heir | null {
    const next = this.#next;
    this.#next = null;
    return next === null || this.#isLost ? null : this.#facts.handOn(next, this.#validUntilMs);
  }

  async #renew(): Promise<void> {
    const { calls, lock, token, ttlMs } = this.#facts;
    const sentMs = monotonicMs();
    if (!this.#isEndWatched) this.#watchEnd();
    try {
      const isOurs = (await calls.renew(lock, token, ttlMs)) === this.fence;
      if (this.isOver) return;
      if (!isOurs) {
        this.lose("the server knows another holder, or none");
        return;
      }
      this.#validUntilMs = sentMs + ttlMs;
      this.#renewAfter(ttlMs / 3);
    } catch {
      if (!this.isOver) this.#renewAfter(ttlMs / 10);
    }
  }

  #renewAfter(delayMs: number): void {
    this.#cancelRenewal = this.#facts.clock.after(delayMs, () => void this.#renew());
  }

  #watchEnd(): void {
    this.#isEndWatched = true;
    this.#cancelEnd = this.#facts.clock.after(Math.max(0, this.#validUntilMs - monotonicMs()), () => {
      if (this.isOver) return;
      if (monotonicMs() >= this.#validUntilMs) this.lose("it could not be renewed in time");
      else this.#watchEnd();
    });
  }

  #stop(): void {
    this.#cancelRenewal();
    this.#cancelEnd();
  }
}

/** What a token may have on the server: a lock, or a place in its queue. */
export interface Claim {
  readonly calls: LockCalls;
  readonly clock: Clock;
  /** The key that Redis knows the lock by. */
  readonly lock: string;
  readonly token: string;
  readonly ttlMs: number;
}

export interface LeaseFacts extends Claim {
  readonly key: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts: number;
  /** On the clock of `monotonicMs`. */
  readonly validUntilMs: number;
  /** False for a lock that was handed over and is not renewed yet. */
  readonly isConfirmed: boolean;
  /** Whom the server has promised it to after us. */
  readonly next: Grant | null;
  readonly handOn: HandOver;
}

/** Gives a lock to a waiter of this process, until then at most; null if it waits no more, or that is too soon. */
export type HandOver = (next: Grant, untilMs: number) => Heir | null;

/** Frees the lock if the token has it, else the token's place in the queue. */
export function releaseLock({ calls, lock, token }: Claim, heir: Heir | null = null): Promise<boolean> {
  return calls.release(lock, token, heir);
}

/** Frees what the token may still have; as long as the server would keep it anyway, it is tried again and again. */
export function leaveNothing(claim: Claim, delayMs = 0): void {
  const untilMs = monotonicMs() + claim.ttlMs;
  const attempt = (): void => {
    releaseLock(claim).catch(() => {
      if (monotonicMs() < untilMs) claim.clock.after(WAITER_LEASE_MS, attempt);
    });
  };
  if (delayMs === 0) attempt();
  else claim.clock.after(delayMs, attempt);
}
