/**
 * A bulk operation: pages of a query of the server, at a limited rate.
 *
 * 1. The cursor contains the range and the count that the operator confirmed: later records are not part of it (L49).
 * 2. It belongs to the window, not to a page: it continues while other pages are shown. After a reload it is paused.
 * 3. An error pauses it. The server selects what is left, so that a repeated page changes nothing twice.
 */
import { effect, type Signal, signal } from "@preact/signals";
import type { DeadLetterBulkPage, JobBulkPage } from "../../../../src/client/schema.ts";
import { api, chosenTenant, toError } from "../../data/session.ts";

export type BulkAction = "cancel" | "retry" | "drop";
export type BulkFilter = Readonly<Record<string, string>>;
type BulkPage = DeadLetterBulkPage | JobBulkPage;

export interface Operation {
  readonly action: BulkAction;
  readonly filter: BulkFilter;
  /** The filter in words. */
  readonly text: string;
  readonly tenant: string;
  readonly matched: number;
  readonly done: number;
  readonly rejectedCount: number;
  /** The first of them. */
  readonly rejected: readonly { readonly id: string; readonly error: string }[];
  readonly cursor: string;
  readonly perSecond: number;
  readonly state: "running" | "paused" | "ended";
  /** Why it is paused, unless a person did. */
  readonly why: string | null;
}

export type Start = Pick<Operation, "action" | "filter" | "text" | "matched" | "cursor" | "perSecond">;

/** One kind of records, with its operation in this window. */
export class BulkRunner {
  readonly operation: Signal<Operation | null>;
  readonly route: "POST /dlq/bulk" | "POST /jobs/bulk";
  #isRunning = false;

  constructor(route: BulkRunner["route"]) {
    this.route = route;
    this.operation = signal(stored(route));
    effect(() => {
      if (this.operation.value === null) sessionStorage.removeItem(route);
      else sessionStorage.setItem(route, JSON.stringify(this.operation.value));
    });
  }

  send(body: object, signal?: AbortSignal): Promise<BulkPage> {
    return api.peek().request(this.route, { body: body as never }, signal === undefined ? {} : { signal });
  }

  start(start: Start): void {
    const empty = { done: 0, rejectedCount: 0, rejected: [], state: "paused", why: null } as const;
    this.operation.value = { ...start, ...empty, tenant: chosenTenant.peek() };
    this.resume();
  }

  resume(): void {
    if (this.operation.peek()?.state !== "paused") return;
    this.#change({ state: "running", why: null });
    if (!this.#isRunning) void this.#run();
  }

  pause(why: string | null = null): void {
    this.#change({ state: "paused", why });
  }

  close(): void {
    this.operation.value = null;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    for (let now = this.operation.peek(); now?.state === "running"; now = this.operation.peek()) {
      const startMs = performance.now();
      const limit = Math.min(PAGE_MAX, Math.max(1, Math.round(now.perSecond / PAGES_PER_SECOND)));
      await this.#sendPage(now, limit);
      // Counted from the send time: a slow response must not cause a burst.
      const delayMs = startMs + (limit * 1_000) / now.perSecond - performance.now();
      const isOn = this.operation.peek()?.state === "running";
      if (isOn && delayMs > 0) await new Promise((done) => setTimeout(done, delayMs));
    }
    this.#isRunning = false;
  }

  async #sendPage({ action, filter, cursor, tenant }: Operation, limit: number): Promise<void> {
    if (tenant !== chosenTenant.peek()) return this.pause(`choose tenant ${tenant || "all"} again to continue`);
    try {
      this.#add(await this.send({ action, ...filter, cursor, limit }));
    } catch (thrown) {
      const { title, detail } = toError(thrown);
      this.pause(`${title}: ${detail}`);
    }
  }

  #add({ done, rejected, stopped, next_cursor }: BulkPage): void {
    const now = this.operation.peek();
    if (now === null) return;
    const isEnd = next_cursor === null;
    const isStopped = stopped === null ? {} : { state: "paused" as const, why: stopped.error };
    this.operation.value = {
      ...now,
      done: now.done + done,
      rejectedCount: now.rejectedCount + rejected.length,
      rejected: [...now.rejected, ...rejected.map(({ id, error }) => ({ id, error }))].slice(0, REJECTED_MAX),
      cursor: next_cursor ?? "",
      // A pause that was asked for while the page was on its way stays.
      ...(isEnd ? { state: "ended" as const } : isStopped),
    };
  }

  #change(fields: Partial<Operation>): void {
    const now = this.operation.peek();
    if (now !== null) this.operation.value = { ...now, ...fields };
  }
}

function stored(key: string): Operation | null {
  const text = sessionStorage.getItem(key);
  if (text === null) return null;
  const found = JSON.parse(text) as Operation;
  return found.state === "running" ? { ...found, state: "paused", why: "the page was loaded again" } : found;
}

const PAGE_MAX = 200;
const PAGES_PER_SECOND = 4;
const REJECTED_MAX = 50;
