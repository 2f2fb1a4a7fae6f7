/**
 * The stream of live events, one connection for the whole page.
 *
 * 1. `lost` carries the time since when events are missing; what is shown is marked as stale since then (L56).
 * 2. A gap makes every live resource load again; without a gap the missed events were replayed.
 */
import { effect, signal } from "@preact/signals";
import type { ClientEvent } from "../../../src/client/event-stream.ts";
import { api, who } from "./session.ts";

export type LiveState =
  | { readonly kind: "connecting" }
  | { readonly kind: "live" }
  | { readonly kind: "lost"; readonly sinceMs: number };

export type Change = Extract<ClientEvent, { readonly data: unknown }>;

export const live = signal<LiveState>({ kind: "connecting" });

export interface Listener {
  onChange(change: Change): void;
  /** Events are missing: load again. */
  onGap(): void;
}

const listeners = new Set<Listener>();

export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Connects while a user is signed in. */
export function followStream(): () => void {
  return effect(() => {
    const client = api.value;
    if (who.value === null) return;
    const closing = new AbortController();
    void read(client.stream({}, { signal: closing.signal }), closing.signal);
    return () => closing.abort();
  });
}

async function read(events: AsyncIterable<ClientEvent>, signal: AbortSignal): Promise<void> {
  live.value = { kind: "connecting" };
  try {
    for await (const event of events) {
      if (signal.aborted) return;
      receive(event);
    }
  } catch {
    if (!signal.aborted) lose();
  }
}

function receive(event: ClientEvent): void {
  if (event.event === "disconnected") lose();
  else if (event.event !== "connected") for (const listener of [...listeners]) listener.onChange(event);
  else {
    live.value = { kind: "live" };
    if (event.isGap) for (const listener of [...listeners]) listener.onGap();
  }
}

function lose(): void {
  if (live.peek().kind !== "lost") live.value = { kind: "lost", sinceMs: Date.now() };
}
