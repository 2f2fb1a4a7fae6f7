/** The thread of `thread-evaluator.ts`: runs one task per message. */
import { parentPort } from "node:worker_threads";
import { runTask, type TaskInput, type TaskName } from "../../core/evaluation/tasks.ts";

export interface TaskMessage {
  readonly name: TaskName;
  readonly input: TaskInput<TaskName>;
}

// A document with mistakes creates an error object for each; their stacks are never read.
Error.stackTraceLimit = 0;

parentPort?.on("message", ({ name, input }: TaskMessage) => {
  try {
    parentPort?.postMessage(runTask(name, input as never));
  } catch (error) {
    parentPort?.postMessage({ kind: "failed", error: String(error) });
  }
});
parentPort?.postMessage("ready");
