import { Command, type Redis } from "ioredis";
import { type Encoded, encodeArgs, encodeCommand } from "./encode.ts";
import { failureOf, isSchemaRefused, isScriptUnknown } from "./errors.ts";
import type { Script } from "./script.ts";

/**
 * Sends the Redis commands of one tick in one write.
 *
 * 1. Commands of a tick are sent in order when the tick ends, or earlier when a batch is full. Sources run first, so
 *    they can combine many calls into few commands.
 * 2. A script unknown to the server (NOSCRIPT) has not run: it is sent again with its source. Nothing else is resent.
 * 3. Without a connection a command fails at once; without a reply it fails after the client's timeout. Both are
 *    `STORE_UNAVAILABLE`.
 */
export class RedisPipe {
  readonly #client: Redis;
  readonly #prefix: Encoded;
  readonly #sources: (() => void)[] = [];
  #commands: RawCommand[] = [];
  #isFlushScheduled = false;
  #isFlushSoon = false;
  readonly #onSchemaRefused: () => void;

  /** `onSchemaRefused` is called when a script found data of another schema. */
  constructor(client: Redis, prefix: string, onSchemaRefused: () => void) {
    this.#client = client;
    this.#onSchemaRefused = onSchemaRefused;
    this.#prefix = encodeArgs(["1", prefix]);
  }

  /** `gather` is called before every flush. */
  addSource(gather: () => void): void {
    this.#sources.push(gather);
  }

  /** Schedules a flush at the end of the tick. */
  scheduleFlush(): void {
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    setImmediate(() => this.flush());
  }

  run(script: Script, args: readonly string[]): Promise<unknown> {
    return this.runEncoded(script, [encodeArgs(args)]);
  }

  /** Flushes before the end of the tick, after the current synchronous work: calls made in one go share the write. */
  flushSoon(): void {
    if (this.#isFlushSoon) return;
    this.#isFlushSoon = true;
    process.nextTick(() => this.flush());
  }

  flush(): void {
    // Commands added by sources are sent below and need no flush of their own.
    this.#isFlushScheduled = true;
    for (const gather of this.#sources) gather();
    this.#isFlushScheduled = false;
    this.#isFlushSoon = false;
    const commands = this.#commands;
    this.#commands = [];
    // No stream exists before the first connection; commands then fail by themselves.
    const stream: Redis["stream"] | undefined = commands.length > 1 ? this.#client.stream : undefined;
    stream?.cork();
    for (const command of commands) {
      // With tracing enabled this is a separate promise; callers await the promise of the command.
      const sent = this.#client.sendCommand(command) as Promise<unknown>;
      sent.catch(() => undefined);
    }
    stream?.uncork();
  }

  async runEncoded(script: Script, args: readonly Encoded[]): Promise<unknown> {
    try {
      return await this.#send("evalsha", [script.sha, this.#prefix, ...args]);
    } catch (error) {
      if (!isScriptUnknown(error)) throw this.#failureOf(error);
    }
    return this.command("eval", [script.source, this.#prefix, ...args]);
  }

  async command(name: string, args: readonly Encoded[]): Promise<unknown> {
    try {
      return await this.#send(name, args);
    } catch (error) {
      throw this.#failureOf(error);
    }
  }

  #failureOf(error: unknown): Error {
    if (isSchemaRefused(error)) this.#onSchemaRefused();
    return failureOf(error);
  }

  #send(name: string, args: readonly Encoded[]): Promise<unknown> {
    const command = new RawCommand(name, args);
    this.#commands.push(command);
    this.scheduleFlush();
    return command.promise;
  }
}

/** A command that is already encoded. It keeps no arguments, so errors cannot expose them. */
class RawCommand extends Command {
  readonly #bytes: Buffer;

  constructor(name: string, args: readonly Encoded[]) {
    super(name, [], { replyEncoding: "utf8" });
    this.#bytes = encodeCommand(name, args);
  }

  override toWritable(): Buffer {
    return this.#bytes;
  }
}
