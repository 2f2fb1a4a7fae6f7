/** How the levers and what is written about them are typed: `failopen`, `kill`, `key`, `audit`. */
import { type Command, Option } from "commander";
import { ROLES } from "../../core/model/api-key.ts";
import { FAIL_OPEN_MS } from "../../core/model/fail-open.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, durationUpTo, whole } from "../context.ts";
import type { PageOptions } from "../table.ts";
import { type ChainOptions, listAudit, verifyAudit } from "./audit.ts";
import {
  type BypassedOptions,
  closeLease,
  listBypassed,
  listLeases,
  type OpenOptions,
  openLease,
  type ReviewOptions,
  reviewBypass,
} from "./fail-open.ts";
import { type CreateKeyOptions, createKey, listKeys, revokeKey } from "./key.ts";
import { type EngageOptions, engage, listKills, type ReleaseOptions, release } from "./kill.ts";

export function addFailOpen(program: Command, { io, client, exit }: CommandContext): void {
  const failOpen = addGroup(program, "failopen", "let jobs go while the safety kernel does not answer, for a while");
  addCommand(failOpen, "open", "open a lease; it ends by itself, and is in the audit log")
    .requiredOption("--reason <text>", "why: it stands in the audit log")
    .option("--scope <tenant>", "the tenant, or '*' for all of them (default: your own)")
    .option(
      "--minutes <n>",
      `how long, 1 to ${FAIL_OPEN_MS.max / 60_000} (default: ${FAIL_OPEN_MS.default / 60_000})`,
      whole,
    )
    .action(async (options: OpenOptions) => exit(await openLease(io, client(), options)));
  addCommand(failOpen, "list", "list leases, newest first").action(async (options: PageOptions) =>
    exit(await listLeases(io, client(), options)),
  );
  addCommand(failOpen, "close", "close a lease: nothing more goes out under it")
    .argument("<id>", "the lease")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await closeLease(io, client(), id, options.json === true)),
    );
  addListCommand(failOpen, "bypassed", "list jobs that went out without a verdict and were not looked at since")
    .option("--reviewed", "those that were looked at")
    .action(async (options: BypassedOptions) => exit(await listBypassed(io, client(), options)));
  addCommand(failOpen, "review", "write down what the policy says now to a job that went out without a verdict")
    .argument("<id>", "the job's id")
    .option("--note <text>", "what you think of it")
    .action(async (id: string, options: ReviewOptions) => exit(await reviewBypass(io, client(), id, options)));
}

export function addKill(program: Command, { io, client, exit }: CommandContext): void {
  const kill = addGroup(program, "kill", "stop the work of a tenant, or of everybody, now");
  addCommand(kill, "engage", "let nothing go out, and cancel what is with workers; it is in the audit log")
    .requiredOption("--reason <text>", "why: it stands in the audit log")
    .option("--scope <tenant>", "the tenant, or '*' for all of them (default: your own)")
    .action(async (options: EngageOptions) => exit(await engage(io, client(), options)));
  addCommand(kill, "release", "let work go out again")
    .option("--scope <tenant>", "the tenant, or '*' for all of them (default: your own)")
    .action(async (options: ReleaseOptions) => exit(await release(io, client(), options)));
  addCommand(kill, "status", "which are engaged, by whom and why").action(async (options: PageOptions) =>
    exit(await listKills(io, client(), options)),
  );
}

export function addKey(program: Command, { io, client, exit }: CommandContext): void {
  const key = addGroup(program, "key", "API keys: who may what");
  addCommand(key, "create", "make a key; it is shown once")
    .addOption(new Option("--role <role>", "what it may").choices(ROLES).makeOptionMandatory())
    .option("--tenant <tenant>", "whose it is, or '*' for any tenant (default: your own)")
    .option("--name <name>", "what people call it")
    .option(
      "--expires-in <duration>",
      "how long it is good, such as 720h (default: for ever)",
      durationUpTo(YEARS_MS, 1_000),
    )
    .action(async (options: CreateKeyOptions) => exit(await createKey(io, client(), options)));
  addListCommand(key, "list", "list keys, newest first; their texts are nowhere").action(async (options: PageOptions) =>
    exit(await listKeys(io, client(), options)),
  );
  addCommand(key, "revoke", "refuse a key from now on")
    .argument("<id>", "the key's id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await revokeKey(io, client(), id, options.json === true)),
    );
}

export function addAudit(program: Command, { io, client, exit }: CommandContext): void {
  const audit = addGroup(program, "audit", "the tamper-evident log of who did what");
  addListCommand(audit, "list", "list entries, newest first")
    .option("--system", "what concerns all tenants, in place of your tenant's")
    .action(async (options: ChainOptions) => exit(await listAudit(io, client(), options)));
  addCommand(audit, "verify", "whether the log is still what was written; exit 1 when it is not")
    .option("--system", "what concerns all tenants, in place of your tenant's")
    .action(async (options: ChainOptions) => exit(await verifyAudit(io, client(), options)));
}

const YEARS_MS = 10 * 365 * 86_400_000;
