/** In the record: reached outside a test. */
export const ANY_TEST: string;

export function withProbes(source: string, places: readonly (readonly [number, string])[], record: string): string;
