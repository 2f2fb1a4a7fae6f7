import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import type { Labels, Metrics } from "../../../src/ports/metrics.ts";

/** The same process with figures that can be read: everything that was measured, by name and labels. */
export function withRecordedMetrics(engine: Engine): { readonly engine: Engine; readonly seen: Map<string, number[]> } {
  const seen = new Map<string, number[]>();
  const note = (name: string, value: number, labels: Labels = {}) => {
    const key = [name, ...Object.values(labels)].join(" ");
    seen.set(key, [...(seen.get(key) ?? []), value]);
  };
  const metrics: Metrics = {
    add: (name, labels, amount = 1) => note(name, amount, labels),
    set: (name, value, labels) => note(name, value, labels),
    observe: (name, value, labels) => note(name, value, labels),
  };
  return { engine: composeEngine({ ...engine, world: { ...engine.world, metrics } }), seen };
}
