import type { Command } from "commander";
import type { Config } from "../../config/config.ts";
import { addCommand, type CommandContext } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { loadConfig } from "../up/load-config.ts";

export function addBackup(program: Command, { io, exit }: CommandContext): void {
  addCommand(program, "backup", "back up the data directory of an embedded control plane, running or stopped")
    .argument("<dir>", "target directory; created if missing")
    .option("--data <dir>", "data directory (default: .cordum)")
    .option("--config <file>", "config file (default: cordum.yaml, if it exists)")
    .action(async (into: string, options: { json?: boolean; data?: string; config?: string }) => {
      const flags = [{ name: "data.dir", flag: "--data", value: options.data }] as const;
      exit(await backUp(io, loadConfig(io, options.config, flags), into, options.json === true));
    });
}

async function backUp(io: Io, config: Config, into: string, json: boolean): Promise<ExitCode> {
  const { natsUrl, dataDir } = config.process;
  if (natsUrl !== null) {
    const message = "a cluster stores its data in Redis and NATS; back up these servers with their own tools";
    throw new CliError(EXIT.usage, message, "cordum config explain redis.url");
  }
  const { backUpDirectory } = await import("../../adapters/sqlite/backup.ts");
  const made = await backUpDirectory(dataDir, into).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.error, `cannot back up \`${dataDir}\`: ${why}`, "cordum config explain data.dir");
  });
  switch (made.kind) {
    case "no_data":
      throw new CliError(
        EXIT.notFound,
        `no data found at \`${made.file}\`; set the data directory with --data`,
        "cordum config explain data.dir",
      );
    case "taken":
      throw new CliError(EXIT.conflict, `\`${made.file}\` already exists`, `cordum backup ${into}-2`);
    case "done":
      if (json) printJson(io, { file: made.file, size_bytes: made.sizeBytes, schema: made.schema });
      else io.out(`${made.file}\n`);
      io.err(`to start from it: ${io.command} up --data ${into}\n`);
      return EXIT.ok;
    default:
      return made satisfies never;
  }
}
