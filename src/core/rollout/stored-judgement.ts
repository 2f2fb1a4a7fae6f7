import type { Placement, Table } from "../model/table.ts";
import type { Judgement } from "./judgement.ts";

/** The judgement of a rollout, under the id of the rollout. One process updates it at a time: its version is checked. */
export interface StoredJudgement {
  readonly judgement: Judgement;
  /** Where the next read of the measured units starts; null: at the first. Units up to the judgement's cursor are skipped. */
  readonly cursors: UnitCursors;
  readonly updatedMs: number;
}

export interface UnitCursors {
  readonly runs: string | null;
  readonly jobs: string | null;
}

export const JUDGEMENTS: Table<StoredJudgement> = {
  name: "rollout_judgement",
  placement: (): Placement => ({ lists: [], queue: null, counters: [], dueMs: null }),
};
