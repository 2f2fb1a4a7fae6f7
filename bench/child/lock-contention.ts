import { setTimeout as delay, setImmediate as immediate } from "node:timers/promises";
import { Redis } from "ioredis";
import { machineMs } from "./clocks.ts";
import { openLockPeer } from "./peers/locks.ts";
import { GO_CHANNEL, type LockFigures, type LockTask } from "./task.ts";

/**
 * One of several processes that contend for a hot lock.
 *
 * 1. All processes are connected and warmed up before one published message starts them.
 * 2. A hold has its exact duration, independent of late timers.
 * 3. Holds are recorded with the monotonic clock of the machine, so overlaps between processes are exact and recording them
 *    costs the holder nothing.
 */
export async function runLocks(task: LockTask, ready: () => void): Promise<LockFigures> {
  const { acquire, close } = await openLockPeer(task.peer, task.redisUrl);
  const subscriber = new Redis(task.redisUrl);
  for (let round = 0; round < WARM_ROUNDS; round++) {
    const lock = await acquire(`warm-${process.pid}`);
    await lock.release();
  }
  await subscriber.subscribe(GO_CHANNEL);
  const go = new Promise<void>((resolve) => subscriber.once("message", () => resolve()));
  ready();
  await go;
  const requests = countRequests();
  const holdsMs: (readonly [number, number])[] = [];
  let attempts = 0;
  const contend = async () => {
    const lock = await acquire(HOT_KEY);
    const fromMs = machineMs();
    await hold(task.holdMs);
    holdsMs.push([fromMs, machineMs()]);
    attempts += lock.attempts;
    await lock.release();
  };
  await Promise.all(Array.from({ length: task.contenders }, contend));
  const sent = requests();
  await close();
  subscriber.disconnect();
  return { holdsMs, attempts, requests: sent };
}

/** Counts all Redis commands of this process from now on, with renewals and releases. */
function countRequests(): () => number {
  const { sendCommand } = Redis.prototype;
  let requests = 0;
  Redis.prototype.sendCommand = function (...args) {
    requests++;
    return sendCommand.apply(this, args);
  };
  return () => requests;
}

async function hold(ms: number): Promise<void> {
  const untilMs = performance.now() + ms;
  // Timers fire up to 3 ms late; the rest is waited for in turns of the event loop.
  await delay(ms - 3);
  while (performance.now() < untilMs) await immediate();
}

const HOT_KEY = "hot";
const WARM_ROUNDS = 200;
