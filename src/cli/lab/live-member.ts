/**
 * A child process of a live run, controlled over IPC.
 *
 * It exits when the channel closes. A channel that closes without a `leave` request means that the parent died, so the
 * child removes the namespace. Signals are ignored: the parent handles Ctrl-C and stops its children.
 */
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { EXPERIMENTS } from "../../lab/experiments.ts";
import type { LabProcess, ProcessContext } from "../../lab/live.ts";
import type { Log } from "../../ports/log.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Namespace, type OpenedNamespace, openNamespace, removeNamespace } from "./live-namespace.ts";
import type { MemberMessage, MemberRequest } from "./live-processes.ts";

export async function runMember(): Promise<ExitCode> {
  if (process.send === undefined) return EXIT.usage;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
  const member = new MemberProcess();
  return new Promise((resolve) => {
    const end = (exitCode: ExitCode): void => {
      // Forced: open handles must not keep the process alive.
      setImmediate(() => process.exit(exitCode));
      resolve(exitCode);
    };
    process.on("message", (message: MemberRequest) => {
      if (message.kind === "leave") void member.leave().then(() => end(EXIT.ok));
      else void member.handle(message);
    });
    process.once("disconnect", () => {
      if (!member.isLeaving) void member.cleanUpAfterParent().then(() => end(EXIT.error));
    });
  });
}

class MemberProcess {
  #space: Namespace | null = null;
  #member: Promise<LabProcess> | null = null;
  #opened: OpenedNamespace | null = null;
  isLeaving = false;

  async handle(message: Exclude<MemberRequest, { readonly kind: "leave" }>): Promise<void> {
    const id = message.kind === "ask" ? message.id : null;
    try {
      if (message.kind === "join") {
        this.#space = message.space;
        this.#member = this.#join(message);
        await this.#member;
        send({ kind: "joined" });
      } else {
        const member = await this.#member;
        send({ kind: "answer", id: message.id, value: (await member?.handle(message.question)) ?? null });
      }
    } catch (error) {
      send({ kind: "failed", id, error: error instanceof Error ? error.message : String(error) });
    }
  }

  /** Pending lock waits and deliveries must not delay the exit. */
  async leave(): Promise<void> {
    this.isLeaving = true;
    await Promise.race([this.#closed(), sleep(LEAVE_MS_MAX)]);
  }

  /** All children do this; the last one removes what the others missed. */
  async cleanUpAfterParent(): Promise<void> {
    await this.leave();
    if (this.#space !== null) await removeNamespace(this.#space).catch(() => undefined);
  }

  async #closed(): Promise<void> {
    const member = await this.#member?.catch(() => null);
    await member?.close().catch(() => undefined);
    await this.#opened?.close().catch(() => undefined);
  }

  #join({ experiment, index, space, order }: Extract<MemberRequest, { readonly kind: "join" }>): Promise<LabProcess> {
    const one = EXPERIMENTS.find(({ name }) => name === experiment);
    if (one?.live === undefined) throw new Error(`\`${experiment}\` has no live mode`);
    const name = `${space.name}-${index}`;
    const place: ProcessContext = {
      index,
      openWorld: async (given) => {
        this.#opened = await openNamespace({ ...given, space, name }, ERRORS);
        return this.#opened.world;
      },
      publish: async (messages) => this.#opened?.bring(messages),
      nowMs,
      pause,
      busyMs,
      emit: (event) => send({ kind: "event", event }),
    };
    return one.live.startProcess(place, order);
  }
}

const LEAVE_MS_MAX = 3_000;

/** Wall-clock time, comparable between processes, with sub-millisecond resolution. */
const nowMs = (): number => performance.timeOrigin + performance.now();

/** Timers have millisecond resolution and fire late, so the rest of the delay is spent in event-loop turns. */
async function pause(delayMs: number): Promise<void> {
  const untilMs = performance.now() + delayMs;
  const wholeMs = Math.floor(delayMs) - 1;
  if (wholeMs > 0) await sleep(wholeMs);
  const fromMs = performance.now();
  while (performance.now() < untilMs) await turn();
  spunMs += Math.max(0, performance.now() - fromMs);
}

/** Total time spent in these turns. */
let spunMs = 0;

const busyMs = (): number => performance.eventLoopUtilization().active - spunMs;

function send(message: MemberMessage): void {
  if (process.connected) process.send?.(message);
}

/** Writes only errors to stderr. */
const ERRORS: Log = {
  write: (level, event, fields) => {
    if (level === "error") process.stderr.write(`${JSON.stringify({ level, event, ...fields })}\n`);
  },
};
