/**
 * One process of a live run: the program itself, started again by the command, which tells it what to do over the channel
 * between them.
 *
 * 1. It ends when the channel does, so it does not outlive the command. If nobody told it to end, the command is dead and
 *    cannot clean up: then it does.
 * 2. Ctrl-C reaches it as well, and is not for it: the command stops first what it has begun.
 */
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { EXPERIMENTS } from "../../lab/experiments.ts";
import type { LabProcess, ProcessContext } from "../../lab/live.ts";
import type { Log } from "../../ports/log.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Opened, openSpace, type Space, sweep } from "./lab-live-space.ts";
import type { FromMember, ToMember } from "./lab-live-text.ts";

export async function runMember(): Promise<ExitCode> {
  if (process.send === undefined) return EXIT.usage;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
  const life = new Life();
  return new Promise((resolve) => {
    const end = (exitCode: ExitCode): void => {
      // Whatever is still open: nobody waits for it any more.
      setImmediate(() => process.exit(exitCode));
      resolve(exitCode);
    };
    process.on("message", (message: ToMember) => {
      if (message.kind === "leave") void life.leave().then(() => end(EXIT.ok));
      else void life.hear(message);
    });
    process.once("disconnect", () => {
      if (!life.isLeaving) void life.orphaned().then(() => end(EXIT.error));
    });
  });
}

class Life {
  #space: Space | null = null;
  #member: Promise<LabProcess> | null = null;
  #opened: Opened | null = null;
  isLeaving = false;

  async hear(message: Exclude<ToMember, { readonly kind: "leave" }>): Promise<void> {
    const id = message.kind === "ask" ? message.id : null;
    try {
      if (message.kind === "join") {
        this.#space = message.space;
        this.#member = this.#join(message);
        await this.#member;
        say({ kind: "joined" });
      } else {
        const member = await this.#member;
        say({ kind: "answer", id: message.id, value: (await member?.handle(message.question)) ?? null });
      }
    } catch (error) {
      say({ kind: "failed", id, error: error instanceof Error ? error.message : String(error) });
    }
  }

  /** Whoever still waits for a lock, or for a message, does not keep it. */
  async leave(): Promise<void> {
    this.isLeaving = true;
    await Promise.race([this.#closed(), sleep(LEAVE_MS_MAX)]);
  }

  /** (1) The others do the same, and what one has missed the last of them finds. */
  async orphaned(): Promise<void> {
    await this.leave();
    if (this.#space !== null) await sweep(this.#space).catch(() => undefined);
  }

  async #closed(): Promise<void> {
    const member = await this.#member?.catch(() => null);
    await member?.close().catch(() => undefined);
    await this.#opened?.close().catch(() => undefined);
  }

  #join({ experiment, index, space, order }: Extract<ToMember, { readonly kind: "join" }>): Promise<LabProcess> {
    const one = EXPERIMENTS.find(({ name }) => name === experiment);
    if (one?.live === undefined) throw new Error(`\`${experiment}\` is not run live`);
    const name = `${space.name}-${index}`;
    const place: ProcessContext = {
      index,
      openWorld: async (given) => {
        this.#opened = await openSpace({ ...given, space, name }, ERRORS);
        return this.#opened.world;
      },
      publish: async (messages) => this.#opened?.bring(messages),
      nowMs,
      pause,
      busyMs,
      emit: (news) => say({ kind: "news", news }),
    };
    return one.live.startProcess(place, order);
  }
}

const LEAVE_MS_MAX = 3_000;

/** The clock of the machine by which processes agree, as finely as each can read it. */
const nowMs = (): number => performance.timeOrigin + performance.now();

/** Timers go by whole milliseconds and come late: the rest is waited for turn by turn. */
async function pause(delayMs: number): Promise<void> {
  const untilMs = performance.now() + delayMs;
  const wholeMs = Math.floor(delayMs) - 1;
  if (wholeMs > 0) await sleep(wholeMs);
  const fromMs = performance.now();
  while (performance.now() < untilMs) await turn();
  spunMs += Math.max(0, performance.now() - fromMs);
}

/** How long all pauses were waited for turn by turn. */
let spunMs = 0;

const busyMs = (): number => performance.eventLoopUtilization().active - spunMs;

function say(message: FromMember): void {
  if (process.connected) process.send?.(message);
}

/** What a control plane says while it works is not what was asked for; what is wrong with it is. */
const ERRORS: Log = {
  write: (level, event, fields) => {
    if (level === "error") process.stderr.write(`${JSON.stringify({ level, event, ...fields })}\n`);
  },
};
