import { FenceAllocator } from "../../ports/fence-allocator.ts";
import type { Acquired, LockRequest, Locks, LockView } from "../../ports/locks.ts";
import type { Process } from "../process.ts";
import type { LockServer } from "./lock-server.ts";
import { SimWaiter } from "./lock-waiter.ts";
import { call, type Network } from "./net.ts";

/**
 * Locks as one process sees them: it asks, waits for the hand-over, renews, and notices when a lease is lost. They take
 * the same round trips as those on Redis between processes, so that what a simulation says of hand-overs is true of the
 * product; within a process Redis' are faster, since one turn ahead is promised there.
 */
export class SimLocks implements Locks {
  readonly isShared = true;
  readonly #net: Network;
  readonly #server: LockServer;
  readonly #process: Process;
  readonly #stock: FenceAllocator;

  constructor(net: Network, server: LockServer, process: Process) {
    this.#net = net;
    this.#server = server;
    this.#process = process;
    this.#stock = new FenceAllocator((org, count) =>
      call(net, process, "store", () => server.reserveFences(org, count)),
    );
  }

  acquire(request: LockRequest): Promise<Acquired> {
    return new SimWaiter({ net: this.#net, server: this.#server, process: this.#process }, request).acquire();
  }

  reserveFence(_key: string, org: string, above: number): number | null {
    return this.#stock.take(org, above);
  }

  list(limit: number): Promise<readonly LockView[]> {
    return call(this.#net, this.#process, "store", () => this.#server.list(limit));
  }
}
