/** The thread of `thread-lab.ts`: runs one experiment or simulation per message. */
import { parentPort } from "node:worker_threads";
import type { LabOutcome, LabRequest } from "../../gateway/lab.ts";
import { runRequest } from "../../lab/requests.ts";
import { play } from "../../lab/simulator.ts";

async function answer(request: LabRequest): Promise<LabOutcome> {
  const found = request.kind === "experiment" ? await runRequest(request) : await play(request);
  return "kind" in found ? found : { kind: "answered", answer: found };
}

parentPort?.on("message", (request: LabRequest) => {
  answer(request).then(
    (outcome) => parentPort?.postMessage(outcome),
    (error: unknown) => parentPort?.postMessage({ kind: "failed", error: String(error) }),
  );
});
parentPort?.postMessage("ready");
