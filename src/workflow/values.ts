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
      case "children":
        return this.#get(this.#children, stepId, { kind: "children", stepId, count: payload.count });
      default:
        return payload satisfies never;
    }
  }

  addPointed(ptr: string, value: unknown): void {
    this.#pointed.set(ptr, value);
  }

  addChildren(stepId: string, value: unknown): void {
    this.#children.set(stepId, value);
  }

  #get(known: ReadonlyMap<string, unknown>, key: string, what: Wanted): unknown {
    if (known.has(key)) return known.get(key);
    throw new Missing(what);
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
