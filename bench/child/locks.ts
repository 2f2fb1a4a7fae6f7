import { setTimeout as delay, setImmediate as immediate } from "node:timers/promises";
import { Redis } from "ioredis";
import { machineMs } from "./machine-clock.ts";
import { openLockPeer } from "./peers/lock-peers.ts";
import { GO_CHANNEL, type LockFigures, type LockTask } from "./task.ts";

/**
 * One of the processes that fight for a hot lock.
 *
 * 1. Everybody is connected and warm before the signal; the signal is one message that all processes hear.
 * 2. A hold lasts as long as it is meant to, not as long as a timer takes: a late timer is not the lock's fault.
 * 3. Holds are noted by the machine's monotonic clock, which all processes share: overlaps are found exactly, and
 *    finding them costs the holder nothing.
 */
export async function runLocks(task: LockTask, ready: () => void): Promise<LockFigures> {
  const { acquire, close } = await openLockPeer(task.peer, task.redisUrl);
  const filter = new Redis(task.redisUrl);
  for (let round = 0; round < WARM_ROUNDS; round++) {
    const lock = await acquire(`warm-${process.pid}`);
    await lock.release();
  }
  await filter.subscribe(GO_CHANNEL);
  const go = new Promise<void>((resolve) => filter.once("message", () => resolve()));
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
  filter.disconnect();
  return { holdsMs, attempts, requests: sent };
}

/** What the process asks of Redis from now on, whoever asks: signs of life and releases are requests too. */
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
  // Timers fire up to three milliseconds late; the last bit is waited for turn by turn, with the event loop free.
  await delay(ms - 3);
  while (performance.now() < untilMs) await immediate();
}

const HOT_KEY = "hot";
const WARM_ROUNDS = 200;
