// A measuring process: is told one task by its parent, does it, answers, and ends.

import { runAdmission } from "./admission.ts";
import { runLocks } from "./locks.ts";
import { runFan } from "./ours/fan.ts";
import { serveFanControl, serveFanWorkers } from "./ours/fan-handlers.ts";
import { runLoop } from "./ours/loop.ts";
import { serve } from "./ours/serve.ts";
import { runParked } from "./parked.ts";
import { runPolicy } from "./policy.ts";
import { openRunSide } from "./run-sides.ts";
import { openSide } from "./sides.ts";
import type { FromChild, Task, ToChild } from "./task.ts";
import { runTimers } from "./timers.ts";

const answer = (message: FromChild) => process.send?.(message);

const stopped = new Promise<void>((resolve) => {
  process.on("message", (message: ToChild) => {
    if (message.kind === "stop") resolve();
    else void work(message.task);
  });
});
// The parent is gone: nobody would read the answer.
process.on("disconnect", () => process.exit(0));

async function work(task: Task): Promise<void> {
  try {
    answer({ kind: "done", figures: await figuresOf(task) });
  } catch (error) {
    answer({ kind: "failed", error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
  process.disconnect();
}

function figuresOf(task: Task): Promise<unknown> {
  const ready = () => answer({ kind: "ready" });
  switch (task.kind) {
    case "loop":
      return runLoop(task, task.load === "jobs" ? openSide : openRunSide);
    case "serve":
      return serve(task, openSide, ready, stopped);
    case "lock":
      return runLocks(task, ready);
    case "parked":
      return runParked(task, openSide);
    case "timers":
      return runTimers(task);
    case "policy":
      return runPolicy(task);
    case "admission":
      return runAdmission(task, ready);
    case "fan":
      return runFan(task);
    case "fan-control":
      return serveFanControl(task, ready, stopped);
    case "fan-workers":
      return serveFanWorkers(task, ready, stopped);
    default:
      return task satisfies never;
  }
}
