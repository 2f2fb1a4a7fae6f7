import { type Command, Redis } from "ioredis";
import { RedisFailure } from "./errors.ts";

/**
 * A client that rejects commands until the data of the server has been checked. Every new connection is unchecked: the server
 * behind the address may be another one.
 */
export class GuardedClient extends Redis {
  /** `null`: commands are sent. */
  refusal: RedisFailure | null = UNCHECKED;
  #isChecking = false;

  override sendCommand(command: Command, ...rest: Rest): unknown {
    // Before "ready" only the driver sends commands.
    if (this.refusal === null || this.#isChecking || this.status !== "ready")
      return super.sendCommand(command, ...rest);
    command.reject(this.refusal);
    return command.promise;
  }

  /** Sends the commands of the check itself. */
  unguarded<T>(send: () => Promise<T>): Promise<T> {
    this.#isChecking = true;
    try {
      return send();
    } finally {
      this.#isChecking = false;
    }
  }
}

export const UNCHECKED = new RedisFailure("STORE_UNAVAILABLE", "redis unavailable: its data has not been checked yet");

type Rest = Parameters<Redis["sendCommand"]> extends [unknown, ...infer R] ? R : never;
