import type { Cancel, Clock } from "../../ports/clock.ts";
import type { Acquired, LockLease, LockRequest, Locks, LockView } from "../../ports/locks.ts";
import type { Random } from "../../ports/random.ts";

/**
 * Locks within one process: the data directory belongs to it, so the locks of an earlier boot are void at once.
 *
 * 1. A release hands over to the first waiter in the same step; nobody can come in between.
 * 2. One timer per holder renews at a third of the TTL. A process that was paused for longer than the TTL finds that out
 *    there, or when somebody asks for the lock, whichever comes first: the lease is lost, the next waiter has it.
 * 3. Waiters live exactly as long as this process does, so they need no lease of their own.
 */
export class EmbeddedLocks implements Locks {
  readonly isShared = false;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #nextFence: () => number;
  readonly #doors = new Map<string, Door>();
  #isClosed = false;

  constructor(clock: Clock, random: Random, nextFence: () => number) {
    this.#clock = clock;
    this.#random = random;
    this.#nextFence = nextFence;
  }

  async acquire(request: LockRequest): Promise<Acquired> {
    if (this.#isClosed) throw new Error("the locks are closed");
    const door = this.#doorOf(request.key);
    if (door.holder !== null && this.#clock.now() >= door.holder.expiresMs) this.#lose(door, door.holder);
    if (door.holder !== null) return request.waitMs <= 0 ? busy(door, 0) : this.#wait(door, request);
    try {
      return { kind: "held", lease: this.#admit(door, request, 0) };
    } catch (error) {
      this.#doors.delete(request.key);
      throw error;
    }
  }

  /** Here a lock is acquired without asking anybody: there is nothing to spare. */
  reserveFence(): null {
    return null;
  }

  async list(limit: number): Promise<readonly LockView[]> {
    const views = [...this.#doors.values()].map(({ key, holder, waiters }) => ({
      key,
      holder: holder?.owner ?? null,
      fence: holder?.fence ?? 0,
      expiresAtMs: holder?.expiresMs ?? 0,
      waiters: waiters.size,
    }));
    return views.sort((a, b) => b.waiters - a.waiters || (a.key < b.key ? -1 : 1)).slice(0, limit);
  }

  /** Holders lose their leases, waiters are refused. */
  close(): void {
    this.#isClosed = true;
    for (const door of this.#doors.values()) {
      door.holder?.stopRenewing();
      for (const waiter of door.waiters) waiter.refuse(new Error("the locks are closed"));
      door.holder?.abort();
    }
    this.#doors.clear();
  }

  #doorOf(key: string): Door {
    let door = this.#doors.get(key);
    if (!door) {
      door = { key, holder: null, waiters: new Set() };
      this.#doors.set(key, door);
    }
    return door;
  }

  #wait(door: Door, request: LockRequest): Promise<Acquired> {
    const sinceMs = this.#clock.now();
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        door.waiters.delete(waiter);
        resolve(busy(door, this.#clock.now() - sinceMs));
      };
      const cancel = this.#clock.after(request.waitMs, giveUp);
      const waiter: Waiter = {
        enter: () => {
          cancel();
          try {
            resolve({ kind: "held", lease: this.#admit(door, request, this.#clock.now() - sinceMs) });
          } catch (error) {
            reject(error);
          }
        },
        refuse: (error) => {
          cancel();
          reject(error);
        },
      };
      door.waiters.add(waiter);
    });
  }

  #admit(door: Door, request: LockRequest, waitedMs: number): LockLease {
    const fence = this.#nextFence();
    const holder = new Holder(request.owner, fence, this.#clock.now() + request.ttlMs);
    door.holder = holder;
    this.#renewLater(door, holder, request.ttlMs);
    return {
      key: request.key,
      token: this.#random.id(),
      fence,
      waitedMs,
      attempts: 1,
      get signal() {
        return holder.signal;
      },
      get isLost() {
        return holder.isLost;
      },
      release: async () => this.#release(door, holder),
    };
  }

  #renewLater(door: Door, holder: Holder, ttlMs: number): void {
    holder.renewal = this.#clock.after(ttlMs / 3, () => {
      const nowMs = this.#clock.now();
      if (nowMs >= holder.expiresMs) {
        this.#lose(door, holder);
        return;
      }
      holder.expiresMs = nowMs + ttlMs;
      this.#renewLater(door, holder, ttlMs);
    });
  }

  /** Another may have it already: then nothing is freed. */
  #release(door: Door, holder: Holder): boolean {
    if (door.holder !== holder) return false;
    const isValid = this.#clock.now() < holder.expiresMs;
    holder.stopRenewing();
    this.#handOver(door);
    return isValid;
  }

  #lose(door: Door, holder: Holder): void {
    holder.stopRenewing();
    if (door.holder === holder) this.#handOver(door);
    holder.abort();
  }

  #handOver(door: Door): void {
    door.holder = null;
    for (const waiter of door.waiters) {
      door.waiters.delete(waiter);
      waiter.enter();
      // A waiter that found no fence was told so; the next one tries.
      if (door.holder !== null) return;
    }
    this.#doors.delete(door.key);
  }
}

interface Door {
  readonly key: string;
  holder: Holder | null;
  /** In the order in which they came. */
  readonly waiters: Set<Waiter>;
}

interface Waiter {
  enter(): void;
  refuse(error: Error): void;
}

class Holder {
  readonly owner: string;
  readonly fence: number;
  expiresMs: number;
  renewal: Cancel = () => {};
  #controller: AbortController | null = null;
  isLost = false;

  constructor(owner: string, fence: number, expiresMs: number) {
    this.owner = owner;
    this.fence = fence;
    this.expiresMs = expiresMs;
  }

  /** Made when somebody looks at it: most holders are done before. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.isLost) this.#controller.abort();
    return this.#controller.signal;
  }

  stopRenewing(): void {
    this.renewal();
  }

  abort(): void {
    this.isLost = true;
    this.#controller?.abort();
  }
}

function busy(door: Door, waitedMs: number): Acquired {
  return { kind: "busy", holder: door.holder?.owner ?? null, waitedMs, attempts: 1 };
}
