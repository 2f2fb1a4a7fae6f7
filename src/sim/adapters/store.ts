import type { CounterName, Table } from "../../core/model/table.ts";
import type { Message } from "../../ports/bus.ts";
import type {
  Change,
  Committed,
  Due,
  DueQuery,
  ListQuery,
  Page,
  Store,
  TakeQuery,
  Versioned,
} from "../../ports/store.ts";
import type { Process } from "../process.ts";
import type { MemoryStore } from "./memory-store.ts";
import { call, type Network } from "./net.ts";

/** The store client of one process. A change is applied at one instant between the call and its reply. */
export class SimStore implements Store {
  readonly #net: Network;
  readonly #server: MemoryStore;
  readonly #process: Process;
  readonly #onCommit: CommitHook;

  constructor(net: Network, server: MemoryStore, process: Process, onCommit: CommitHook = () => undefined) {
    this.#net = net;
    this.#server = server;
    this.#process = process;
    this.#onCommit = onCommit;
  }

  load<T>(table: Table<T>, id: string): Promise<Versioned<T> | null> {
    return this.#call(() => this.#server.load(table, id));
  }

  commit(change: Change): Promise<Committed> {
    return this.#call(() => {
      const committed = this.#server.commit(change);
      this.#onCommit(this.#process, change, committed);
      return committed;
    });
  }

  list<T>(table: Table<T>, query: ListQuery): Promise<Page<T>> {
    return this.#call(() => this.#server.list(table, query));
  }

  take<T>(table: Table<T>, query: TakeQuery): Promise<readonly Versioned<T>[]> {
    return this.#call(() => this.#server.take(table, query));
  }

  untake<T>(table: Table<T>, queue: string, ids: readonly string[]): Promise<void> {
    return this.#call(() => this.#server.untake(table, queue, ids));
  }

  due(query: DueQuery): Promise<readonly Due[]> {
    return this.#call(() => this.#server.due(query));
  }

  counts(group: string, limit: number): Promise<ReadonlyMap<string, number>> {
    return this.#call(() => this.#server.counts(group, limit));
  }

  recount(counter: CounterName, table: string, lists: readonly string[]): Promise<number> {
    return this.#call(() => this.#server.recount(counter, table, lists));
  }

  unsent(untilMs: number, limit: number): Promise<readonly Message[]> {
    return this.#call(() => this.#server.unsent(untilMs, limit));
  }

  sent(messageIds: readonly string[]): Promise<void> {
    return this.#call(() => this.#server.sent(messageIds));
  }

  total(name: string): Promise<number> {
    return this.#call(() => this.#server.total(name));
  }

  #call<T>(effect: () => T): Promise<T> {
    return call(this.#net, this.#process, "store", effect);
  }
}

/** Called at the instant of the write, before the reply, so that a fault can be injected there. */
export type CommitHook = (by: Process, change: Change, committed: Committed) => void;
