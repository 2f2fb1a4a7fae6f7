import type { Payload } from "../../model/job.ts";
import type { StepOutput } from "../../model/run.ts";

/**
 * Values behind payloads. Inline values are available at once. Others must be loaded first: reading one that is not
 * loaded throws `Missing`, and the caller loads it and repeats the decision.
 *
 * The bytes that one decision reads are bounded by `READ_BYTES_MAX`: once `isFull`, the remaining steps are left to the
 * next commit. A single expression above the limit fails with `TooMuch`, whatever others have read.
 */
export class Values {
  readonly #pointed = new Map<string, Loaded>();
  readonly #children = new Map<string, Loaded>();
  readonly #childJobs = new Map<string, ChildResult | null>();
  readonly #recall: BlobLookup;
  #all = new ReadUsage();
  #own = new ReadUsage();

  constructor(recall: BlobLookup = () => null) {
    this.#recall = recall;
  }

  /** Called when a decision starts or restarts. */
  begin(): void {
    this.#all = new ReadUsage();
    this.#own = new ReadUsage();
  }

  /** Starts the accounting of another expression. */
  nextExpression(): void {
    this.#own = new ReadUsage();
  }

  get isFull(): boolean {
    return this.#all.bytes >= READ_BYTES_MAX;
  }

  of(payload: StepOutput, stepId: string): unknown {
    switch (payload.kind) {
      case "inline":
        return payload.value;
      case "pointer":
        return this.#get(this.#pointed.get(payload.ptr) ?? this.#recall(payload.ptr), payload.ptr, {
          kind: "pointer",
          payload,
        });
      case "children": {
        const { count, iteration } = payload;
        const key = childrenKey(stepId, iteration);
        const outputs = this.#get(this.#children.get(key) ?? null, key, {
          ...{ kind: "children", stepId, count },
          ...(iteration !== undefined && { iteration }),
        });
        if (outputs === null) throw new TooMuch(`the output of the children of step \`${stepId}\``);
        return outputs;
      }
      default:
        return payload satisfies never;
    }
  }

  addBlob(ptr: string, loaded: Loaded): void {
    this.#pointed.set(ptr, loaded);
  }

  /** null: the outputs together exceed the limit. */
  addChildren(stepId: string, outputs: Loaded<readonly unknown[] | null>, iteration?: number): void {
    this.#children.set(childrenKey(stepId, iteration), outputs);
  }

  /** The output of a child of a list; null if it did not succeed. */
  childOf(stepId: string, index: number): ChildResult | null {
    const known = this.#childJobs.get(`${stepId}.${index}`);
    if (known === undefined) throw new Missing({ kind: "child", stepId, index });
    return known;
  }

  addChild(stepId: string, index: number, child: ChildResult | null): void {
    this.#childJobs.set(`${stepId}.${index}`, child);
  }

  #get(loaded: Loaded | null, key: string, what: MissingValue): unknown {
    if (this.#own.bytes >= READ_BYTES_MAX && !this.#own.has(key)) throw new TooMuch("the data read here");
    if (!loaded) throw new Missing(what);
    if (loaded.problem !== undefined) throw new PayloadLost(loaded.problem);
    this.#own.add(key, loaded.bytes);
    this.#all.add(key, loaded.bytes);
    return loaded.value;
  }
}

const childrenKey = (stepId: string, iteration = 1): string => `${stepId}@${iteration}`;

/** Lookup in a cache of blobs. Blobs are immutable, so a hit only saves a repetition of the decision. */
export type BlobLookup = (ptr: string) => Loaded | null;

export interface ChildResult {
  readonly output: Payload | null;
}

export interface Loaded<T = unknown> {
  readonly value: T;
  /** Stored size. */
  readonly bytes: number;
  /** The stored value is missing or damaged. */
  readonly problem?: string;
}

class ReadUsage {
  readonly #keys = new Set<string>();
  bytes = 0;

  has(key: string): boolean {
    return this.#keys.has(key);
  }

  add(key: string, bytes: number): void {
    if (this.#keys.has(key)) return;
    this.#keys.add(key);
    this.bytes += bytes;
  }
}

/** Sets a property for an expression. An unreadable value becomes a getter that throws: only its readers fail. */
export function setLazily(target: Record<string, unknown>, key: string, read: () => unknown): void {
  try {
    target[key] = read();
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    const get = () => {
      throw error;
    };
    Object.defineProperty(target, key, { get, enumerable: true });
  }
}

/** A value that this decision cannot read; what needs it fails. */
export class Unreadable extends Error {
  override readonly name: string = "Unreadable";
}

/** The stored value is missing or damaged. */
export class PayloadLost extends Unreadable {
  override readonly name = "PayloadLost";
}

/** The values read together exceed what a process should hold at once. */
export class TooMuch extends Unreadable {
  override readonly name = "TooMuch";

  constructor(what: string) {
    super(`${what} exceeds the read limit of one expression; reduce the outputs of earlier steps`);
  }
}

export type MissingValue =
  | { readonly kind: "pointer"; readonly payload: Extract<Payload, { kind: "pointer" }> }
  | { readonly kind: "children"; readonly stepId: string; readonly count: number; readonly iteration?: number }
  /** The child at `index`; the children before it are asked for next. */
  | { readonly kind: "child"; readonly stepId: string; readonly index: number };

export class Missing extends Error {
  override readonly name = "Missing";
  readonly what: MissingValue;

  constructor(what: MissingValue) {
    super(what.kind === "pointer" ? `\`${what.payload.ptr}\` is not loaded` : `${what.kind} of \`${what.stepId}\``);
    this.what = what;
  }
}

/** JSON bytes; larger than any single output. */
export const READ_BYTES_MAX = 32 * 1024 * 1024;
