import { existsSync, readFileSync } from "node:fs";
import { type Config, configure, type Sources } from "../../config/config.ts";
import type { SettingName } from "../../config/table.ts";
import { CliError, EXIT } from "../exit.ts";
import type { Io } from "../io.ts";

export const CONFIG_FILE = "cordum.yaml";

/** What the flags of a command say about settings: `undefined` where the flag was not given. */
export type FlagValues = readonly {
  readonly name: SettingName;
  readonly flag: string;
  readonly value: string | undefined;
}[];

/** Reads `cordum.yaml` (or the file that was named), the environment and the flags. Throws with everything that is wrong. */
export function loadConfig(io: Io, configFile: string | undefined, flags: FlagValues): Config {
  const file = readConfigFile(configFile);
  const given = flags.flatMap(({ name, flag, value }) => (value === undefined ? [] : [{ name, flag, value }]));
  const sources: Sources = { file, env: io.env, flags: given };
  const configured = configure(sources);
  if (configured.kind === "ok") return configured.config;
  const problems = configured.problems.map((problem) => `\n  ${problem}`).join("");
  throw new CliError(EXIT.usage, `the configuration is wrong:${problems}`, "cordum config explain", {
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
    throw new CliError(EXIT.usage, `cannot read the config file \`${name}\`: ${why}`, "cordum config explain");
  }
}
