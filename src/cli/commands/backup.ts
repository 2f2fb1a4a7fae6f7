/** `cordum backup DIR`: a copy of an embedded control plane's data, while it runs or not. */
import type { Config } from "../../config/config.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";

export async function backUp(io: Io, config: Config, into: string, json: boolean): Promise<ExitCode> {
  const { natsUrl, dataDir } = config.process;
  if (natsUrl !== null) {
    const message = "a cluster has its data in Redis and NATS: back up those servers, with their own means";
    throw new CliError(EXIT.usage, message, "cordum config explain redis.url");
  }
  const { backUpDirectory } = await import("../../adapters/sqlite/backup.ts");
  const made = await backUpDirectory(dataDir, into).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.error, `no copy was made of \`${dataDir}\`: ${why}`, "cordum config explain data.dir");
  });
  switch (made.kind) {
    case "no_data":
      throw new CliError(
        EXIT.notFound,
        `there is no data at \`${made.file}\`; name the directory with --data`,
        "cordum config explain data.dir",
      );
    case "taken":
      throw new CliError(EXIT.conflict, `\`${made.file}\` is there already`, `cordum backup ${into}-2`);
    case "done":
      if (json) printJson(io, { file: made.file, size_bytes: made.sizeBytes, schema: made.schema });
      else io.out(`${made.file}\n`);
      io.err(`to run from it: ${io.command} up --data ${into}\n`);
      return EXIT.ok;
    default:
      return made satisfies never;
  }
}
