// Types of entry-points.mjs, for the tests.

export interface EntryPoint {
  readonly name: string;
  readonly source: string;
  readonly specifier?: string;
}

export declare function entryPointsIn(root: string): EntryPoint[];

export declare function exportsOf(
  entryPoints: readonly EntryPoint[],
): Record<string, string | { types: string; default: string }>;
