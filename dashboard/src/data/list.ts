/**
 * A list of any length, newest page first (L51). Pages are loaded when they come into view and dropped when they are far
 * from it; a dropped page keeps its cursor and length, so positions do not move.
 */
import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { CordumError } from "../../../src/client/client-error.ts";
import { type Change, listen, live } from "./live.ts";
import type { Shown } from "./resource.ts";
import { chosenTenant, toError } from "./session.ts";

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
  readonly total?: Total | undefined;
}

/** Rows of the whole list when its first page was loaded; more than `count` unless it is exact. */
export interface Total {
  readonly count: number;
  readonly exact: boolean;
}

/** The cursor as query parameters: the first page is asked for the total, too. */
export const firstPage = (cursor: string | undefined) => (cursor === undefined ? { count: true } : { cursor });

type LoadPage<T> = (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>;

interface Slot<T> {
  readonly cursor: string | undefined;
  readonly length: number;
  readonly items: readonly T[] | null;
}

export interface Rows<T> {
  /** Rows known so far. */
  readonly count: number;
  readonly hasMore: boolean;
  readonly total: Total | null;
  /** Undefined while its page is loading. */
  at(index: number): T | undefined;
}

export interface ListOptions<T> {
  /** Changes rows after events about them. */
  readonly live?: {
    /** The id that an event about the row names. */
    readonly idOf: (row: T) => string;
    readonly apply: (row: T, change: Change) => T;
  };
  /** A row of this list can be new after the event. */
  readonly mayAdd?: (change: Change) => boolean;
}

export class PagedList<T> {
  readonly #slots = signal<readonly Slot<T>[]>([]);
  readonly #next = signal<string | null | undefined>(undefined);
  readonly #failed = signal<CordumError | null>(null);
  readonly #atMs = signal(0);
  #total: Total | null = null;
  /** Events since the first page was loaded that can have added rows; 0 while they are loaded by themselves. */
  readonly newer = signal(0);
  readonly shown = computed<Shown<Rows<T>>>(() => this.#show());
  readonly #load: LoadPage<T>;
  readonly #options: ListOptions<T>;
  readonly #loading = new Set<string | undefined>();
  #closing = new AbortController();
  #pending = new Map<string, Change>();
  #flushTimer = 0;
  #timer = 0;
  #added = 0;
  #isAtTop = true;

  constructor(load: LoadPage<T>, options: ListOptions<T> = {}) {
    this.#load = load;
    this.#options = options;
  }

  start(): () => void {
    this.#closing = new AbortController();
    const stop = listen({ onChange: (change) => this.#receive(change), onGap: () => void this.reload() });
    void this.reload();
    return () => {
      stop();
      clearTimeout(this.#timer);
      clearTimeout(this.#flushTimer);
      this.#closing.abort();
    };
  }

  /** Starts again with the newest page. */
  async reload(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#added = 0;
    this.newer.value = 0;
    const page = await this.#fetch(undefined);
    if (page === null) return;
    this.#total = page.total ?? null;
    this.#slots.value = [{ cursor: undefined, length: page.items.length, items: page.items }];
    this.#next.value = page.next_cursor;
    this.#atMs.value = Date.now();
  }

  /** The rows in view: loads their pages, drops pages far away, and reads on near the end. */
  see(first: number, last: number): void {
    this.#isAtTop = first === 0;
    const slots = this.#slots.peek();
    let start = 0;
    let isChanged = false;
    const kept = slots.map((slot) => {
      const [from, to] = [start, start + slot.length];
      start = to;
      const isNear = to >= first - KEPT_ROWS && from <= last + KEPT_ROWS;
      if (slot.items === null && to > first && from <= last) void this.#reloadPage(slot.cursor);
      if (slot.items === null || isNear) return slot;
      isChanged = true;
      return { ...slot, items: null };
    });
    if (isChanged) this.#slots.value = kept;
    const next = this.#next.peek();
    if (typeof next === "string" && last >= start - AHEAD_ROWS) void this.#more(next);
  }

  async #more(cursor: string): Promise<void> {
    const page = await this.#fetch(cursor);
    if (page === null || this.#next.peek() !== cursor) return;
    this.#slots.value = [...this.#slots.peek(), { cursor, length: page.items.length, items: page.items }];
    this.#next.value = page.next_cursor;
  }

  async #reloadPage(cursor: string | undefined): Promise<void> {
    const page = await this.#fetch(cursor);
    if (page === null) return;
    const replace = (slot: Slot<T>) =>
      slot.cursor === cursor ? { cursor, length: page.items.length, items: page.items } : slot;
    this.#slots.value = this.#slots.peek().map(replace);
  }

  /** Null if the page is already being loaded, or could not be. */
  async #fetch(cursor: string | undefined): Promise<Page<T> | null> {
    const { signal } = this.#closing;
    if (this.#loading.has(cursor)) return null;
    this.#loading.add(cursor);
    try {
      const page = await this.#load(cursor, signal);
      if (signal.aborted) return null;
      this.#failed.value = null;
      return page;
    } catch (error) {
      if (!signal.aborted) this.#failed.value = toError(error);
      return null;
    } finally {
      this.#loading.delete(cursor);
    }
  }

  /** Events are collected and applied together: a busy control plane sends thousands a second. */
  #receive(change: Change): void {
    const { live: follows, mayAdd } = this.#options;
    if (follows !== undefined) {
      this.#pending.set(recordOf(change), change);
      if (this.#flushTimer === 0) this.#flushTimer = window.setTimeout(() => this.#flush(), FLUSH_MS);
    }
    if (mayAdd?.(change) !== true) return;
    this.#added++;
    if (this.#timer === 0) this.#timer = window.setTimeout(() => this.#refresh(), RELOAD_GAP_MS);
  }

  #flush(): void {
    this.#flushTimer = 0;
    const pending = this.#pending;
    this.#pending = new Map();
    const { live: follows } = this.#options;
    if (follows === undefined) return;
    let isChanged = false;
    const slots = this.#slots.peek().map((slot) => {
      const items = slot.items?.map((row) => {
        const change = pending.get(follows.idOf(row));
        return change === undefined ? row : follows.apply(row, change);
      });
      if (items === undefined || items.every((row, at) => row === slot.items?.[at])) return slot;
      isChanged = true;
      return { ...slot, items };
    });
    if (isChanged) this.#slots.value = slots;
  }

  /** The reader of the first page sees new rows by itself; a reader further down is not moved, but told. */
  #refresh(): void {
    this.#timer = 0;
    if (this.#isAtTop && !document.hidden) void this.reload();
    else this.newer.value = this.#added;
  }

  #show(): Shown<Rows<T>> {
    const [slots, failed, next] = [this.#slots.value, this.#failed.value, this.#next.value];
    if (next === undefined) return failed === null ? { kind: "loading" } : { kind: "failed", error: failed };
    const count = slots.reduce((sum, slot) => sum + slot.length, 0);
    const total = this.#total;
    const rows: Rows<T> = { count, total, hasMore: next !== null, at: (index) => rowAt(slots, index) };
    const stream = live.value;
    const isFollowing = this.#options.live !== undefined || this.#options.mayAdd !== undefined;
    if (failed !== null) return { kind: "ready", value: rows, stale: { sinceMs: this.#atMs.value, error: failed } };
    const isLost = isFollowing && stream.kind === "lost";
    return { kind: "ready", value: rows, stale: isLost ? { sinceMs: stream.sinceMs, error: null } : null };
  }
}

/** The id of the record that an event is about. */
function recordOf({ event, data }: Change): string {
  if (event === "job") return data.job_id;
  return event === "run" ? data.run_id : data.rollout_id;
}

function rowAt<T>(slots: readonly Slot<T>[], index: number): T | undefined {
  let start = 0;
  for (const { length, items } of slots) {
    if (index < start + length) return items?.[index - start];
    start += length;
  }
  return undefined;
}

/** A list of a component. Another `key` (the filter) or another tenant is another list. */
export function useList<T>(key: string, load: LoadPage<T>, options: ListOptions<T> = {}): PagedList<T> {
  const full = `${chosenTenant.value} ${key}`;
  const held = useRef<{ readonly key: string; readonly list: PagedList<T> } | null>(null);
  if (held.current?.key !== full) held.current = { key: full, list: new PagedList(load, options) };
  const { list } = held.current;
  useEffect(() => list.start(), [list]);
  return list;
}

const KEPT_ROWS = 2_000;
const AHEAD_ROWS = 50;
const RELOAD_GAP_MS = 1_000;
const FLUSH_MS = 200;
