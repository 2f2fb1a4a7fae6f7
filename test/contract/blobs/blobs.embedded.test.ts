import { EmbeddedBench } from "../embedded.ts";
import { ManualClock } from "../manual-clock.ts";
import { blobsContract } from "./blobs.contract.ts";

blobsContract("embedded", async () => {
  const clock = new ManualClock();
  const bench = new EmbeddedBench({ clock });
  const { blobs } = await bench.open();
  return {
    blobs,
    run: (promise) => promise,
    now: () => clock.now(),
    pass: (ms) => clock.pass(ms),
    reopen: async () => (await bench.reopen()).blobs,
    close: () => bench.close(),
  };
});
