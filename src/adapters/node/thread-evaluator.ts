/**
 * The evaluator in a thread of its own, one task at a time.
 *
 * 1. The thread starts with the first task and does not keep the process alive.
 * 2. A task that exceeds its time or the heap of the thread ends with the thread. The next task gets a new one.
 * 3. Waiting tasks are bounded in total and per tenant (`TaskQueue`).
 */
import type { TaskInput, TaskName, TaskOutcome } from "../../core/evaluation/tasks.ts";
import type { Evaluator } from "../../ports/evaluator.ts";
import type { TaskMessage } from "./evaluation-thread.ts";
import { TaskQueue } from "./task-queue.ts";
import { TaskThread, type ThreadProgram } from "./task-thread.ts";

export const EVALUATION_LIMITS = { taskMs: 5_000, waiting: 32, waitingPerOrg: 8 } as const;

export interface ThreadEvaluator extends Evaluator {
  close(): Promise<void>;
}

export function threadEvaluator(taskMs: number = EVALUATION_LIMITS.taskMs): ThreadEvaluator {
  const queue = new TaskQueue(EVALUATION_LIMITS);
  let thread: TaskThread | null = null;
  let isClosed = false;
  return {
    async run<N extends TaskName>(org: string, name: N, input: TaskInput<N>) {
      const turn = await queue.enter(org);
      if (turn.kind === "busy") return turn;
      try {
        if (isClosed) throw new Error("the evaluator is closed");
        if (thread === null || thread.hasEnded) thread = new TaskThread(PROGRAM);
        const message: TaskMessage = { name, input };
        const answer = await thread.run<Answer<N>>(message, { msMax: taskMs });
        if (answer.kind === "failed") throw new Error(`evaluation failed: ${answer.error}`);
        return answer;
      } finally {
        turn.leave();
      }
    },
    async close() {
      isClosed = true;
      await thread?.end();
    },
  };
}

type Answer<N extends TaskName> = TaskOutcome<N> | { readonly kind: "failed"; readonly error: string };

const PROGRAM: ThreadProgram = {
  ...{ what: "evaluation", beside: import.meta.url, name: "evaluation-thread", heapMb: 256 },
};
