/** `cordum doctor`: what is dangerous, with the fix. Exit 1 when anything is. */
import type { Client } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { printable } from "../table.ts";
import { diagnose, type Facts, type Finding } from "./diagnose.ts";

export async function runDoctor(io: Io, client: Client, version: string, json: boolean): Promise<ExitCode> {
  const [status, unreviewed] = await Promise.all([client.get("/status"), countUnreviewed(client)]);
  const findings = diagnose({ status, unreviewed, url: client.url, clientVersion: version });
  const isFine = findings.every(({ level }) => level !== "danger");
  const shown = findings.map((finding) => ({
    ...finding,
    next: finding.next?.replace(/^cordum\b/, io.command) ?? null,
  }));
  if (json) printJson(io, { ok: isFine, url: client.url, findings: shown });
  else {
    io.out(shown.map(described).join("") || "nothing to worry about\n");
    if (isFine && shown.length > 0) io.out("nothing dangerous\n");
  }
  return isFine ? EXIT.ok : EXIT.error;
}

const COUNTED_MAX = 200;

/** Of the caller's tenant: nobody counts them for all. */
async function countUnreviewed(client: Client): Promise<Facts["unreviewed"]> {
  try {
    const page = await client.get("/failopen/bypassed", { limit: String(COUNTED_MAX) });
    return { count: page.items.length, isMore: page.next_cursor !== null };
  } catch (error) {
    if (error instanceof CliError && error.exitCode !== EXIT.unavailable) return null;
    throw error;
  }
}

function described({ level, what, fix, next }: Finding): string {
  return `${level}: ${printable(what)}\n  fix: ${fix}\n${next === null ? "" : `  next: ${next}\n`}`;
}
