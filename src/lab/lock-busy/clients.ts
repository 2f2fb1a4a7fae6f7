import { completeLeased } from "../../engine/dispatch/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { problemResponse, toProblem } from "../../gateway/problem.ts";
import { latency } from "../../sim/adapters/net.ts";
import type { SimNet } from "../../sim/adapters/world.ts";
import type { SeededRandom } from "../../sim/random.ts";
import type { Probe } from "./probe.ts";
import { type Contender, ORG } from "./stage.ts";

export function callGateway(
  net: SimNet,
  random: SeededRandom,
  engines: readonly Engine[],
  contenders: readonly Contender[],
  probe: Probe,
): void {
  const { timeline, faults } = net;
  const hopMs = (): number => latency(random, faults.bus);
  const call = ({ jobId, leaseId }: Contender, turn: number): void => {
    const engine = engines[turn % engines.length]!;
    probe.delivered(jobId);
    completeLeased(engine, { org: ORG, jobId, leaseId: leaseId ?? "" }, null).then(
      (held) => {
        if (held.kind !== "held") throw new Error(`job \`${jobId}\` was not the worker's any more`);
      },
      (error: unknown) => {
        const { body } = problemResponse(toProblem(error), () => engine.world.random.next());
        const afterMs = Number(body.retry_after_ms ?? Number.NaN);
        timeline.post(hopMs() + afterMs + hopMs(), () => call({ jobId, leaseId, runId: "" }, turn + 1));
      },
    );
  };
  for (const [index, contender] of contenders.entries()) timeline.post(hopMs(), () => call(contender, index));
}
