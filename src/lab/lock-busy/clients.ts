/**
 * Workers over HTTP who all say at the same instant that they are done. One that is told to come back does so when it is
 * told to, at the next replica. What they are told is what the gateway would answer.
 */

import { complete } from "../../engine/dispatch/job-lease.ts";
import type { Flow } from "../../engine/engine.ts";
import { answerFor, problemFrom } from "../../gateway/problem.ts";
import { latency } from "../../sim/adapters/net.ts";
import type { SimNet } from "../../sim/adapters/world.ts";
import type { SeededRandom } from "../../sim/random.ts";
import type { Probe } from "./probe.ts";
import { type Contender, ORG } from "./stage.ts";

export function callGateway(
  net: SimNet,
  random: SeededRandom,
  flows: readonly Flow[],
  contenders: readonly Contender[],
  probe: Probe,
): void {
  const { timeline, faults } = net;
  const hopMs = (): number => latency(random, faults.bus);
  const call = ({ jobId, leaseId }: Contender, turn: number): void => {
    const flow = flows[turn % flows.length]!;
    probe.delivered(jobId);
    complete(flow, { org: ORG, jobId, leaseId: leaseId ?? "" }, null).then(
      (held) => {
        if (held.kind !== "held") throw new Error(`job \`${jobId}\` was not the worker's any more`);
      },
      (error: unknown) => {
        const { body } = answerFor(problemFrom(error), () => flow.world.random.next());
        const afterMs = Number(body.retry_after_ms ?? Number.NaN);
        timeline.post(hopMs() + afterMs + hopMs(), () => call({ jobId, leaseId, runId: "" }, turn + 1));
      },
    );
  };
  for (const [index, contender] of contenders.entries()) timeline.post(hopMs(), () => call(contender, index));
}
