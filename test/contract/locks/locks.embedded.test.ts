import { EmbeddedBench } from "../embedded.ts";
import { ManualClock } from "../manual-clock.ts";
import { locksContract } from "./locks.contract.ts";

locksContract("embedded", async () => {
  const clock = new ManualClock();
  const bench = new EmbeddedBench({ clock });
  const { locks } = await bench.open();
  return {
    open: async () => locks,
    run: (promise) => clock.run(promise),
    pass: (ms) => clock.pass(ms),
    capabilities: { betweenProcesses: false, noReserve: "acquiring an embedded lock needs no round trip" },
    close: () => bench.close(),
  };
});
