/** Every setting with its value and origin, as `cordum config explain` and `GET /api/v1/settings` show them. Secrets are hidden. */
import { REDACTED } from "../core/model/redact.ts";
import type { Config } from "./config.ts";
import { environmentTemplate, SECTIONS } from "./sections.ts";
import type { Origin, Setting, SettingType, Value } from "./setting.ts";
import { environmentName, SETTINGS } from "./table.ts";

/** A setting or section value with its current value and origin. */
export interface SettingState {
  readonly name: string;
  readonly setting: Setting;
  readonly value: Value;
  readonly origin: Origin;
  readonly environment: string;
}

/** Values that a rollout promoted, by setting. */
export type PromotedValues = ReadonlyMap<string, { readonly value: string; readonly origin: Origin }>;

export function settingStates(config: Config, promoted: PromotedValues = new Map()): readonly SettingState[] {
  const settings = SETTINGS.map((setting): SettingState => {
    const { name } = setting;
    const value = redacted(setting, config.values[name]);
    return { name, setting, value, origin: config.origins[name], environment: environmentName(name) };
  });
  const sections = SECTIONS.flatMap((setting): SettingState[] => {
    const given = config.sections.filter(({ section }) => section === setting.name);
    if (given.length === 0) return [defaultState(setting.name, setting)];
    return given.map((one) => ({ ...defaultState(one.name, setting), value: one.value, origin: one.origin }));
  });
  return [...settings, ...sections].map((one) => ({ ...one, ...promoted.get(one.name) }));
}

export function defaultState(name: string, setting: (typeof SECTIONS)[number]): SettingState {
  const origin = { kind: "default", place: "default" } as const;
  return { name, setting, value: setting.default, origin, environment: environmentTemplate(setting.name) };
}

export function settingView({ name, setting, value, origin, environment }: SettingState) {
  return {
    name,
    value,
    origin,
    default: setting.default,
    baseline: setting.baseline === undefined ? setting.default : setting.baseline,
    range: formatRange(setting.type),
    unit: setting.type.kind === "whole" ? setting.type.unit : null,
    environment,
    live: setting.live === true,
    help: setting.help,
  };
}

/** A value in the notation of the config file. */
export function formatValue({ type }: Setting, value: Value): string {
  if (value !== null && value !== "") return String(value);
  return type.kind === "whole" && type.orNever ? "never" : "–";
}

export function formatRange(type: SettingType): string {
  switch (type.kind) {
    case "whole":
      return `${type.min} to ${type.max} ${type.unit}${type.orNever ? ", or `never`" : ""}`;
    case "choice":
      return type.choices.map((choice) => `\`${choice}\``).join(", ");
    case "text":
      return type.unit;
    case "secret":
      return `${type.charsMin} to ${type.charsMax} letters, digits and \`-._~+/=\``;
    case "names":
      return type.isPattern
        ? "a list, or names and patterns separated by commas"
        : "a list, or names separated by commas";
    case "urls":
      return `a list of at most ${type.max} URLs, or URLs separated by commas`;
    case "retry_policy":
      return "a retry policy such as `bounded:500ms:0.3`";
    case "retry_budget":
      return "`3` (attempts), `10m` or `deadline`";
    default:
      return type satisfies never;
  }
}

/** Hides secrets, passwords in URLs, and paths of receivers, which are often credentials. */
function redacted({ type }: Setting, value: Value): Value {
  if (type.kind === "secret" && value !== null) return REDACTED;
  if (type.kind === "urls" && value) {
    return String(value)
      .split(" ")
      .map((url) => `${new URL(url).origin}/…`)
      .join(", ");
  }
  if (typeof value !== "string" || !/^[a-z]+:\/\/[^/]*@/.test(value)) return value;
  return value.replace(/\/\/[^/]*@/, "//…@");
}
