/**
 * The child processes of a live row. They run this program and exchange JSON messages with it over IPC.
 *
 * No child is left when `stop` has resolved. A child that exits early rejects its pending calls and `lost`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { LiveRowRequest, ProcessGroup } from "../../lab/live.ts";
import type { Namespace } from "./live-namespace.ts";

/** Internal command of a child process; not part of the CLI. */
export const MEMBER_COMMAND = "lab-live-member";

export type MemberRequest =
  | {
      readonly kind: "join";
      readonly experiment: string;
      readonly index: number;
      readonly space: Namespace;
      readonly order: LiveRowRequest;
    }
  | { readonly kind: "ask"; readonly id: number; readonly question: unknown }
  | { readonly kind: "leave" };

export type MemberMessage =
  | { readonly kind: "joined" }
  | { readonly kind: "answer"; readonly id: number; readonly value: unknown }
  /** `id` null: the join failed. */
  | { readonly kind: "failed"; readonly id: number | null; readonly error: string }
  | { readonly kind: "event"; readonly event: unknown };

export interface GroupOptions {
  /** The command line of this program. */
  readonly program: readonly string[];
  readonly experiment: string;
  readonly processes: number;
  readonly space: Namespace;
  readonly order: LiveRowRequest;
}

export class ChildProcessGroup implements ProcessGroup {
  /** Rejects if a child exits early. */
  readonly lost: Promise<never>;
  readonly #members: readonly ChildMember[];
  #onEvent: (event: unknown, index: number) => void = () => undefined;

  constructor({ program, processes, ...order }: GroupOptions) {
    const emit = (event: unknown, index: number): void => this.#onEvent(event, index);
    this.#members = Array.from({ length: processes }, (_, index) => {
      return new ChildMember(program, { kind: "join", ...order, index }, (event) => emit(event, index));
    });
    this.lost = Promise.race(this.#members.map(({ lost }) => lost));
    this.lost.catch(() => undefined);
  }

  get size(): number {
    return this.#members.length;
  }

  /** Resolves when all children have joined. */
  async joined(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.joined));
  }

  async request(index: number, question: unknown): Promise<unknown> {
    return this.#members[index]?.call(question);
  }

  requestAll(question: unknown): Promise<readonly unknown[]> {
    return Promise.all(this.#members.map((member) => member.call(question)));
  }

  onEvent(fn: (event: unknown, index: number) => void): void {
    this.#onEvent = fn;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.stop()));
  }
}

interface PendingCall {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

class ChildMember {
  readonly joined: Promise<void>;
  readonly lost: Promise<never>;
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;
  readonly #pending = new Map<number, PendingCall>();
  readonly #emit: (event: unknown) => void;
  #join: PendingCall = { resolve: () => undefined, reject: () => undefined };
  #isStopping = false;
  #isGone = false;
  #count = 0;

  constructor([node = "", ...args]: readonly string[], join: MemberRequest, emit: (event: unknown) => void) {
    this.#emit = emit;
    this.#child = spawn(node, [...args, MEMBER_COMMAND], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    this.joined = new Promise<void>((resolve, reject) => {
      this.#join = { resolve: () => resolve(), reject };
    });
    this.joined.catch(() => undefined);
    let lose: (error: Error) => void = () => undefined;
    this.lost = new Promise<never>((_, reject) => {
      lose = reject;
    });
    this.lost.catch(() => undefined);
    this.#child.on("message", (message: MemberMessage) => this.#receive(message));
    this.#gone = new Promise<void>((resolve) => {
      const ended = (how: string): void => {
        this.#isGone = true;
        const error = new Error(`a process of the live run exited early (${how})`);
        if (!this.#isStopping) lose(error);
        for (const { reject } of [this.#join, ...this.#pending.values()]) reject(error);
        this.#pending.clear();
        resolve();
      };
      this.#child.once("error", (error) => ended(error.message));
      this.#child.once("exit", (code, signal) => ended(signal ?? `exit code ${code}`));
    });
    this.#send(join);
  }

  call(question: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#isGone) throw new Error("a process of the live run has exited");
      this.#count += 1;
      this.#pending.set(this.#count, { resolve, reject });
      this.#send({ kind: "ask", id: this.#count, question });
    });
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#send({ kind: "leave" });
    const overdue = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS_MAX);
    await this.#gone;
    clearTimeout(overdue);
  }

  #receive(message: MemberMessage): void {
    switch (message.kind) {
      case "joined":
        this.#join.resolve(undefined);
        break;
      case "answer":
        this.#take(message.id)?.resolve(message.value);
        break;
      case "failed":
        (message.id === null ? this.#join : this.#take(message.id))?.reject(new Error(message.error));
        break;
      case "event":
        this.#emit(message.event);
        break;
      default:
        message satisfies never;
    }
  }

  #take(id: number): PendingCall | undefined {
    const call = this.#pending.get(id);
    this.#pending.delete(id);
    return call;
  }

  /** Ignores exited children; their exit is handled separately. */
  #send(message: MemberRequest): void {
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }
}

const STOP_MS_MAX = 10_000;
