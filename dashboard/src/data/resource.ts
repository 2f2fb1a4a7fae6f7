/**
 * A value of the API with its state. Loading, failed, ready and stale are four states and look different (L52, L56).
 *
 * 1. A failed reload keeps the value and marks it as stale since the last successful load.
 * 2. Loads of one resource never overlap, and events cause at most one load per `gapMs`.
 * 3. A hidden page loads nothing; it catches up when it is shown.
 */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { CordumError } from "../../../src/client/client-error.ts";
import { type Change, listen, live } from "./live.ts";
import { chosenTenant, toError } from "./session.ts";

export type Shown<T> =
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly error: CordumError }
  | { readonly kind: "ready"; readonly value: T; readonly stale: Stale | null };

export interface Stale {
  readonly sinceMs: number;
  /** Why the value could not be loaded again; null while the stream is interrupted. */
  readonly error: CordumError | null;
}

export interface ResourceOptions {
  /** Loads again at this interval. */
  readonly refreshMs?: number;
  /** Loads again after such an event. */
  readonly isAffected?: (change: Change) => boolean;
  /** Least time between two loads caused by events; 1 s by default. */
  readonly gapMs?: number;
}

type Loaded<T> =
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly error: CordumError }
  | { readonly kind: "ready"; readonly value: T; readonly atMs: number; readonly failed: CordumError | null };

export class Resource<T> {
  readonly shown: ReadonlySignal<Shown<T>>;
  readonly #loaded = signal<Loaded<T>>({ kind: "loading" });
  readonly #load: (signal: AbortSignal) => Promise<T>;
  readonly #options: ResourceOptions;
  #closing = new AbortController();
  #isLoading = false;
  #isDue = false;
  #loadedMs = 0;
  #timer = 0;

  constructor(load: (signal: AbortSignal) => Promise<T>, options: ResourceOptions = {}) {
    this.#load = load;
    this.#options = options;
    this.shown = computed(() => this.#show());
  }

  /** Loads, and follows changes until the returned function is called. */
  start(): () => void {
    this.#closing = new AbortController();
    const { isAffected, refreshMs } = this.#options;
    const stopListening = listen({
      onChange: (change) => {
        if (isAffected?.(change) === true) this.#schedule();
      },
      onGap: () => void this.reload(),
    });
    const onShow = () => {
      if (!document.hidden && this.#isDue) void this.reload();
    };
    document.addEventListener("visibilitychange", onShow);
    const interval = refreshMs === undefined ? 0 : window.setInterval(() => this.#schedule(), refreshMs);
    void this.reload();
    return () => {
      this.#closing.abort();
      stopListening();
      document.removeEventListener("visibilitychange", onShow);
      clearInterval(interval);
      clearTimeout(this.#timer);
    };
  }

  async reload(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#isDue = true;
    if (this.#isLoading) return;
    this.#isLoading = true;
    const { signal } = this.#closing;
    while (this.#isDue && !signal.aborted) {
      this.#isDue = false;
      this.#loadedMs = performance.now();
      await this.#load(signal).then(
        (value) => this.#set(signal, { kind: "ready", value, atMs: Date.now(), failed: null }),
        (error) => this.#fail(signal, error),
      );
    }
    this.#isLoading = false;
    if (this.#isRetryable() && !signal.aborted) this.#timer = window.setTimeout(() => void this.reload(), RETRY_MS);
  }

  /** Changes the value on this page, for example after an event that carries it. */
  patch(change: (value: T) => T): void {
    const now = this.#loaded.peek();
    if (now.kind === "ready") this.#loaded.value = { ...now, value: change(now.value) };
  }

  #set(signal: AbortSignal, loaded: Loaded<T>): void {
    if (!signal.aborted) this.#loaded.value = loaded;
  }

  #fail(signal: AbortSignal, thrown: unknown): void {
    const error = toError(thrown);
    const before = this.#loaded.peek();
    // What no longer exists is not stale.
    if (before.kind === "ready" && error.status !== 404) this.#set(signal, { ...before, failed: error });
    else this.#set(signal, { kind: "failed", error });
  }

  #isRetryable(): boolean {
    const loaded = this.#loaded.peek();
    const error = loaded.kind === "ready" ? loaded.failed : loaded.kind === "failed" ? loaded.error : null;
    return error !== null && (error.status === null || error.status === 429 || error.status >= 500);
  }

  #schedule(): void {
    this.#isDue = true;
    if (document.hidden || this.#timer !== 0 || this.#isLoading) return;
    const waitMs = this.#loadedMs + (this.#options.gapMs ?? 1_000) - performance.now();
    this.#timer = window.setTimeout(() => void this.reload(), Math.max(0, waitMs));
  }

  #show(): Shown<T> {
    const loaded = this.#loaded.value;
    if (loaded.kind !== "ready") return loaded;
    const { value, atMs, failed } = loaded;
    if (failed !== null) return { kind: "ready", value, stale: { sinceMs: atMs, error: failed } };
    const follows = this.#options.isAffected !== undefined && this.#options.refreshMs === undefined;
    const stream = live.value;
    const isLost = follows && stream.kind === "lost";
    return { kind: "ready", value, stale: isLost ? { sinceMs: stream.sinceMs, error: null } : null };
  }
}

/** A resource of a component. Another `key` or another tenant is another resource. */
export function useResource<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  options: ResourceOptions = {},
): Resource<T> {
  const full = `${chosenTenant.value} ${key}`;
  const held = useRef<{ readonly key: string; readonly resource: Resource<T> } | null>(null);
  if (held.current?.key !== full) held.current = { key: full, resource: new Resource(load, options) };
  const { resource } = held.current;
  useEffect(() => resource.start(), [resource]);
  return resource;
}

const RETRY_MS = 5_000;
