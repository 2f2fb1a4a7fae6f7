/**
 * Published policies: every release with who published it and when, its whole text, and which one is in force.
 *
 * One record says which is in force. It is written by every publication and every step back, so two of them at the same
 * time cannot both have been the last; its version counts the changes, and no process takes an older one for news.
 */
import type { Placement, Table } from "./table.ts";

export interface PolicyRelease {
  readonly id: string;
  /** Hash of the policy. Texts that differ in comments only have the same. */
  readonly snapshot: string;
  /** Of the file, or as its publisher called it. */
  readonly name: string;
  /** The author's own. */
  readonly version: string | null;
  readonly rules: number;
  readonly by: string;
  readonly atMs: number;
  readonly note: string | null;
  /** The release that was in force when this one was published; null when none was. */
  readonly previousId: string | null;
}

/** Beside its release, so that a list of releases does not carry all texts. */
export interface PolicyText {
  readonly text: string;
}

export interface PolicyChoice {
  readonly releaseId: string;
  readonly snapshot: string;
  /** Where a step back leads. */
  readonly previousId: string | null;
  readonly by: string;
  readonly atMs: number;
  readonly how: "publish" | "rollback";
  /** The file that was published last, whatever was put in force since: only a file that differs from it is news. */
  readonly file: PolicyFile | null;
}

export interface PolicyFile {
  readonly name: string;
  readonly sha256: string;
}

export const POLICY_RELEASES: Table<PolicyRelease> = {
  name: "policy_release",
  placement: ({ snapshot, atMs }): Placement => ({
    lists: [
      { name: RELEASES_LIST, score: atMs },
      { name: releasesOf(snapshot), score: atMs },
    ],
    queue: null,
    counters: [RELEASES_COUNTER],
    dueMs: null,
  }),
};

export const POLICY_TEXTS: Table<PolicyText> = { name: "policy_text", placement: nowhere };

export const POLICY_CHOICE: Table<PolicyChoice> = { name: "policy_in_force", placement: nowhere };

/** The id of the one record of its table. */
export const IN_FORCE = "current";

export const RELEASES_LIST = "policy_releases";
export const releasesOf = (snapshot: string): string => `${RELEASES_LIST}/${snapshot}`;
export const RELEASES_GROUP = "policy_releases";
export const RELEASES_COUNTER = { group: RELEASES_GROUP, name: "all" };

/** The oldest ones beyond this leave; the one in force and the one before it stay. */
export const RELEASES_MAX = 200;

function nowhere(): Placement {
  return { lists: [], queue: null, counters: [], dueMs: null };
}
