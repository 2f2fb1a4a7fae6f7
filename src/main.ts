import { readFileSync } from "node:fs";
import { processIo } from "./cli/io.ts";
import { runCli } from "./cli/program.ts";

// One level above both src/ and dist/.
const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

// Data and copies of it are private, also in a directory that already exists.
if (["up", "backup", "repair"].includes(process.argv[2] ?? "")) process.umask(0o077);

process.exitCode = await runCli(process.argv.slice(2), processIo(), version);
