// The thread that has the data directory: opens it, carries out batches, closes it.

import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { openDataDirectory } from "./sqlite.ts";
import { dutiesOf } from "./sqlite-duties.ts";
import type { FromThread, ToThread } from "./sqlite-link.ts";
import { type Batch, Scribe } from "./sqlite-scribe.ts";

const port = parentPort!;
const say = (message: FromThread) => port.postMessage(message);
/** "close" comes after the last answer, so what waits behind a batch can only be a batch. */
const nextBatch = () => (receiveMessageOnPort(port)?.message as Batch | undefined) ?? null;

try {
  const directory = await openDataDirectory(workerData as string);
  const scribe = new Scribe(directory.db, dutiesOf(directory.db));
  port.on("message", (message: ToThread) => {
    if (message !== "close") {
      say({ kind: "answers", answers: scribe.run(message, nextBatch) });
      return;
    }
    directory.close();
    port.close();
  });
  say({ kind: "opened" });
} catch (error) {
  say({ kind: "refused", why: (error as Error).message });
}
