import { readFileSync } from "node:fs";
import { processIo } from "./cli/io.ts";
import { runCli } from "./cli/program.ts";

// One level above both src/ and dist/.
const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

process.exitCode = await runCli(process.argv.slice(2), processIo(), version);
