import type { Payload } from "../model/job.ts";
import type { StepOutput } from "../model/run.ts";

/**
 * The values behind payloads. What stands on the run is there at once; what is kept elsewhere has to be loaded before a
 * decision can be made, and a decision that lacks it says so (`Missing`): the caller loads it and asks again.
 */
export class Values {
  readonly #pointed = new Map<string, unknown>();
  readonly #children = new Map<string, unknown>();

  of(payload: StepOutput, stepId: string): unknown {
    switch (payload.kind) {
      case "inline":
        return payload.value;
      case "pointer":
        return this.#get(this.#pointed, payload.ptr, { kind: "pointer", payload });
      case "children": {
        const outputs = this.#get(this.#children, stepId, { kind: "children", stepId, count: payload.count });
        if (outputs === TOO_MUCH) throw new TooMuch(stepId);
        return outputs;
      }
      default:
        return payload satisfies never;
    }
  }

  addPointed(ptr: string, value: unknown): void {
    this.#pointed.set(ptr, value);
  }

  /** null: together they are more than can be loaded. */
  addChildren(stepId: string, outputs: readonly unknown[] | null): void {
    this.#children.set(stepId, outputs ?? TOO_MUCH);
  }

  #get(known: ReadonlyMap<string, unknown>, key: string, what: Wanted): unknown {
    if (known.has(key)) return known.get(key);
    throw new Missing(what);
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

/** What the children of a `for_each` put out, each of which may be large, is more than a process should hold at once. */
export class TooMuch extends Error {
  override readonly name = "TooMuch";

  constructor(stepId: string) {
    super(`what the children of step \`${stepId}\` put out is more than can be read at once; let them put out less`);
  }
}

const TOO_MUCH = Symbol("too much");

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
