import type { Payload } from "../../model/job.ts";
import type { StepOutput } from "../../model/run.ts";

/**
 * The values behind payloads. What stands on the run is there at once; what is kept elsewhere has to be loaded before a
 * decision can be made, and a decision that lacks it says so (`Missing`): the caller loads it and begins it again.
 *
 * What one decision reads is bounded (`READ_BYTES_MAX`): when that has been read it `isFull`, and whoever has not begun to
 * read is left to the next one. A single expression that wants more is told so (`TooMuch`), whatever others have read.
 */
export class Values {
  readonly #pointed = new Map<string, Loaded>();
  readonly #children = new Map<string, Loaded>();
  readonly #recall: Recall;
  #all = new Reading();
  #own = new Reading();

  constructor(recall: Recall = () => null) {
    this.#recall = recall;
  }

  /** A decision begins, or begins again. */
  begin(): void {
    this.#all = new Reading();
    this.#own = new Reading();
  }

  /** What is read from now on is read by another expression. */
  nextReader(): void {
    this.#own = new Reading();
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
        const known = this.#children.get(stepId) ?? null;
        const outputs = this.#get(known, stepId, { kind: "children", stepId, count: payload.count });
        if (outputs === null) throw new TooMuch(`what the children of step \`${stepId}\` put out`);
        return outputs;
      }
      default:
        return payload satisfies never;
    }
  }

  addPointed(ptr: string, loaded: Loaded): void {
    this.#pointed.set(ptr, loaded);
  }

  /** null: together they are more than can be loaded. */
  addChildren(stepId: string, outputs: Loaded<readonly unknown[] | null>): void {
    this.#children.set(stepId, outputs);
  }

  #get(loaded: Loaded | null, key: string, what: Wanted): unknown {
    if (this.#own.bytes >= READ_BYTES_MAX && !this.#own.has(key)) throw new TooMuch("what is read here");
    if (!loaded) throw new Missing(what);
    this.#own.add(key, loaded.bytes);
    this.#all.add(key, loaded.bytes);
    return loaded.value;
  }
}

/**
 * What is known of a pointer already. What it points at never changes: so a decision is the same with it as without, and is
 * begun but once.
 */
export type Recall = (ptr: string) => Loaded | null;

export interface Loaded<T = unknown> {
  readonly value: T;
  /** As it was kept. */
  readonly bytes: number;
}

class Reading {
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

/**
 * Puts a value where an expression will look for it. One that is too much to be loaded is a fault of the expression that
 * looks for it, in words, and of no other.
 */
export function putValue(target: Record<string, unknown>, key: string, read: () => unknown): void {
  try {
    target[key] = read();
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error;
    const get = () => {
      throw error;
    };
    Object.defineProperty(target, key, { get, enumerable: true });
  }
}

/** Values, each of which may be large, that together are more than a process should hold at once. */
export class TooMuch extends Error {
  override readonly name = "TooMuch";

  constructor(what: string) {
    super(`${what} is more than can be read at once; let the steps before put out less`);
  }
}

export type Wanted =
  | { readonly kind: "pointer"; readonly payload: Extract<Payload, { kind: "pointer" }> }
  | { readonly kind: "children"; readonly stepId: string; readonly count: number };

export class Missing extends Error {
  override readonly name = "Missing";
  readonly what: Wanted;

  constructor(what: Wanted) {
    super(what.kind === "pointer" ? `\`${what.payload.ptr}\` is not loaded` : `the children of \`${what.stepId}\``);
    this.what = what;
  }
}

/** As JSON: an expression may look through more than it could put out itself. */
export const READ_BYTES_MAX = 32 * 1024 * 1024;
