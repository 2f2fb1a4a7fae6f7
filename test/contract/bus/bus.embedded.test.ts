import { EmbeddedBench } from "../embedded.ts";
import { ManualClock } from "../manual-clock.ts";
import { busContract } from "./bus.contract.ts";

busContract("embedded", async (options) => {
  const clock = new ManualClock();
  const bench = new EmbeddedBench({ clock, bus: options });
  const { bus } = await bench.open();
  const alone = "an embedded bus has one process; its crash is tested in test/adapters/sqlite/bus.test.ts";
  return {
    bus,
    other: async () => bus,
    run: (promise) => clock.run(promise),
    pass: (ms) => clock.pass(ms),
    now: () => clock.now(),
    capabilities: {
      processes: alone,
      crash: alone,
      inject: "no other process writes to an embedded bus; a damaged row is tested in test/adapters/sqlite/bus.test.ts",
    },
    close: () => bench.close(),
  };
});
