// A measuring process: runs one task of its parent, sends the figures and exits.

import { openJobBackend, openRunBackend } from "./backends.ts";
import { runAdmission } from "./cordum/admission.ts";
import { runFanOut } from "./cordum/fan-out.ts";
import { serveFanControl, serveFanWorkers } from "./cordum/fan-out-processes.ts";
import { fillLists } from "./cordum/lists.ts";
import { runPaired } from "./cordum/paired.ts";
import { runSchedules } from "./cordum/schedules.ts";
import { runTimers } from "./cordum/timers.ts";
import { runLateness } from "./lateness.ts";
import { runLocks } from "./lock-contention.ts";
import { runLoop } from "./loop.ts";
import { runParked } from "./parked.ts";
import { runPolicy } from "./policy.ts";
import { serve } from "./serve.ts";
import type { FromChild, Task, ToChild } from "./task.ts";

const send = (message: FromChild) => process.send?.(message);

const stopped = new Promise<void>((resolve) => {
  process.on("message", (message: ToChild) => {
    if (message.kind === "stop") resolve();
    else void work(message.task);
  });
});
// The parent has exited.
process.on("disconnect", () => process.exit(0));

async function work(task: Task): Promise<void> {
  try {
    send({ kind: "done", figures: await figuresOf(task) });
  } catch (error) {
    send({ kind: "failed", error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
  process.disconnect();
}

function figuresOf(task: Task): Promise<unknown> {
  const ready = () => send({ kind: "ready" });
  switch (task.kind) {
    case "loop":
      return runLoop(task, task.load === "jobs" ? openJobBackend : openRunBackend);
    case "paired":
      return runPaired(task);
    case "serve":
      return serve(task, openJobBackend, ready, stopped);
    case "lock":
      return runLocks(task, ready);
    case "parked":
      return runParked(task, openJobBackend);
    case "lateness":
      return runLateness(task, openJobBackend);
    case "timers":
      return runTimers(task);
    case "schedules":
      return runSchedules(task);
    case "fill-lists":
      return fillLists(task);
    case "policy":
      return runPolicy(task);
    case "admission":
      return runAdmission(task, ready);
    case "fan":
      return runFanOut(task);
    case "fan-control":
      return serveFanControl(task, ready, stopped);
    case "fan-workers":
      return serveFanWorkers(task, ready, stopped);
    default:
      return task satisfies never;
  }
}
