/** What a setting is: its name, what it counts, its default, its range, and what it does in one sentence. */
export type Value = string | number | null;

export interface Setting {
  readonly name: string;
  readonly type: SettingType;
  readonly default: Value;
  /** What `profile: founding` makes of the default; absent where it is the same. */
  readonly founding?: Value;
  /** Taken over by a running process when the config file changes; everything else needs a restart. */
  readonly live?: true;
  readonly help: string;
}

export type SettingType =
  /** `never` stands for null, where the setting can be switched off. */
  | { readonly kind: "whole"; readonly unit: Unit; readonly min: number; readonly max: number; readonly orNever?: true }
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  /** null stands for "not set". */
  | { readonly kind: "text"; readonly unit: "path" | "url" | "host" | "name" }
  /** A text that is shown nowhere, not even where it is wrong. */
  | { readonly kind: "secret"; readonly charsMin: number; readonly charsMax: number }
  /** A list of names, or names joined by commas; with `isPattern` a name may have `*` and `>` in it. */
  | { readonly kind: "names"; readonly isPattern?: true }
  | { readonly kind: "retry_policy" }
  | { readonly kind: "retry_budget" };

export type Unit =
  | "ms"
  | "bytes"
  | "messages"
  | "jobs"
  | "runs"
  | "records"
  | "deliveries"
  | "checks"
  | "port"
  | "turns"
  | "requests";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

export const ms = (min: number, max: number) => ({ kind: "whole", unit: "ms", min, max }) as const;
export const count = <U extends Unit>(unit: U, min: number, max: number) =>
  ({ kind: "whole", unit, min, max }) as const;

/** Which source gave a value, and where in it. */
export interface Origin {
  readonly kind: "default" | "founding" | "file" | "environment" | "flag";
  readonly place: string;
}
