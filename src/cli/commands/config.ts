import type { Command } from "commander";
import type { Config } from "../../config/config.ts";
import { environmentTemplate, SECTIONS, sectionNamed, suggestionInSection } from "../../config/sections.ts";
import type { Origin, Setting, SettingType, Value } from "../../config/setting.ts";
import { environmentName, SETTINGS } from "../../config/table.ts";
import { REDACTED } from "../../core/model/redact.ts";
import { suggestion } from "../../core/model/suggestion.ts";
import type { Json } from "../client.ts";
import { addCommand, addGroup, type CommandContext } from "../context.ts";
import { CliError, EXIT } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { textTable } from "../table.ts";
import { loadConfig } from "../up/load-config.ts";

export function addConfig(program: Command, { io, client }: CommandContext): void {
  const config = addGroup(program, "config", "inspect the settings of the control plane");
  addCommand(config, "explain", "list all settings with their value and origin")
    .argument("[name]", "show one setting in detail")
    .option("--config <file>", "config file (default: cordum.yaml, if it exists)")
    .action(async (name: string | undefined, options: { json?: boolean; config?: string }) => {
      const config = loadConfig(io, options.config, []);
      explainConfig(io, config, name, options.json === true, await promotedValues(client));
    });
}

/** Values that a rollout promoted in the running control plane; none if it cannot be asked. */
async function promotedValues(client: CommandContext["client"]): Promise<PromotedValues> {
  try {
    const { items } = await client().request("GET /rollouts", { query: { limit: 200 } });
    const promoted: Json[] = items.filter(({ state }: Json) => state === "promoted");
    // Of two promotions of a setting, the later one is in force.
    promoted.sort((a, b) => String(a.updated_at).localeCompare(String(b.updated_at)));
    return new Map(
      promoted.map((one) => {
        const origin = { kind: "rollout", place: `rollout ${one.id}, promoted by ${one.updated_by}` } as const;
        return [one.setting, { value: String(one.policy), origin }] as const;
      }),
    );
  } catch {
    return new Map();
  }
}

type PromotedValues = ReadonlyMap<string, { readonly value: string; readonly origin: Origin }>;

export function explainConfig(
  io: Io,
  config: Config,
  name: string | undefined,
  json: boolean,
  promoted: PromotedValues = new Map(),
): void {
  const all = everySetting(config).map((one) => ({ ...one, ...promoted.get(one.name) }));
  const chosen = name === undefined ? all : all.filter((one) => one.name === name || one.setting.name === name);
  if (name !== undefined && chosen.length === 0) chosen.push(defaultFor(name));
  if (json) printJson(io, chosen.map(document));
  else if (name === undefined) io.out(textTable(["SETTING", "VALUE", "FROM", "MEANING"], chosen.map(row)));
  else for (const one of chosen) io.out(details(one));
}

/** A setting or section value with its current value and origin. */
interface SettingState {
  readonly name: string;
  readonly setting: Setting;
  readonly value: Value;
  readonly origin: Origin;
  readonly environment: string;
}

function everySetting(config: Config): SettingState[] {
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
  return [...settings, ...sections];
}

function defaultState(name: string, setting: (typeof SECTIONS)[number]): SettingState {
  const origin = { kind: "default", place: "default" } as const;
  return { name, setting, value: setting.default, origin, environment: environmentTemplate(setting.name) };
}

/** Sections without a configured value have the default; other names are unknown. */
function defaultFor(name: string): SettingState {
  const found = sectionNamed(name);
  if (found) return defaultState(name, found.setting);
  const names = SETTINGS.map((setting) => setting.name);
  const hint = suggestionInSection(name) || suggestion(name, names);
  throw new CliError(EXIT.notFound, `setting not found: \`${name}\`${hint}`, "cordum config explain");
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

function document({ name, setting, value, origin, environment }: SettingState): object {
  return {
    name,
    value,
    origin,
    default: setting.default,
    baseline: setting.baseline === undefined ? setting.default : setting.baseline,
    range: formatRange(setting.type),
    environment,
    live: setting.live === true,
    help: setting.help,
  };
}

function row({ name, setting, value, origin }: SettingState): readonly string[] {
  return [name, formatValue(setting, value), origin.place, setting.help];
}

function details({ name, setting, value, origin, environment }: SettingState): string {
  const lines = [
    ["value", `${formatValue(setting, value)} (${origin.place})`],
    ["default", formatValue(setting, setting.default)],
    ["baseline", formatValue(setting, setting.baseline === undefined ? setting.default : setting.baseline)],
    ["range", formatRange(setting.type)],
    ["environment", environment],
    ["reload", setting.live ? "applied while running" : "requires a restart"],
  ];
  return `${name}: ${setting.help}\n${lines.map(([key, text]) => `  ${(key ?? "").padEnd(12)}${text}\n`).join("")}`;
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
