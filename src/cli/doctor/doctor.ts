/**
 * `cordum doctor`: findings about a control plane. `danger` means lost jobs, unchecked jobs or no progress. `caution` is a
 * known risk or an unknown fact. Every finding has a fix.
 */
import type { Command } from "commander";
import { CordumError } from "../../client/client-error.ts";
import type { Finding } from "../../gateway/findings/finding.ts";
import { diagnose, type Facts, type StatusFacts } from "../../gateway/findings/findings.ts";
import { type Client, cliErrorFrom } from "../client.ts";
import { addCommand, type CommandContext } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { printable } from "../table.ts";
import { diagnoseOutage } from "./outage.ts";

export function addDoctor(program: Command, { io, client, version, exit }: CommandContext): void {
  addCommand(program, "doctor", "check the control plane for risks and print a fix for each; exit 1 on danger").action(
    async (options: { json?: boolean }) => exit(await runDoctor(io, client(), version, options.json === true)),
  );
}

async function runDoctor(io: Io, client: Client, version: string, json: boolean): Promise<ExitCode> {
  const findings = await findingsOf(io, client, version);
  const isFine = findings.every(({ level }) => level !== "danger");
  const shown = findings.map(({ about: _, ...finding }) => ({
    ...finding,
    next: finding.next?.replace(/^cordum\b/, io.command) ?? null,
  }));
  if (json) printJson(io, { ok: isFine, url: client.url, findings: shown });
  else {
    io.out(shown.map(described).join("") || "no findings\n");
    if (isFine && shown.length > 0) io.out("no dangers found\n");
  }
  return isFine ? EXIT.ok : EXIT.error;
}

async function findingsOf(io: Io, client: Client, clientVersion: string): Promise<readonly Finding[]> {
  try {
    const [status, unreviewed, lock] = await Promise.all([
      client.status(),
      countUnreviewed(io, client),
      hottestLock(io, client),
    ]);
    return diagnose({ status: status as StatusFacts, lock, unreviewed, url: client.url, clientVersion });
  } catch (error) {
    const failure = error instanceof CordumError ? cliErrorFrom(io, error) : null;
    if (failure?.exitCode === EXIT.unavailable) return diagnoseOutage(io, client.url, failure);
    throw error;
  }
}

const COUNTED_MAX = 200;

/** Null without locks, or without access to them. */
async function hottestLock(io: Io, client: Client): Promise<Facts["lock"]> {
  const page = await orNull(io, client.request("GET /locks", { query: { limit: 1 } }));
  return page?.items[0] ?? null;
}

/** For the caller's tenant; there is no total over all tenants. */
async function countUnreviewed(io: Io, client: Client): Promise<Facts["unreviewed"]> {
  const page = await orNull(io, client.request("GET /failopen/bypassed", { query: { limit: COUNTED_MAX } }));
  return page && { count: page.items.length, isMore: page.next_cursor !== null };
}

/** Null if the request is refused. A control plane that is unavailable is an error. */
async function orNull<T>(io: Io, request: Promise<T>): Promise<T | null> {
  try {
    return await request;
  } catch (error) {
    if (error instanceof CordumError && cliErrorFrom(io, error).exitCode !== EXIT.unavailable) return null;
    throw error;
  }
}

function described({ level, what, fix, next }: Finding): string {
  return `${level}: ${printable(what)}\n  fix: ${fix}\n${next === null ? "" : `  next: ${next}\n`}`;
}
