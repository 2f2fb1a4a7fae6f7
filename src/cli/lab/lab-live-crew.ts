/**
 * The processes of one row, as the command sees them.
 *
 * 1. Each is this program, started again. None is left when `stop` has resolved, however it behaves.
 * 2. One that ends before it was told to makes everything that was asked of it fail, and `lost` with it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { LiveRowRequest, ProcessGroup } from "../../lab/live.ts";
import type { Space } from "./lab-live-space.ts";
import { type FromMember, MEMBER, type ToMember } from "./lab-live-text.ts";

export interface CrewOrder {
  /** How this program is started: the file of node, its arguments, the file of the program. */
  readonly program: readonly string[];
  readonly experiment: string;
  readonly processes: number;
  readonly space: Space;
  readonly order: LiveRowRequest;
}

export class ProcessCrew implements ProcessGroup {
  /** Rejects when a process ends that should not. */
  readonly lost: Promise<never>;
  readonly #members: readonly ProcessMember[];
  #onNews: (news: unknown, index: number) => void = () => undefined;

  constructor({ program, processes, ...order }: CrewOrder) {
    const hear = (news: unknown, index: number): void => this.#onNews(news, index);
    this.#members = Array.from({ length: processes }, (_, index) => {
      return new ProcessMember(program, { kind: "join", ...order, index }, (news) => hear(news, index));
    });
    this.lost = Promise.race(this.#members.map(({ lost }) => lost));
    this.lost.catch(() => undefined);
  }

  get size(): number {
    return this.#members.length;
  }

  /** Resolves when all of them have joined. */
  async joined(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.joined));
  }

  async request(index: number, question: unknown): Promise<unknown> {
    return this.#members[index]?.ask(question);
  }

  requestAll(question: unknown): Promise<readonly unknown[]> {
    return Promise.all(this.#members.map((member) => member.ask(question)));
  }

  onEvent(fn: (news: unknown, index: number) => void): void {
    this.#onNews = fn;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.stop()));
  }
}

interface Asked {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

class ProcessMember {
  readonly joined: Promise<void>;
  readonly lost: Promise<never>;
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;
  readonly #asked = new Map<number, Asked>();
  readonly #hear: (news: unknown) => void;
  #join: Asked = { resolve: () => undefined, reject: () => undefined };
  #isStopping = false;
  #isGone = false;
  #count = 0;

  constructor([node = "", ...args]: readonly string[], join: ToMember, hear: (news: unknown) => void) {
    this.#hear = hear;
    this.#child = spawn(node, [...args, MEMBER], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    this.joined = new Promise<void>((resolve, reject) => {
      this.#join = { resolve: () => resolve(), reject };
    });
    this.joined.catch(() => undefined);
    let lose: (error: Error) => void = () => undefined;
    this.lost = new Promise<never>((_, reject) => {
      lose = reject;
    });
    this.lost.catch(() => undefined);
    this.#child.on("message", (message: FromMember) => this.#heard(message));
    this.#gone = new Promise<void>((resolve) => {
      const ended = (how: string): void => {
        this.#isGone = true;
        const error = new Error(`a process of the live run ended too early (${how})`);
        if (!this.#isStopping) lose(error);
        for (const { reject } of [this.#join, ...this.#asked.values()]) reject(error);
        this.#asked.clear();
        resolve();
      };
      this.#child.once("error", (error) => ended(error.message));
      this.#child.once("exit", (code, signal) => ended(signal ?? `exit code ${code}`));
    });
    this.#tell(join);
  }

  ask(question: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#isGone) throw new Error("a process of the live run has ended");
      this.#count += 1;
      this.#asked.set(this.#count, { resolve, reject });
      this.#tell({ kind: "ask", id: this.#count, question });
    });
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#tell({ kind: "leave" });
    const overdue = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS_MAX);
    await this.#gone;
    clearTimeout(overdue);
  }

  #heard(message: FromMember): void {
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
      case "news":
        this.#hear(message.news);
        break;
      default:
        message satisfies never;
    }
  }

  #take(id: number): Asked | undefined {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    return asked;
  }

  /** To a process that has just ended nothing can be said; that it has ended is noticed elsewhere. */
  #tell(message: ToMember): void {
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }
}

const STOP_MS_MAX = 10_000;
