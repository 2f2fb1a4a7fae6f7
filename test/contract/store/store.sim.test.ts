import { openBench } from "../../sim/harness.ts";
import { storeContract } from "./store.contract.ts";

storeContract("simulated", async () => {
  const bench = openBench();
  return {
    store: bench.enter("process-0").world.store,
    run: bench.run,
    // The data is in the simulated server, not in the process.
    reopen: async () => bench.enter("process-1").world.store,
    peer: async () => {
      const { process, world } = bench.enter("peer");
      return { locks: world.locks, crash: async () => process.crash() };
    },
    close: async () => undefined,
  };
});
