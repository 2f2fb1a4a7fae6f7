import { type Limit, windowId } from "../../core/policy/limits/limit.ts";
import {
  entriesOf,
  type StoredWindow,
  WINDOWS,
  WINDOWS_COUNTER,
  type WindowEntry,
  windowsGroup,
} from "../../core/policy/limits/window.ts";
import type { Versioned } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/** A window as loaded; `recordId` differs from `id` if it is the shared one of the rule. */
export interface LoadedWindow {
  readonly limit: Limit;
  readonly id: string;
  readonly recordId: string;
  readonly found: Versioned<StoredWindow> | null;
}

/**
 * A tenant has at most `limits.policy_keys_max` windows. Beyond that, new keys of a rule share one window, so that a
 * client that invents keys is limited and not the store filled.
 */
export function loadWindows(
  engine: Needs<"world" | "settings">,
  org: string,
  limits: readonly Limit[],
): Promise<readonly LoadedWindow[]> {
  return Promise.all(
    limits.map(async (limit): Promise<LoadedWindow> => {
      const { store } = engine.world;
      const id = windowId(org, limit, limit.key);
      const found = await store.load(WINDOWS, id);
      if (found !== null || !(await isFull(engine, org))) return { limit, id, recordId: id, found };
      const recordId = windowId(org, limit, null);
      return { limit, id, recordId, found: await store.load(WINDOWS, recordId) };
    }),
  );
}

export function entriesById(loaded: readonly LoadedWindow[]): ReadonlyMap<string, readonly WindowEntry[]> {
  return new Map(loaded.map(({ id, found }) => [id, found === null ? [] : entriesOf(found.value)]));
}

async function isFull({ world, settings }: Needs<"world" | "settings">, org: string): Promise<boolean> {
  const counts = await world.store.counts(windowsGroup(org), 1);
  return (counts.get(WINDOWS_COUNTER) ?? 0) >= settings.current.limits.policyKeysMax;
}
