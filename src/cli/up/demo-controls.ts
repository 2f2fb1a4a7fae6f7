/** Incidents that a demo causes on request. They use the lock, the bus and the breaker of the process, as real incidents do. */
import type { StoppableSafety } from "../../adapters/node/stoppable-safety.ts";
import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import { recordAudit } from "../../engine/audit/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { defaultRunRequest, startRun } from "../../engine/intake/index.ts";
import { applyWorkflow, runLockKey } from "../../engine/runs/index.ts";
import type { DemoControls, HotLock } from "../../gateway/route.ts";

export function demoControls(engine: Engine, safety: StoppableSafety): DemoControls {
  const { clock, locks, log, name } = engine.world;
  let hot: HotLock | null = null;
  const current = () => (hot !== null && hot.untilMs > clock.now() ? hot : null);

  /** Others get the lock for a moment between two holds, so that the run ends in the end. */
  async function keepBusy(runId: string, untilMs: number): Promise<void> {
    const request = { key: runLockKey(runId), org: DEFAULT_ORG, ttlMs: 30_000, waitMs: 1_000, owner: `${name} (demo)` };
    while (clock.now() < untilMs && !engine.tasks.isClosed) {
      const acquired = await locks.acquire(request);
      if (acquired.kind === "held") {
        await pause(HELD_MS);
        await acquired.lease.release();
      }
      await pause(FREE_MS);
    }
  }

  const logFailure = (error: unknown) => log.write("warn", "demo_lock_failed", { error: String(error) });
  const pause = (delayMs: number) => new Promise<void>((resolve) => void clock.after(delayMs, () => resolve()));

  return {
    get isKernelStopped() {
      return safety.isStopped;
    },
    setKernelStopped(isStopped, by) {
      if (isStopped === safety.isStopped) return;
      safety.isStopped = isStopped;
      const what = isStopped ? "demo kernel stopped" : "demo kernel started";
      recordAudit(engine, { org: DEFAULT_ORG, kind: "breaker", who: by, what });
    },
    get hotLock() {
      return current();
    },
    async heatLock(by) {
      const known = current();
      if (known !== null) return { kind: "hot", lock: known };
      await applyWorkflow(engine, { org: DEFAULT_ORG, by, document: WORKFLOW });
      const items = Array.from({ length: EVENTS }, (_, n) => n);
      const request = { ...defaultRunRequest(DEFAULT_ORG, WORKFLOW.id, by), input: { items } };
      const outcome = await startRun(engine, request, "demo");
      if (outcome.kind !== "started") return { kind: "not_started", outcome };
      const { runId } = outcome;
      hot = { lock: runLockKey(runId), runId, untilMs: clock.now() + HOT_MS };
      recordAudit(engine, { org: DEFAULT_ORG, kind: "run", who: by, what: "demo lock held", facts: { run: runId } });
      engine.tasks.track(keepBusy(runId, hot.untilMs).catch(logFailure));
      return { kind: "hot", lock: hot };
    },
  };
}

const WORKFLOW = {
  id: "demo-hot-lock",
  name: "Many results for one run",
  steps: {
    each: { topic: "demo.echo", for_each: "${input.items}", max_parallel: 256, input: { n: "${item}" } },
  },
};
const EVENTS = 400;
const HOT_MS = 20_000;
const HELD_MS = 1_500;
const FREE_MS = 100;
