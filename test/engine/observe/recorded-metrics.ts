import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import type { Labels, Metrics } from "../../../src/ports/metrics.ts";

/** The same engine with every metric value recorded by name and labels. */
export function withRecordedMetrics(engine: Engine): {
  readonly engine: Engine;
  readonly recorded: Map<string, number[]>;
} {
  const recorded = new Map<string, number[]>();
  const record = (name: string, value: number, labels: Labels = {}) => {
    const key = [name, ...Object.values(labels)].join(" ");
    recorded.set(key, [...(recorded.get(key) ?? []), value]);
  };
  const metrics: Metrics = {
    add: (name, labels, amount = 1) => record(name, amount, labels),
    set: (name, value, labels) => record(name, value, labels),
    observe: (name, value, labels) => record(name, value, labels),
  };
  return { engine: composeEngine({ ...engine, world: { ...engine.world, metrics } }), recorded };
}
