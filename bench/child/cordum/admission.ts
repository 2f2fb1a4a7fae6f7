import { Redis } from "ioredis";
import { intentOf } from "../../../src/core/retry/intent.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { type AdmissionFigures, type AdmissionStrategy, type AdmissionTask, GO_CHANNEL } from "../task.ts";
import { applyAll, HELD, openEngineWith, start } from "./workflows.ts";
import { cordumOnly, openWorld } from "./world.ts";

/**
 * One of several processes that start runs of one org at the same time.
 *
 * 1. All processes are connected and warmed up, with another org, before one published message starts them.
 * 2. An admitted run stays open: its first step waits for an approval.
 * 3. The latency is from the call to its outcome; the status is that of the gateway.
 */
export async function runAdmission(task: AdmissionTask, ready: () => void): Promise<AdmissionFigures> {
  const opened = await openWorld(cordumOnly(task.backend));
  const warmOrg = `warm-${process.pid}`;
  const engine = openEngineWith(opened.world, {
    limits: { max_concurrent_runs: task.limit },
    orgs: { [warmOrg]: { limits: { max_concurrent_runs: WARM_STARTS * 2 } } },
    admission: admissionOf(task.strategy),
  });
  const control = await startControl(engine);
  await applyAll(engine, warmOrg, [HELD]);
  await applyAll(engine, HOT_ORG, [HELD]);
  await warmUp(engine, warmOrg);
  const go = await subscribeGo(task.goRedisUrl);
  ready();
  await go.received;
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

/** `polled fixed:10ms` is a strategy and its poll policy. */
function admissionOf(strategy: AdmissionStrategy): Readonly<Record<string, unknown>> {
  const [name, policy] = strategy.split(" ");
  return { strategy: name, ...(policy !== undefined && { polled: { policy } }) };
}

async function warmUp(engine: Engine, org: string): Promise<void> {
  for (let n = 0; n < WARM_STARTS; n++) {
    const status = await statusOfStart(engine, org);
    if (status !== 200) throw new Error(`a start of the warm-up, below the limit, got status ${status}`);
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
        throw new Error(`unexpected outcome of a start: ${JSON.stringify(outcome)}`);
    }
  } catch (error) {
    // The gateway answers a retry intent with 503.
    if (intentOf(error).kind === "retry") return 503;
    throw error;
  }
}

async function subscribeGo(redisUrl: string | null): Promise<{ readonly received: Promise<void>; close(): void }> {
  if (redisUrl === null) return { received: Promise.resolve(), close() {} };
  const subscriber = new Redis(redisUrl);
  await subscriber.subscribe(GO_CHANNEL);
  return {
    received: new Promise((resolve) => subscriber.once("message", () => resolve())),
    close: () => subscriber.disconnect(),
  };
}

const HOT_ORG = "hot";
const WARM_STARTS = 100;
