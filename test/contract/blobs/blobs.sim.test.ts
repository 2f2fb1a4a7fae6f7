import { EPOCH_MS } from "../../../src/sim/adapters/time.ts";
import { openBench } from "../../sim/harness.ts";
import { blobsContract } from "./blobs.contract.ts";

blobsContract("simulated", async () => {
  const bench = openBench();
  return {
    blobs: bench.enter("process-0").world.blobs,
    run: bench.run,
    now: () => EPOCH_MS + bench.net.timeline.nowMs,
    pass: bench.pass,
    // The data is in the simulated server, not in the process.
    reopen: async () => bench.enter("process-1").world.blobs,
    close: async () => undefined,
  };
});
