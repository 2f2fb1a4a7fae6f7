/** Replaces the characters from `start` to `end`. */
export interface Mutant {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

export function mutantsOf(source: string): Mutant[];
