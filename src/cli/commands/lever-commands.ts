/** How the levers and what is written about them are typed: `failopen`, `kill`, `key`, `audit`. */
import { type Command, Option } from "commander";
import { ROLES } from "../../core/model/api-key.ts";
import { FAIL_OPEN_MS } from "../../core/model/fail-open.ts";
import { durationUpTo, group, type Kit, leaf, listLeaf, whole } from "../kit.ts";
import type { PageOptions } from "../page.ts";
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

export function addFailOpen(program: Command, { io, client, end }: Kit): void {
  const failOpen = group(program, "failopen", "let jobs go while the safety kernel does not answer, for a while");
  leaf(failOpen, "open", "open a lease; it ends by itself, and is in the audit log")
    .requiredOption("--reason <text>", "why: it stands in the audit log")
    .option("--scope <tenant>", "the tenant, or '*' for all of them (default: your own)")
    .option(
      "--minutes <n>",
      `how long, 1 to ${FAIL_OPEN_MS.max / 60_000} (default: ${FAIL_OPEN_MS.default / 60_000})`,
      whole,
    )
    .action(async (options: OpenOptions) => end(await openLease(io, client(), options)));
  leaf(failOpen, "list", "list leases, newest first").action(async (options: PageOptions) =>
    end(await listLeases(io, client(), options)),
  );
  leaf(failOpen, "close", "close a lease: nothing more goes out under it")
    .argument("<id>", "the lease")
    .action(async (id: string, options: { json?: boolean }) =>
      end(await closeLease(io, client(), id, options.json === true)),
    );
  listLeaf(failOpen, "bypassed", "list jobs that went out without a verdict and were not looked at since")
    .option("--reviewed", "those that were looked at")
    .action(async (options: BypassedOptions) => end(await listBypassed(io, client(), options)));
  leaf(failOpen, "review", "write down what the policy says now to a job that went out without a verdict")
    .argument("<id>", "the job's id")
    .option("--note <text>", "what you think of it")
    .action(async (id: string, options: ReviewOptions) => end(await reviewBypass(io, client(), id, options)));
}

export function addKill(program: Command, { io, client, end }: Kit): void {
  const kill = group(program, "kill", "stop the work of a tenant, or of everybody, now");
  leaf(kill, "engage", "let nothing go out, and cancel what is with workers; it is in the audit log")
    .requiredOption("--reason <text>", "why: it stands in the audit log")
    .option("--scope <tenant>", "the tenant, or '*' for all of them (default: your own)")
    .action(async (options: EngageOptions) => end(await engage(io, client(), options)));
  leaf(kill, "release", "let work go out again")
    .option("--scope <tenant>", "the tenant, or '*' for all of them (default: your own)")
    .action(async (options: ReleaseOptions) => end(await release(io, client(), options)));
  leaf(kill, "status", "which are engaged, by whom and why").action(async (options: PageOptions) =>
    end(await listKills(io, client(), options)),
  );
}

export function addKey(program: Command, { io, client, end }: Kit): void {
  const key = group(program, "key", "API keys: who may what");
  leaf(key, "create", "make a key; it is shown once")
    .addOption(new Option("--role <role>", "what it may").choices(ROLES).makeOptionMandatory())
    .option("--tenant <tenant>", "whose it is, or '*' for any tenant (default: your own)")
    .option("--name <name>", "what people call it")
    .option(
      "--expires-in <duration>",
      "how long it is good, such as 720h (default: for ever)",
      durationUpTo(YEARS_MS, 1_000),
    )
    .action(async (options: CreateKeyOptions) => end(await createKey(io, client(), options)));
  listLeaf(key, "list", "list keys, newest first; their texts are nowhere").action(async (options: PageOptions) =>
    end(await listKeys(io, client(), options)),
  );
  leaf(key, "revoke", "refuse a key from now on")
    .argument("<id>", "the key's id")
    .action(async (id: string, options: { json?: boolean }) =>
      end(await revokeKey(io, client(), id, options.json === true)),
    );
}

export function addAudit(program: Command, { io, client, end }: Kit): void {
  const audit = group(program, "audit", "the tamper-evident log of who did what");
  listLeaf(audit, "list", "list entries, newest first")
    .option("--system", "what concerns all tenants, in place of your tenant's")
    .action(async (options: ChainOptions) => end(await listAudit(io, client(), options)));
  leaf(audit, "verify", "whether the log is still what was written; exit 1 when it is not")
    .option("--system", "what concerns all tenants, in place of your tenant's")
    .action(async (options: ChainOptions) => end(await verifyAudit(io, client(), options)));
}

const YEARS_MS = 10 * 365 * 86_400_000;
