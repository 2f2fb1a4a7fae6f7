import type { Busy } from "../../ports/evaluator.ts";

export interface QueueLimits {
  readonly waiting: number;
  readonly waitingPerOrg: number;
}

/**
 * Tasks that wait for a thread. They are bounded in total and per tenant. Tenants take turns, and in a full queue a tenant
 * with few tasks takes the place of one with many: besides the running task, a tenant waits for one of each other.
 */
export class TaskQueue {
  readonly #limits: QueueLimits;
  /** By tenant, the first of which is next; a tenant without tasks has no entry. */
  readonly #waiting = new Map<string, Waiting[]>();
  #count = 0;
  #running: string | null = null;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  /** Resolves when the task may run, with the function to call afterwards. */
  enter(org: string): Promise<Busy | Turn> {
    const { waiting, waitingPerOrg } = this.#limits;
    const own = this.#countOf(org);
    if (own >= waitingPerOrg) return Promise.resolve({ kind: "busy", current: own, limit: waitingPerOrg });
    if (this.#count >= waiting && !this.#displaceFor(own)) {
      return Promise.resolve({ kind: "busy", current: this.#count, limit: waiting });
    }
    return new Promise((settle) => {
      const tasks = this.#waiting.get(org) ?? [];
      tasks.push({ settle });
      this.#waiting.set(org, tasks);
      this.#count += 1;
      if (this.#running === null) this.#next();
    });
  }

  #countOf(org: string): number {
    return (this.#waiting.get(org)?.length ?? 0) + (this.#running === org ? 1 : 0);
  }

  /** One task of the first tenant, which then queues behind the others. */
  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined) return;
    const [org, tasks] = first;
    const [task, ...rest] = tasks;
    this.#waiting.delete(org);
    if (rest.length > 0) this.#waiting.set(org, rest);
    this.#running = org;
    task?.settle({ kind: "entered", leave: () => this.#leave() });
  }

  #leave(): void {
    this.#count -= 1;
    this.#running = null;
    this.#next();
  }

  /** Refuses the newest task of the tenant with the most, if that leaves it with more than the new task's tenant has. */
  #displaceFor(own: number): boolean {
    let most: readonly [string, Waiting[]] | undefined;
    for (const entry of this.#waiting) if (entry[1].length > (most?.[1].length ?? own + 1)) most = entry;
    const displaced = most?.[1].pop();
    if (displaced === undefined) return false;
    const { waiting } = this.#limits;
    this.#count -= 1;
    displaced.settle({ kind: "busy", current: waiting, limit: waiting });
    return true;
  }
}

interface Waiting {
  settle(turn: Busy | Turn): void;
}

export interface Turn {
  readonly kind: "entered";
  leave(): void;
}
