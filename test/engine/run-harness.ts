import { RUNS, type Run } from "../../src/core/model/run.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { defaultRunRequest, type RunRequest, type StartOutcome, startRun } from "../../src/engine/intake/start-run.ts";
import { applyWorkflow } from "../../src/engine/runs/workflows.ts";
import { Harness } from "./harness.ts";

/** A harness with operations on workflows and runs. */
export class RunHarness extends Harness {
  async apply(engine: Engine, document: object, org = "default"): Promise<void> {
    const applied = await this.run(applyWorkflow(engine, { org, by: "test", document }));
    if (applied.kind === "invalid") throw new Error(applied.problems.join("\n"));
  }

  start(engine: Engine, workflowId: string, request: Partial<RunRequest> = {}): Promise<StartOutcome> {
    return this.run(startRun(engine, { ...RUN_REQUEST, workflowId, ...request }, "test"));
  }

  async started(engine: Engine, workflowId: string, request: Partial<RunRequest> = {}): Promise<string> {
    const outcome = await this.start(engine, workflowId, request);
    if (outcome.kind !== "started") throw new Error(JSON.stringify(outcome));
    return outcome.runId;
  }

  runOf(id: string): Run {
    const found = this.sim.net.store.load(RUNS, id);
    if (!found) throw new Error(`no run ${id}`);
    return found.value;
  }

  /** The state of each step. */
  states(id: string): Record<string, string> {
    return Object.fromEntries(Object.entries(this.runOf(id).steps).map(([step, { state }]) => [step, state]));
  }
}

export const RUN_REQUEST = defaultRunRequest("default", "", "alice");
