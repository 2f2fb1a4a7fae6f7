import type { WriteBatch } from "./write-batch.ts";

/** Who keeps something in memory that the tables do not have yet, or that must follow the batch. */
export interface Participant {
  /** From 1 on it is time for the tables. */
  readonly fill: number;
  /** Adds what this batch has done to the pieces of a journal's entry: a comma and a step, and so on. */
  tell(pieces: string[]): void;
  /** Does again what the journal tells, if it is one's own. */
  recover(step: JournalStep): void;
  /** After the changes, before the reads: puts on the sheet all that the tables do not have. */
  handOver(batch: WriteBatch): void;
  /** What was handed over is on its way: it is to be looked up, and not to be handed over again. */
  setAside(): void;
  /** What was set aside is in the tables. */
  folded(): void;
  /** The batch stands. */
  kept(): void;
  /** The batch did not happen. */
  undone(): void;
}

/** As it was told, with a word in front that says whose it is. */
export type JournalStep = readonly [word: string, ...rest: unknown[]];

/** Does again what a journal tells, in memory. */
export function recoverAll(participants: readonly Participant[], entries: readonly string[]): void {
  for (const entry of entries) {
    for (const step of JSON.parse(entry) as readonly JournalStep[]) {
      for (const participant of participants) participant.recover(step);
    }
  }
}
