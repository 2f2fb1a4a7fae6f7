import { putOffMs } from "../retry/put-off.ts";
import type { World } from "../world.ts";

/** Resolves when it is the turn of who was to come at `dueMs`: mostly at once, and after a halt in no step with others. */
export function inTurn(outside: Pick<World, "clock" | "random">, dueMs: number, timesBefore = 0): Promise<void> {
  const { clock, random } = outside;
  const nowMs = clock.now();
  const waitMs = putOffMs(nowMs - dueMs, timesBefore, random.next());
  if (waitMs === 0) return Promise.resolve();
  return new Promise((go) => {
    // As if that had been his time: a process that stands still once more is to keep those apart, too.
    clock.after(waitMs, () => void inTurn(outside, nowMs + waitMs, timesBefore + 1).then(go));
  });
}
