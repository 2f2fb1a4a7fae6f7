import type { Table } from "../../src/core/model/table.ts";
import { type Change, NOWHERE } from "../../src/ports/store.ts";

/** Records for tests of the simulated store. */
export interface Note {
  readonly value: number;
}

export const NOTES: Table<Note> = { name: "note", placement: () => NOWHERE };

export function note(id: string, value: number, expect: number | null = 0): Change {
  const put = { table: NOTES.name, id, value: { value }, expect, from: NOWHERE, to: NOWHERE };
  return { org: "default", atMs: 0, puts: [put], guards: [], sends: [], watch: [] };
}
