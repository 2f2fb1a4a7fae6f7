import { Command, type Redis } from "ioredis";
import { type Encoded, encodeArgs, encodeCommand } from "./encode.ts";
import { failureOf, isScriptUnknown } from "./errors.ts";
import type { Script } from "./script.ts";

/**
 * What one tick asks of Redis, in one write.
 *
 * 1. Commands of one tick leave together when the tick ends, or when there are enough of them, in the order in which
 *    they were given. Sources are asked first, so that they can gather many calls into few commands.
 * 2. A script that the server does not know (new, restarted, flushed) was not carried out: it is sent again in full.
 *    Nothing else is ever sent twice.
 * 3. While there is no connection, a command fails at once; without an answer it fails after the client's own time
 *    limit. Both are `STORE_UNAVAILABLE`.
 */
export class RedisPipe {
  readonly #client: Redis;
  readonly #prefix: Encoded;
  readonly #sources: (() => void)[] = [];
  #commands: RawCommand[] = [];
  #isArmed = false;
  #isHasty = false;

  constructor(client: Redis, prefix: string) {
    this.#client = client;
    this.#prefix = encodeArgs(["1", prefix]);
  }

  /** `gather` is called at the end of a tick in which something was asked for, before the commands are sent. */
  addSource(gather: () => void): void {
    this.#sources.push(gather);
  }

  /** Asks for the end of this tick to be noticed. */
  arm(): void {
    if (this.#isArmed) return;
    this.#isArmed = true;
    setImmediate(() => this.flush());
  }

  /** Runs a script on the keys with our prefix. The reply's strings are text. */
  run(script: Script, args: readonly string[]): Promise<unknown> {
    return this.runEncoded(script, [encodeArgs(args)]);
  }

  /**
   * Sooner than at the end of the tick, with whatever else waits for that: somebody in another process waits for it. Not
   * before the work at hand is done: a hundred that are given in one go leave together.
   */
  hurry(): void {
    if (this.#isHasty) return;
    this.#isHasty = true;
    process.nextTick(() => this.flush());
  }

  /** Now, with whatever else waits for the end of the tick: a source has as much as it wants to send in one go. */
  flush(): void {
    // What the sources give is sent below: it need not ask for the end of the tick.
    this.#isArmed = true;
    for (const gather of this.#sources) gather();
    this.#isArmed = false;
    this.#isHasty = false;
    const commands = this.#commands;
    this.#commands = [];
    // There is no stream before the first connection; commands then fail by themselves.
    const stream: Redis["stream"] | undefined = commands.length > 1 ? this.#client.stream : undefined;
    stream?.cork();
    for (const command of commands) {
      // Where commands are traced this is a promise of its own; whoever asked waits for the command's.
      const sent = this.#client.sendCommand(command) as Promise<unknown>;
      sent.catch(() => undefined);
    }
    stream?.uncork();
  }

  async runEncoded(script: Script, args: readonly Encoded[]): Promise<unknown> {
    try {
      return await this.#send("evalsha", [script.sha, this.#prefix, ...args]);
    } catch (error) {
      if (!isScriptUnknown(error)) throw failureOf(error);
    }
    return this.command("eval", [script.source, this.#prefix, ...args]);
  }

  async command(name: string, args: readonly Encoded[]): Promise<unknown> {
    try {
      return await this.#send(name, args);
    } catch (error) {
      throw failureOf(error);
    }
  }

  #send(name: string, args: readonly Encoded[]): Promise<unknown> {
    const command = new RawCommand(name, args);
    this.#commands.push(command);
    this.arm();
    return command.promise;
  }
}

/** A command that is already in the server's protocol. It keeps no arguments, so no error can show them. */
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
