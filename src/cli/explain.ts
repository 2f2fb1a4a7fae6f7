/** `cordum config explain`: every setting, what it is now, and who said so. */
import { environmentName, SETTINGS, type Setting, type SettingType, type Value } from "../config/table.ts";
import type { Config } from "../config.ts";
import { suggestion } from "../model/nearest.ts";
import { CliError, EXIT } from "./exit.ts";
import { type Io, printJson } from "./io.ts";
import { textTable } from "./table.ts";

export function explainConfig(io: Io, config: Config, name: string | undefined, json: boolean): void {
  const chosen = name === undefined ? SETTINGS : SETTINGS.filter((setting) => setting.name === name);
  if (name !== undefined && chosen.length === 0) {
    const hint = suggestion(
      name,
      SETTINGS.map((setting) => setting.name),
    );
    throw new CliError(EXIT.notFound, `there is no setting \`${name}\`${hint}`, "cordum config explain");
  }
  if (json)
    printJson(
      io,
      chosen.map((setting) => explained(setting, config)),
    );
  else if (name === undefined)
    io.out(
      textTable(
        ["SETTING", "VALUE", "FROM", "MEANING"],
        chosen.map((setting) => row(setting, config)),
      ),
    );
  else for (const setting of chosen) io.out(paragraph(setting, config));
}

/** A value as it would be written. */
export function shown({ type }: Setting, value: Value): string {
  if (value !== null) return String(value);
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
    case "retry_policy":
      return "such as `bounded:500ms:0.3`";
    case "retry_budget":
      return "`3` tries, `10m`, or `deadline`";
    default:
      return type satisfies never;
  }
}

function explained(setting: (typeof SETTINGS)[number], config: Config): object {
  return {
    name: setting.name,
    value: safe(config.values[setting.name]),
    origin: config.origins[setting.name],
    default: setting.default,
    founding: setting.founding === undefined ? setting.default : setting.founding,
    range: rangeOf(setting.type),
    environment: environmentName(setting.name),
    live: setting.live === true,
    help: setting.help,
  };
}

function row(setting: (typeof SETTINGS)[number], config: Config): readonly string[] {
  return [
    setting.name,
    shown(setting, safe(config.values[setting.name])),
    config.origins[setting.name].place,
    setting.help,
  ];
}

function paragraph(setting: (typeof SETTINGS)[number], config: Config): string {
  const lines = [
    ["is", `${shown(setting, safe(config.values[setting.name]))} (${config.origins[setting.name].place})`],
    ["default", shown(setting, setting.default)],
    ["founding", shown(setting, setting.founding === undefined ? setting.default : setting.founding)],
    ["range", rangeOf(setting.type)],
    ["environment", environmentName(setting.name)],
    ["changes", setting.live ? "while running, with the config file" : "with a restart"],
  ];
  return `${setting.name}: ${setting.help}\n${lines.map(([key, text]) => `  ${(key ?? "").padEnd(12)}${text}\n`).join("")}`;
}

/** A password in an address is nobody's business. */
function safe(value: Value): Value {
  if (typeof value !== "string" || !/^[a-z]+:\/\/[^/]*@/.test(value)) return value;
  return value.replace(/\/\/[^/]*@/, "//…@");
}
