/** `cordum config explain`: every setting, what it is now, and who said so. */

import type { Config } from "../../config/config.ts";
import { environmentTemplate, SECTIONS, sectionNamed, suggestionInSection } from "../../config/sections.ts";
import type { Origin, Setting, SettingType, Value } from "../../config/setting.ts";
import { environmentName, SETTINGS } from "../../config/table.ts";
import { REDACTED } from "../../core/model/redact.ts";
import { suggestion } from "../../core/model/suggestion.ts";
import { CliError, EXIT } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { textTable } from "../table.ts";

export function explainConfig(io: Io, config: Config, name: string | undefined, json: boolean): void {
  const all = everySetting(config);
  const chosen = name === undefined ? all : all.filter((one) => one.name === name || one.setting.name === name);
  if (name !== undefined && chosen.length === 0) chosen.push(notGiven(name));
  if (json) printJson(io, chosen.map(explained));
  else if (name === undefined) io.out(textTable(["SETTING", "VALUE", "FROM", "MEANING"], chosen.map(row)));
  else for (const one of chosen) io.out(paragraph(one));
}

/** A setting, or that of one tenant or pool, as it stands. */
interface Standing {
  readonly name: string;
  readonly setting: Setting;
  readonly value: Value;
  readonly origin: Origin;
  readonly environment: string;
}

function everySetting(config: Config): Standing[] {
  const settings = SETTINGS.map((setting): Standing => {
    const { name } = setting;
    const value = safe(setting, config.values[name]);
    return { name, setting, value, origin: config.origins[name], environment: environmentName(name) };
  });
  const sections = SECTIONS.flatMap((setting): Standing[] => {
    const given = config.sections.filter(({ section }) => section === setting.name);
    if (given.length === 0) return [byDefault(setting.name, setting)];
    return given.map((one) => ({ ...byDefault(one.name, setting), value: one.value, origin: one.origin }));
  });
  return [...settings, ...sections];
}

function byDefault(name: string, setting: (typeof SECTIONS)[number]): Standing {
  const origin = { kind: "default", place: "default" } as const;
  return { name, setting, value: setting.default, origin, environment: environmentTemplate(setting.name) };
}

/** A tenant or pool of which nothing was said is at the defaults; any other name is a mistake. */
function notGiven(name: string): Standing {
  const found = sectionNamed(name);
  if (found) return byDefault(name, found.setting);
  const names = SETTINGS.map((setting) => setting.name);
  const hint = suggestionInSection(name) || suggestion(name, names);
  throw new CliError(EXIT.notFound, `there is no setting \`${name}\`${hint}`, "cordum config explain");
}

/** A value as it would be written. */
export function shown({ type }: Setting, value: Value): string {
  if (value !== null && value !== "") return String(value);
  return type.kind === "whole" && type.orNever ? "never" : "–";
}

export function rangeOf(type: SettingType): string {
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
      return type.isPattern ? "a list, or names and patterns joined by commas" : "a list, or names joined by commas";
    case "retry_policy":
      return "such as `bounded:500ms:0.3`";
    case "retry_budget":
      return "`3` tries, `10m`, or `deadline`";
    default:
      return type satisfies never;
  }
}

function explained({ name, setting, value, origin, environment }: Standing): object {
  return {
    name,
    value,
    origin,
    default: setting.default,
    founding: setting.baseline === undefined ? setting.default : setting.baseline,
    range: rangeOf(setting.type),
    environment,
    live: setting.live === true,
    help: setting.help,
  };
}

function row({ name, setting, value, origin }: Standing): readonly string[] {
  return [name, shown(setting, value), origin.place, setting.help];
}

function paragraph({ name, setting, value, origin, environment }: Standing): string {
  const lines = [
    ["is", `${shown(setting, value)} (${origin.place})`],
    ["default", shown(setting, setting.default)],
    ["founding", shown(setting, setting.baseline === undefined ? setting.default : setting.baseline)],
    ["range", rangeOf(setting.type)],
    ["environment", environment],
    ["changes", setting.live ? "while running, with the config file" : "with a restart"],
  ];
  return `${name}: ${setting.help}\n${lines.map(([key, text]) => `  ${(key ?? "").padEnd(12)}${text}\n`).join("")}`;
}

/** A password in an address is nobody's business, and what is secret as a whole even less. */
function safe({ type }: Setting, value: Value): Value {
  if (type.kind === "secret" && value !== null) return REDACTED;
  if (typeof value !== "string" || !/^[a-z]+:\/\/[^/]*@/.test(value)) return value;
  return value.replace(/\/\/[^/]*@/, "//…@");
}
