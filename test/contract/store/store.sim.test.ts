import { openBench } from "../../sim/harness.ts";
import { storeContract } from "./store.contract.ts";

storeContract("simulated", async () => {
  const bench = openBench();
  return {
    store: bench.enter("process-0").world.store,
    run: bench.run,
    // The records live in the server, not in the process that wrote them.
    reopen: async () => bench.enter("process-1").world.store,
    neighbour: async () => {
      const { process, world } = bench.enter("neighbour");
      return { locks: world.locks, die: async () => process.crash() };
    },
    close: async () => undefined,
  };
});
