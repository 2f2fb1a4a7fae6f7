import { RUNS, type Run } from "../../../src/core/model/run.ts";
import type { Arm } from "../../../src/core/rollout/arm.ts";
import { NO_MEASURE, observe } from "../../../src/core/rollout/measure.ts";
import type { RolloutRequest } from "../../../src/core/rollout/request.ts";
import { ROLLOUTS, type Rollout, rolloutRecordId } from "../../../src/core/rollout/rollout.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { startRollout } from "../../../src/engine/rollouts/index.ts";
import { put } from "../../../src/ports/store.ts";
import { RunHarness } from "../run-harness.ts";

export const WORKFLOW = { id: "flow", steps: { work: { topic: "demo.work" } } };
export const HORIZON_MS = 60_000;
export const REQUEST: RolloutRequest = {
  subject: "lock_busy",
  treatment: "fixed:2s",
  shares: [0.5],
  horizonMs: HORIZON_MS,
  by: "ann",
};

export class RolloutHarness extends RunHarness {
  #template: Run | null = null;

  /** Applies the workflow and keeps one of its runs as the template of `units`. Before the rollout starts. */
  async applyFlow(engine: Engine): Promise<void> {
    await this.apply(engine, WORKFLOW);
    this.#template = this.runOf(await this.started(engine, WORKFLOW.id));
  }

  async rollout(engine: Engine, request: Partial<RolloutRequest> = {}): Promise<Rollout> {
    const started = await this.run(startRollout(engine, { ...REQUEST, ...request }));
    if (started.kind !== "started") throw new Error(JSON.stringify(started));
    return started.rollout;
  }

  rolloutOf(id: string): Rollout {
    const found = this.sim.net.store.load(ROLLOUTS, rolloutRecordId(id));
    if (!found) throw new Error(`no rollout ${id}`);
    return found.value;
  }

  /** Ids of runs that the rollout puts into an arm. */
  async runsIn(engine: Engine, arm: Arm, count: number, workflowId = WORKFLOW.id): Promise<readonly string[]> {
    const ids: string[] = [];
    while (ids.length < count) {
      const id = await this.started(engine, workflowId);
      if (Object.values(this.runOf(id).arms ?? {}).some((own) => own.arm === arm)) ids.push(id);
    }
    return ids;
  }

  /**
   * Writes finished runs with measures, as if they had started one a second before now. `latencyMs` gives the latency of the
   * results of a run.
   */
  async units(
    engine: Engine,
    { id, horizonMs, stage }: Rollout,
    count: number,
    latencyMs: (arm: Arm, at: number) => number,
  ): Promise<void> {
    const template = this.#template;
    const nowMs = engine.world.clock.now();
    if (template === null) throw new Error("call `applyFlow` before the rollout starts");
    for (let at = 0; at < count; at++) {
      const arm: Arm = at % 2 === 0 ? "control" : "treatment";
      const createdMs = nowMs - horizonMs - 10_000 - 1_000 * (count - at);
      const result = { kind: "result", latencyMs: latencyMs(arm, at) } as const;
      const acquired = { kind: "acquired", waitedMs: latencyMs(arm, at), busyTimes: 0 } as const;
      const run: Run = {
        ...template,
        id: `unit-${stage}-${String(at).padStart(5, "0")}`,
        state: "SUCCEEDED",
        createdMs,
        arms: { [id]: { arm, stage, untilMs: createdMs + horizonMs } },
        measures: { [id]: observe(observe(NO_MEASURE, result), acquired) },
      };
      this.sim.net.store.commit({
        org: run.org,
        atMs: nowMs,
        puts: [put(RUNS, run.id, null, run)],
        guards: [],
        sends: [],
        watch: [],
      });
    }
  }
}
