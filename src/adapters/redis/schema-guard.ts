import { randomUUID } from "node:crypto";
import type { Log } from "../../ports/log.ts";
import { failureOf, RedisFailure } from "./errors.ts";
import { type GuardedClient, UNCHECKED } from "./guarded-client.ts";
import { SCHEMA } from "./script.ts";

/**
 * Checks that the data on the server has the schema of this process and contains the last commits of this process.
 *
 * 1. The check runs on every new connection before any other command, then every `CHECK_EVERY_MS`, and after a script was
 *    refused. While the schema differs, every command of the client is rejected with `STORE_UNAVAILABLE`.
 * 2. Each batch of commits increments the counter of this process and returns it. A counter that is lower than a value seen
 *    before the command was sent means that acknowledged commits are missing: a failover to a stale replica, a restored
 *    snapshot, a power failure. The process continues with what the store has, and reports it. Replies that arrive together
 *    are not handled in the order of the server, so a value seen since says nothing.
 */
export class SchemaGuard {
  readonly processId = randomUUID();
  readonly #client: GuardedClient;
  readonly #options: GuardOptions;
  #timer: NodeJS.Timeout | undefined;
  #commits = -1;
  /** Losses reported so far. Replies to commands from before a loss say nothing about what follows it. */
  #losses = 0;
  #wentBackAt: string | null = null;

  constructor(client: GuardedClient, options: GuardOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** When commits of this process were found missing; `null` if never. */
  get wentBackAt(): string | null {
    return this.#wentBackAt;
  }

  /** Rejects if the schema differs. */
  async start(): Promise<void> {
    await this.#check();
    const { refusal } = this.#client;
    if (refusal !== null) {
      throw new RedisFailure("STORE_REFUSED", `redis at \`${this.#options.address}\`: ${refusal.message}`);
    }
    this.#client.on("close", () => {
      this.#client.refusal = UNCHECKED;
    });
    this.#client.on("ready", () => void this.recheck());
    this.#timer = setInterval(() => void this.recheck(), CHECK_EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** A failed check leaves the state as it is and is repeated by the timer. */
  async recheck(): Promise<void> {
    if (this.#client.status === "ready") await this.#check().catch(() => undefined);
  }

  /** Called before a batch of commits is sent; what it returns gets the counter after the batch. */
  onCommit(): (commits: unknown) => void {
    const compare = this.#expect();
    return (commits) => compare(Number(commits) - 1, Number(commits));
  }

  /** `found`: what the command found of the commits of this process; `now`: the counter after it. */
  #expect(): (found: number, now: number) => void {
    const [seen, losses] = [this.#commits, this.#losses];
    return (found, now) => {
      if (losses !== this.#losses) return;
      if (found < seen) this.#reportMissing(seen - Math.max(found, 0));
      this.#commits = found < seen ? now : Math.max(this.#commits, now);
    };
  }

  async #check(): Promise<void> {
    const { prefix, address, log } = this.#options;
    const isNew = this.#client.refusal === UNCHECKED;
    const stream = this.#client.stream;
    const compare = this.#expect();
    const reply = await this.#client
      .unguarded(() => this.#client.call("eval", CHECK, "1", prefix, this.processId, KEPT_MS))
      .catch((error: unknown) => Promise.reject(failureOf(error)));
    if (this.#client.stream !== stream) return; // The reply is about an earlier connection.
    const [schema, commits] = reply as [string, number];
    const before = this.#client.refusal;
    this.#client.refusal = schema === String(SCHEMA) ? null : differs(schema);
    if (this.#client.refusal !== null) {
      if (before?.message === this.#client.refusal.message) return;
      log.write("error", "redis_schema_differs", { address, error: this.#client.refusal.message });
      return;
    }
    compare(commits, Math.max(commits, 0));
    if (isNew) log.write("info", "redis_connected", { address });
    else if (before !== null) log.write("info", "redis_schema_matches", { address });
  }

  #reportMissing(missing: number): void {
    const { address, log, onWentBack } = this.#options;
    this.#losses += 1;
    this.#wentBackAt = new Date().toISOString();
    const detail =
      `redis at \`${address}\` went back in time: it lacks writes that it had acknowledged to this process; look for a failover ` +
      "to a stale replica, a restored snapshot or a power failure with weak durability, and submit lost work again";
    log.write("error", "redis_went_back", { address, missing, detail });
    onWentBack(detail);
  }
}

export interface GuardOptions {
  readonly prefix: string;
  readonly address: string;
  readonly log: Log;
  /** Called each time acknowledged commits are found missing. */
  readonly onWentBack: (detail: string) => void;
}

const CHECK_EVERY_MS = 1_000;
/** How long the counter of a stopped process is kept. */
const KEPT_MS = String(7 * 24 * 60 * 60 * 1_000);

/**
 * Migrates and reads the schema.
 *
 * Data without a schema was written before the key existed and has schema 1; so has an empty store. From schema 2 on, records
 * have checksums. Those of schema 1 are read without, and get theirs with the next write, so only the key changes.
 *
 * KEYS[1]  key prefix
 * ARGV     process, how long its counter is kept
 * returns  schema, counter of the process (-1 if absent)
 */
const CHECK = `
local P, call = KEYS[1], redis.call
local counter = P .. 'process:' .. ARGV[1]
if (call('GET', P .. 'schema') or '1') == '1' then call('SET', P .. 'schema', '2') end
local commits = tonumber(call('GET', counter) or -1)
if commits < 0 then call('SET', counter, '0', 'PX', ARGV[2]) else call('PEXPIRE', counter, ARGV[2]) end
return {call('GET', P .. 'schema'), commits}
`;

/** Without the address: readiness shows it to every client. */
function differs(schema: string): RedisFailure {
  const found = Number(schema);
  const what = `the data in redis has schema \`${schema}\`, this version of cordum uses schema ${SCHEMA}`;
  const next = Number.isInteger(found)
    ? found > SCHEMA
      ? "upgrade this process, or restore a backup from before the upgrade"
      : "start the version of cordum that migrates it"
    : "restore the key `schema` from a backup";
  return new RedisFailure("STORE_UNAVAILABLE", `${what}: ${next}`);
}
