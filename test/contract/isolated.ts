import type { Blobs } from "../../src/ports/blobs.ts";
import type { Store } from "../../src/ports/store.ts";

/**
 * A store or blobs behind a boundary that shares no objects: arguments and results are copied, and the originals are
 * overwritten once the call has settled. A test fails if the adapter keeps or returns a reference to a shared object.
 */
export const isolatedStore = (store: Store): Store => isolated(store);
export const isolatedBlobs = (blobs: Blobs): Blobs => isolated(blobs);

function isolated<T extends object>(target: T): T {
  return new Proxy(target, {
    get(_, name) {
      const method = Reflect.get(target, name) as unknown;
      if (typeof method !== "function") return method;
      return async (...args: unknown[]) => {
        const copies = args.map(copyOf);
        let result: unknown;
        try {
          result = await Reflect.apply(method, target, copies);
          return copyOf(result);
        } finally {
          for (const value of [...copies, result]) overwrite(value);
        }
      };
    },
  });
}

/** Tables have a function, and belong to the code of the test. */
const isTable = (value: unknown): boolean => typeof value === "object" && value !== null && "placement" in value;

const copyOf = (value: unknown): unknown => (isTable(value) ? value : structuredClone(value));

function overwrite(value: unknown): void {
  if (typeof value !== "object" || value === null || isTable(value) || Object.isFrozen(value)) return;
  if (value instanceof Uint8Array) {
    value.fill(0xee);
  } else if (value instanceof Map) {
    value.clear();
  } else {
    for (const [key, part] of Object.entries(value)) {
      overwrite(part);
      Reflect.set(value, key, "overwritten");
    }
  }
}
