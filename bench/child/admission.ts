import { Redis } from "ioredis";
import { intentOf } from "../../src/core/retry/intent.ts";
import { startControl } from "../../src/engine/control.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { applyAll, HELD, openFlowWith, start } from "./ours/our-workflows.ts";
import { openWorld, oursOnly } from "./ours/our-world.ts";
import { type AdmissionFigures, type AdmissionStrategy, type AdmissionTask, GO_CHANNEL } from "./task.ts";

/**
 * One of the processes that start runs for one org, all at once.
 *
 * 1. Everybody is connected and warm before the signal, which is one message that all processes hear. The warm-up is of
 *    another org, with room for all.
 * 2. A run that was let in stays open: its first step waits for a human.
 * 3. The latency is from the call to its answer, whichever that is; the status is what the gateway makes of it.
 */
export async function runAdmission(task: AdmissionTask, ready: () => void): Promise<AdmissionFigures> {
  const opened = await openWorld(oursOnly(task.side));
  const warmOrg = `warm-${process.pid}`;
  const engine = openFlowWith(opened.world, {
    limits: { max_concurrent_runs: task.limit },
    orgs: { [warmOrg]: { limits: { max_concurrent_runs: WARM_STARTS * 2 } } },
    admission: admissionOf(task.strategy),
  });
  const control = await startControl(engine);
  await applyAll(engine, warmOrg, [HELD]);
  await applyAll(engine, HOT_ORG, [HELD]);
  await warmUp(engine, warmOrg);
  const go = await hearGo(task.goRedisUrl);
  ready();
  await go.heard;
  const latenciesMs: number[] = [];
  const statuses: Record<number, number> = {};
  const contend = async () => {
    const beganMs = performance.now();
    const status = await statusOfStart(engine, HOT_ORG);
    latenciesMs.push(performance.now() - beganMs);
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: task.starts }, contend));
  go.close();
  await control.stop();
  await opened.close();
  return { latenciesMs, statuses };
}

/** As in a configuration file: `polled fixed:10ms` is the strategy and the policy of its poll. */
function admissionOf(strategy: AdmissionStrategy): Readonly<Record<string, unknown>> {
  const [name, policy] = strategy.split(" ");
  return { strategy: name, ...(policy !== undefined && { polled: { policy } }) };
}

async function warmUp(engine: Engine, org: string): Promise<void> {
  for (let n = 0; n < WARM_STARTS; n++) {
    const status = await statusOfStart(engine, org);
    if (status !== 200) throw new Error(`a start of the warm-up, where there is room, was answered with ${status}`);
  }
}

async function statusOfStart(engine: Engine, org: string): Promise<number> {
  try {
    const outcome = await start(engine, org, HELD.id, { n: 1 });
    switch (outcome.kind) {
      case "started":
      case "replayed":
        return 200;
      case "full":
        return 429;
      case "gate_unavailable":
        return 503;
      default:
        throw new Error(`a start was answered with ${JSON.stringify(outcome)}`);
    }
  } catch (error) {
    // Whoever is told to come back is told so with a 503.
    if (intentOf(error).kind === "retry") return 503;
    throw error;
  }
}

async function hearGo(redisUrl: string | null): Promise<{ readonly heard: Promise<void>; close(): void }> {
  if (redisUrl === null) return { heard: Promise.resolve(), close() {} };
  const filter = new Redis(redisUrl);
  await filter.subscribe(GO_CHANNEL);
  return { heard: new Promise((resolve) => filter.once("message", () => resolve())), close: () => filter.disconnect() };
}

const HOT_ORG = "hot";
const WARM_STARTS = 100;
