import type { TaskInput, TaskName, TaskOutcome } from "../core/evaluation/tasks.ts";

/**
 * Evaluates text that a client sent, without blocking the process.
 *
 * 1. A task that exceeds its time or memory is ended; its outcome is `over`.
 * 2. The number of waiting tasks is bounded, in total and per tenant; beyond that the outcome is `busy`.
 * 3. An error of the task's own code is thrown.
 */
export interface Evaluator {
  run<N extends TaskName>(org: string, name: N, input: TaskInput<N>): Promise<TaskOutcome<N> | Busy>;
}

export interface Busy {
  readonly kind: "busy";
  readonly current: number;
  readonly limit: number;
}
