import type { Cancel, Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { Answers, Batch, Call, Failure } from "./batch.ts";
import { type Handlers, QUESTIONS } from "./operations.ts";

/**
 * The way to the one writer of a data directory: group commit.
 *
 * 1. Calls of one tick travel together, as one batch. Batches run in order, so whoever awaited a write reads it.
 * 2. A promise resolves only after its batch is on disk. If that fails, all of them reject.
 * 3. At most `UNDER_WAY_MAX` batches are under way, one on its way to the disk and one behind it: a slow disk makes larger
 *    batches, not a longer line.
 * 4. Questions to the tables are batches of their own, one at a time: the scribe lets them wait, and nobody waits with them.
 * 5. What rides along (`later`) costs no batch of its own while others come by, and waits `LATER_MS` at most.
 *    It is for facts that may be lost in a crash, because they are then found out again.
 */
export class Writer {
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #log: Log;
  #changes: Waiting[] = [];
  #reads: Waiting[] = [];
  #questions: Waiting[] = [];
  #riders: Call[] = [];
  #ridersDue = false;
  #ridersTimer: Cancel | null = null;
  #armed = false;
  #underWay = 0;
  #onTurn: (() => void)[] = [];
  #lastAnswer: Promise<void> = Promise.resolve();
  #asking: Promise<void> | null = null;
  /** The scribe is gone, and that was told. */
  #isCut = false;
  #closed: Promise<void> | null = null;

  constructor(link: Link, clock: Clock, log: Log) {
    this.#link = link;
    this.#clock = clock;
    this.#log = log;
  }

  /** Runs in the next batch; resolves when that is durable. */
  change<N extends Name>(name: N, ...args: Parameters<Handlers[N]>): Promise<ReturnType<Handlers[N]>> {
    return this.#call(this.#changes, [name, ...args], null);
  }

  /** The same, unless it has become pointless by the time it would leave; then it answers null. */
  changeUnless<N extends Name>(
    isMoot: () => boolean,
    name: N,
    ...args: Parameters<Handlers[N]>
  ): Promise<ReturnType<Handlers[N]> | null> {
    return this.#call(this.#changes, [name, ...args], isMoot);
  }

  read<N extends Name>(name: N, ...args: Parameters<Handlers[N]>): Promise<ReturnType<Handlers[N]>> {
    return this.#call(QUESTIONS.has(name) ? this.#questions : this.#reads, [name, ...args], null);
  }

  /** A read that must see what was left to ride along. */
  readLatest<N extends Name>(name: N, ...args: Parameters<Handlers[N]>): Promise<ReturnType<Handlers[N]>> {
    if (this.#riders.length > 0) this.#ridersDue = true;
    return this.read(name, ...args);
  }

  later<N extends Name>(name: N, ...args: Parameters<Handlers[N]>): void {
    this.#ride([name, ...args]);
  }

  /** Calls back once the next answer has been heard by whoever awaits it, or in the next turn when none is awaited. */
  afterTurn(look: () => void): void {
    if (this.#underWay === 0 && !this.#armed) setImmediate(look);
    else this.#onTurn.push(look);
  }

  /** Writes what is waiting and refuses everything after. */
  close(): Promise<void> {
    this.#closed ??= this.#writeAll().then(() => this.#link.close());
    return this.#closed;
  }

  async #writeAll(): Promise<void> {
    this.#ridersDue = true;
    do {
      this.#send();
      // Answers come in order: after the last there is none.
      await Promise.all([this.#lastAnswer, this.#asking]);
    } while (this.#hasWaiting || this.#questions.length > 0 || this.#riders.length > 0);
    this.#ridersTimer?.();
  }

  get #hasWaiting(): boolean {
    return this.#changes.length > 0 || this.#reads.length > 0;
  }

  #call<T>(queue: Waiting[], call: Call, isMoot: Waiting["isMoot"]): Promise<T> {
    if (this.#closed) return Promise.reject(new DirectoryFailure("the data directory is closed"));
    return new Promise<T>((resolve, reject) => {
      queue.push({ call, isMoot, resolve: resolve as (result: unknown) => void, reject });
      this.#arm();
    });
  }

  #ride(call: Call): void {
    if (this.#closed) return;
    this.#riders.push(call);
    this.#ridersTimer ??= this.#clock.after(LATER_MS, () => {
      this.#ridersTimer = null;
      this.#ridersDue = true;
      this.#arm();
    });
  }

  #arm(): void {
    if (this.#armed || (this.#underWay >= UNDER_WAY_MAX && !this.#mayAsk)) return;
    this.#armed = true;
    setImmediate(this.#sendArmed);
  }

  readonly #sendArmed = (): void => {
    this.#armed = false;
    if (!this.#closed) this.#send();
    if (this.#underWay === 0) this.#turn();
  };

  #send(): void {
    if (this.#underWay < UNDER_WAY_MAX) this.#sendBatch();
    // After the others: whoever asks sees what was called before it in its tick.
    if (this.#mayAsk) this.#ask();
    if (this.#hasWaiting) this.#arm();
  }

  #sendBatch(): void {
    const changes = this.#takeChanges();
    const reads = this.#reads.splice(0, BATCH_MAX);
    const piggybacked = this.#takeRiders(changes.length > 0);
    if (changes.length + reads.length + piggybacked.length === 0) return;
    this.#underWay += 1;
    this.#lastAnswer = this.#run(piggybacked, changes, reads).then(() => this.#answered());
  }

  get #mayAsk(): boolean {
    return this.#asking === null && this.#questions.length > 0;
  }

  #ask(): void {
    const questions = this.#questions.splice(0, BATCH_MAX);
    this.#asking = this.#run(this.#takeRiders(false), [], questions).then(() => {
      this.#asking = null;
      if (this.#mayAsk) this.#arm();
    });
  }

  /** Resolves when all of them were answered, one way or the other. */
  #run(piggybacked: readonly Call[], changes: readonly Waiting[], reads: readonly Waiting[]): Promise<void> {
    return this.#link.run({ piggybacked, changes: changes.map(callOf), reads: reads.map(callOf) }).then(
      (answers) => {
        settle(answers, changes, reads);
        this.#hear(answers, piggybacked);
      },
      (error: unknown) => {
        for (const { reject } of changes) reject(error);
        for (const { reject } of reads) reject(error);
        if (!this.#isCut) this.#log.write("error", "store.scribe_lost", { error: String(error) });
        this.#isCut = true;
      },
    );
  }

  #answered(): void {
    this.#underWay -= 1;
    this.#turn();
    if (this.#hasWaiting || this.#ridersDue) this.#arm();
  }

  /** Later than now, because whoever was answered goes on in between. */
  #turn(): void {
    for (const look of this.#onTurn.splice(0)) setImmediate(look);
  }

  #takeChanges(): Waiting[] {
    const changes = this.#changes.splice(0, BATCH_MAX);
    return changes.filter(({ isMoot, resolve }) => {
      if (isMoot === null || !isMoot()) return true;
      resolve(null);
      return false;
    });
  }

  #takeRiders(others: boolean): readonly Call[] {
    if (this.#riders.length === 0 || !(others || this.#ridersDue)) return [];
    const piggybacked = this.#riders;
    this.#riders = [];
    this.#ridersDue = false;
    this.#ridersTimer?.();
    this.#ridersTimer = null;
    return piggybacked;
  }

  #hear({ trouble }: Answers, piggybacked: readonly Call[]): void {
    if (trouble === null) return;
    const { calls, stage, text } = trouble;
    this.#log.write("error", "store.write_failed", { calls, stage, error: text });
    // A disk that is full for a minute must not lose them; a rider that is itself at fault must not come for ever.
    if (stage === "commit") for (const piggyback of piggybacked) this.#ride(piggyback);
  }
}

/** Carries batches to the scribe, and answers back, in order. Rejects when the scribe is gone. */
export interface Link {
  run(batch: Batch): Promise<Answers>;
  close(): Promise<void>;
}

/** The directory did not answer as it should: whether something was written is not known. */
export class DirectoryFailure extends Error {
  override readonly name = "DirectoryFailure";
  readonly code = "STORE_UNAVAILABLE";
}

type Name = keyof Handlers;

interface Waiting {
  readonly call: Call;
  readonly isMoot: (() => boolean) | null;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const callOf = ({ call }: Waiting): Call => call;

function settle({ results, failures }: Answers, changes: readonly Waiting[], reads: readonly Waiting[]): void {
  let at = 0;
  for (const calls of [changes, reads]) {
    for (const { resolve, reject } of calls) {
      const failure = failures?.[at] ?? null;
      if (failure === null) resolve(results[at]);
      else reject(errorOf(failure));
      at += 1;
    }
  }
}

function errorOf({ isPassing, text }: Failure): Error {
  return isPassing ? new DirectoryFailure(text) : new Error(text);
}

const BATCH_MAX = 500;
const UNDER_WAY_MAX = 2;
const LATER_MS = 20;
