import { existsSync, readFileSync } from "node:fs";
import { type Config, configure, type Sources } from "../../config/config.ts";
import type { SettingName } from "../../config/table.ts";
import { CliError, EXIT } from "../exit.ts";
import type { Io } from "../io.ts";

export const CONFIG_FILE = "cordum.yaml";

/** Settings given as flags; `undefined` where a flag is absent. */
export type FlagValues = readonly {
  readonly name: SettingName;
  readonly flag: string;
  readonly value: string | undefined;
}[];

/** Reads `cordum.yaml` or the given file, the environment and the flags. Throws an error with all problems. */
export function loadConfig(
  io: Io,
  configFile: string | undefined,
  flags: FlagValues,
  warn: (warning: string) => void = (warning) => io.err(`warning: ${warning}\n`),
): Config {
  const file = readConfigFile(configFile);
  const given = flags.flatMap(({ name, flag, value }) => (value === undefined ? [] : [{ name, flag, value }]));
  const sources: Sources = { file, env: io.env, flags: given };
  const configured = configure(sources);
  if (configured.kind === "ok") {
    for (const warning of configured.warnings) warn(warning);
    return configured.config;
  }
  const problems = configured.problems.map((problem) => `\n  ${problem}`).join("");
  throw new CliError(EXIT.usage, `invalid configuration:${problems}`, "cordum config explain", {
    problems: configured.problems,
  });
}

function readConfigFile(path: string | undefined): Sources["file"] {
  if (path === undefined && !existsSync(CONFIG_FILE)) return undefined;
  const name = path ?? CONFIG_FILE;
  try {
    return { name, text: readFileSync(name, "utf8") };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.usage, `cannot read config file \`${name}\`: ${why}`, "cordum config explain");
  }
}
