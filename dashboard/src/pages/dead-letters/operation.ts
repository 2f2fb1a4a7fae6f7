/**
 * A bulk operation: pages of a query of the server, at a limited rate.
 *
 * 1. The cursor contains the range and the count that the operator confirmed: later dead letters are not part of it (L49).
 * 2. It belongs to the window, not to a page: it continues while other pages are shown. After a reload it is paused.
 * 3. An error pauses it. The server selects what is left, so that a repeated page changes nothing twice.
 */
import { effect, signal } from "@preact/signals";
import type { DeadLetterBulkPage } from "../../../../src/client/schema.ts";
import { api, chosenTenant, toError } from "../../data/session.ts";
import type { DeadLetterFilter } from "./query.ts";

export type BulkAction = "retry" | "drop";

export interface Operation {
  readonly action: BulkAction;
  readonly filter: DeadLetterFilter;
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

export type Start = Pick<Operation, "action" | "filter" | "matched" | "cursor" | "perSecond">;

const STORED = "dead-letter-operation";
const PAGE_MAX = 200;
const PAGES_PER_SECOND = 4;
const REJECTED_MAX = 50;

export const operation = signal<Operation | null>(stored());

effect(() => {
  if (operation.value === null) sessionStorage.removeItem(STORED);
  else sessionStorage.setItem(STORED, JSON.stringify(operation.value));
});

export function startOperation(start: Start): void {
  operation.value = {
    ...start,
    tenant: chosenTenant.peek(),
    done: 0,
    rejectedCount: 0,
    rejected: [],
    state: "paused",
    why: null,
  };
  resumeOperation();
}

export function resumeOperation(): void {
  if (operation.peek()?.state !== "paused") return;
  change({ state: "running", why: null });
  if (!isRunning) void run();
}

export const pauseOperation = (why: string | null = null): void => change({ state: "paused", why });

export function closeOperation(): void {
  operation.value = null;
}

let isRunning = false;

async function run(): Promise<void> {
  isRunning = true;
  for (let now = operation.peek(); now?.state === "running"; now = operation.peek()) {
    const startMs = performance.now();
    const limit = Math.min(PAGE_MAX, Math.max(1, Math.round(now.perSecond / PAGES_PER_SECOND)));
    await sendPage(now, limit);
    // Counted from the send time: a slow response must not cause a burst.
    const delayMs = startMs + (limit * 1_000) / now.perSecond - performance.now();
    if (operation.peek()?.state === "running" && delayMs > 0) await new Promise((done) => setTimeout(done, delayMs));
  }
  isRunning = false;
}

async function sendPage({ action, filter, cursor, tenant }: Operation, limit: number): Promise<void> {
  if (tenant !== chosenTenant.peek()) return pauseOperation(`choose tenant ${tenant || "all"} again to continue`);
  try {
    add(await api.peek().request("POST /dlq/bulk", { body: { action, ...filter, cursor, limit } }));
  } catch (thrown) {
    const { title, detail } = toError(thrown);
    pauseOperation(`${title}: ${detail}`);
  }
}

function add({ done, rejected, stopped, next_cursor }: DeadLetterBulkPage): void {
  const now = operation.peek();
  if (now === null) return;
  const isEnd = next_cursor === null;
  operation.value = {
    ...now,
    done: now.done + done,
    rejectedCount: now.rejectedCount + rejected.length,
    rejected: [...now.rejected, ...rejected.map(({ id, error }) => ({ id, error }))].slice(0, REJECTED_MAX),
    cursor: next_cursor ?? "",
    // A pause that was asked for while the page was on its way stays.
    ...(isEnd ? { state: "ended" as const } : stopped !== null ? { state: "paused" as const, why: stopped.error } : {}),
  };
}

function change(fields: Partial<Operation>): void {
  const now = operation.peek();
  if (now !== null) operation.value = { ...now, ...fields };
}

function stored(): Operation | null {
  const text = sessionStorage.getItem(STORED);
  if (text === null) return null;
  const found = JSON.parse(text) as Operation;
  return found.state === "running" ? { ...found, state: "paused", why: "the page was loaded again" } : found;
}
