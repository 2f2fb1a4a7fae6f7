/**
 * Published policies: releases with publisher and time, their text, and the release in force.
 *
 * Every publish and rollback writes the one `PolicyChoice` record, so concurrent changes conflict. Its version counts
 * the changes; processes ignore older versions.
 */
import type { Placement, Table } from "./table.ts";

export interface PolicyRelease {
  readonly id: string;
  /** Hash of the policy; comments do not affect it. */
  readonly snapshot: string;
  /** The file name, or the publisher's name for it. */
  readonly name: string;
  /** The author's version. */
  readonly version: string | null;
  readonly rules: number;
  readonly by: string;
  readonly atMs: number;
  readonly note: string | null;
  /** The release in force before this one; null if none. */
  readonly previousId: string | null;
}

/** Separate from the release, so that lists do not load all texts. */
export interface PolicyText {
  readonly text: string;
}

export interface PolicyChoice {
  readonly releaseId: string;
  readonly snapshot: string;
  /** The target of a rollback. */
  readonly previousId: string | null;
  readonly by: string;
  readonly atMs: number;
  readonly how: "publish" | "rollback";
  /** The policy file published last. At start, only a file that differs from it is published. */
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

export const POLICY_TEXTS: Table<PolicyText> = { name: "policy_text", placement: unlisted };

export const POLICY_CHOICE: Table<PolicyChoice> = { name: "policy_in_force", placement: unlisted };

/** The id of the only record. */
export const IN_FORCE = "current";

export const RELEASES_LIST = "policy_releases";
export const releasesOf = (snapshot: string): string => `${RELEASES_LIST}/${snapshot}`;
export const RELEASES_GROUP = "policy_releases";
export const RELEASES_COUNTER = { group: RELEASES_GROUP, name: "all" };

/** Older releases are removed, except the one in force and its predecessor. */
export const RELEASES_MAX = 200;

function unlisted(): Placement {
  return { lists: [], queue: null, counters: [], dueMs: null };
}
