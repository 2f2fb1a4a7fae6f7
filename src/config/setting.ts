export type Value = string | number | null;

export interface Setting {
  readonly name: string;
  readonly type: SettingType;
  readonly default: Value;
  /** The default under `profile: baseline`, where it differs. */
  readonly baseline?: Value;
  /** A running process applies a change of the config file; other settings require a restart. */
  readonly live?: true;
  readonly help: string;
}

export type SettingType =
  /** With `orNever`, `never` is read as null and disables the setting. */
  | { readonly kind: "whole"; readonly unit: Unit; readonly min: number; readonly max: number; readonly orNever?: true }
  | {
      readonly kind: "choice";
      readonly choices: readonly string[];
      /** Former values and the choice each is read as, with a warning. */
      readonly deprecated?: Readonly<Record<string, string>>;
    }
  /** null: not set. */
  | { readonly kind: "text"; readonly unit: "path" | "url" | "host" | "name" }
  /** Never printed, not even in errors about it. */
  | { readonly kind: "secret"; readonly charsMin: number; readonly charsMax: number }
  /** A YAML list, or a string separated by commas; with `isPattern` names may contain `*` and `>`. */
  | { readonly kind: "names"; readonly isPattern?: true }
  /** A YAML list, or a string separated by commas; stored separated by spaces. Only the origins are printed. */
  | { readonly kind: "urls"; readonly max: number }
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
  | "requests"
  | "connections"
  | "streams"
  | "topics"
  | "schedules"
  | "percent"
  | "keys";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

export const ms = (min: number, max: number) => ({ kind: "whole", unit: "ms", min, max }) as const;
export const count = <U extends Unit>(unit: U, min: number, max: number) =>
  ({ kind: "whole", unit, min, max }) as const;

/** The source of a value, and the place in it. */
export interface Origin {
  readonly kind: "default" | "baseline" | "file" | "environment" | "flag" | "rollout";
  readonly place: string;
}
