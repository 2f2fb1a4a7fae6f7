import { EVERY_ORG } from "../../core/model/api-key.ts";
import {
  DEAD_LETTERS,
  type DeadLetter,
  deadLetterGroupsOf,
  deadLettersOf,
  withFingerprint,
} from "../../core/model/dead-letter.ts";
import { put } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

export interface DeadLetterGroup {
  readonly fingerprint: string;
  readonly count: number;
  readonly newest: DeadLetter;
  readonly firstMs: number;
}

/** The largest groups of a tenant. Counts and times follow from the records, so retries, drops and expiry change them. */
export async function deadLetterGroups(
  { world: { store } }: Needs<"world">,
  org: string,
): Promise<{ readonly groups: readonly DeadLetterGroup[]; readonly more: boolean }> {
  const counts = await store.counts(deadLetterGroupsOf(org), COUNTED_MAX);
  const largest = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, SHOWN_MAX);
  const groups = await Promise.all(
    largest.map(async ([fingerprint, count]): Promise<DeadLetterGroup | null> => {
      const index = deadLettersOf(org, { fingerprint });
      const [newest, oldest] = await Promise.all([
        store.list(DEAD_LETTERS, { index, limit: 1 }),
        store.list(DEAD_LETTERS, { index, limit: 1, order: "oldest" }),
      ]);
      const [last, first] = [newest.items[0]?.value, oldest.items[0]?.value];
      // The last one was removed after the count.
      return last && first ? { fingerprint, count, newest: last, firstMs: first.createdMs } : null;
    }),
  );
  return { groups: groups.filter((group) => group !== null), more: counts.size > SHOWN_MAX };
}

/** Bounds the read of a tenant with more groups: the result is then a part of them. */
const COUNTED_MAX = 10_000;
const SHOWN_MAX = 200;

/**
 * Adds fingerprints to the dead letters of earlier versions, a page per pass. They are the oldest, so the first page without one
 * ends it.
 */
export class FingerprintBackfill {
  readonly #engine: Needs<"world" | "commit">;
  #cursor: string | undefined;
  #isDone = false;

  constructor(engine: Needs<"world" | "commit">) {
    this.#engine = engine;
  }

  isNeeded(): boolean {
    return !this.#isDone;
  }

  async pass(): Promise<number | null> {
    const { commit, world } = this.#engine;
    const index = deadLettersOf(EVERY_ORG);
    const page = await world.store.list(DEAD_LETTERS, { index, order: "oldest", limit: PAGE, cursor: this.#cursor });
    const missing = page.items.filter(({ value }) => value.fingerprint === undefined);
    // A stale one was redriven or dropped meanwhile.
    await Promise.all(
      missing.map((found) =>
        commit({ org: found.value.org, puts: [put(DEAD_LETTERS, found.id, found, withFingerprint(found.value))] }),
      ),
    );
    this.#cursor = page.cursor ?? undefined;
    this.#isDone = missing.length === 0 || page.cursor === null;
    return this.#isDone ? null : 0;
  }
}

const PAGE = 100;
