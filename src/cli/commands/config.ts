import type { Command } from "commander";
import type { Config } from "../../config/config.ts";
import {
  defaultState,
  formatRange,
  formatValue,
  type PromotedValues,
  type SettingState,
  settingStates,
  settingView,
} from "../../config/explain.ts";
import { sectionNamed, suggestionInSection } from "../../config/sections.ts";
import { SETTINGS } from "../../config/table.ts";
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
        const origin = {
          kind: "rollout",
          place: `rollout ${one.id}, promoted by ${one.updated_by_name ?? one.updated_by}`,
        } as const;
        return [one.setting, { value: String(one.policy), origin }] as const;
      }),
    );
  } catch {
    return new Map();
  }
}

export function explainConfig(
  io: Io,
  config: Config,
  name: string | undefined,
  json: boolean,
  promoted: PromotedValues = new Map(),
): void {
  const all = settingStates(config, promoted);
  const chosen = name === undefined ? [...all] : all.filter((one) => one.name === name || one.setting.name === name);
  if (name !== undefined && chosen.length === 0) chosen.push(defaultFor(name));
  if (json) printJson(io, chosen.map(settingView));
  else if (name === undefined) io.out(textTable(["SETTING", "VALUE", "FROM", "MEANING"], chosen.map(row)));
  else for (const one of chosen) io.out(details(one));
}

/** Sections without a configured value have the default; other names are unknown. */
function defaultFor(name: string): SettingState {
  const found = sectionNamed(name);
  if (found) return defaultState(name, found.setting);
  const names = SETTINGS.map((setting) => setting.name);
  const hint = suggestionInSection(name) || suggestion(name, names);
  throw new CliError(EXIT.notFound, `setting not found: \`${name}\`${hint}`, "cordum config explain");
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
