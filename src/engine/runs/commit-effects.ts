import { isFinal, type Job } from "../../core/model/job.ts";
import { isRunFinal } from "../../core/model/run.ts";
import type { Notification } from "../../core/workflow/run/run-draft.ts";
import type { Versioned } from "../../ports/store.ts";
import { EVENTS } from "../../protocol/subjects.ts";
import { notifyWorkers } from "../dispatch/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { packet } from "../packets.ts";
import type { Ended, RunChange } from "./commit-run.ts";
import { notifyParent, startSubRun, stopSubRun } from "./sub-run.ts";
import { wakeSchedule } from "./wake-schedule.ts";

/**
 * Effects of a run commit that cannot be part of it: start or stop sub-runs, notify the parent, wake slot waiters, publish
 * `notify` events. Each has its due time on a record, so the sweeper repeats what a dead process left undone. Only a
 * `notify` event is published at most once; it is on the timeline.
 */
export interface RunEffects {
  committed(change: RunChange, stopped: readonly Ended[]): void;
  slotFreed(org: string): void;
}

export function afterRunCommit(
  engine: RunContext,
  { before, ended, decided }: RunChange,
  stopped: readonly Ended[],
): void {
  const { run, created: made, notifications: notification } = decided;
  for (const { found, next } of stopped) notifyWorkers(engine, found.value, `run ${run.id}`, next.error?.message ?? "");
  for (const { next, found } of [...ended, ...stopped]) {
    const left: Versioned<Job> = { id: next.id, version: found.version + 1, value: next };
    if (next.step?.isSubRunLeft) later(engine, "sub_run_stop_failed", () => stopSubRun(engine, left));
  }
  for (const job of made) begin(engine, { id: job.id, version: 1, value: job });
  for (const one of notification) tell(engine, run.id, run.traceId, run.org, one);
  if (isRunFinal(run.state) && run.parent) {
    const version = (before?.version ?? 0) + 1;
    later(engine, "parent_notify_failed", () => notifyParent(engine, { id: run.id, version, value: run }));
  }
  if (run.schedule && isRunFinal(run.state)) later(engine, "schedule_wake_failed", () => wakeSchedule(engine, run));
}

function begin(engine: RunContext, made: Versioned<Job>): void {
  const { step, state } = made.value;
  if (isFinal(state) || step === undefined) return;
  if (step.kind === "subworkflow") later(engine, "sub_run_start_failed", () => startSubRun(engine, made));
  else if (state === "PENDING" && step.kind === "delay") engine.timers.arm(made);
}

function later(engine: Needs<"world" | "tasks">, event: string, work: () => Promise<unknown>): void {
  const done = Promise.resolve()
    .then(work)
    .catch((error: unknown) => engine.world.log.write("warn", event, { error: String(error) }));
  engine.tasks.track(done);
}

function tell(
  engine: Needs<"world">,
  runId: string,
  traceId: string,
  org: string,
  { stepId, level, message }: Notification,
): void {
  const { bus, clock, log, name } = engine.world;
  const details = { run_id: runId, step_id: stepId, tenant_id: org };
  try {
    bus.broadcast(
      EVENTS,
      packet(name, traceId, clock.now(), {
        kind: "alert",
        level,
        message,
        component: name,
        code: NOTIFY_CODE,
        details,
      }),
    );
  } catch (error) {
    log.write("warn", "notify_publish_failed", { run: runId, step: stepId, error: String(error) });
  }
}

export const NOTIFY_CODE = "workflow.notify";
