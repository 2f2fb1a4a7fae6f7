import type { Job } from "../../core/model/job.ts";
import type { Counted } from "../../core/policy/limits/apply-limits.ts";
import { entriesOf, toStored, WINDOWS } from "../../core/policy/limits/window.ts";
import { put } from "../../ports/store.ts";
import { retryOnConflict } from "../commit.ts";
import type { Needs } from "../engine.ts";

/**
 * Gives back the slots of a job that ended before they came; `ended` is the job before its end. Best effort after the
 * commit: if this process dies, the slots stay unused. A job that has left PENDING has used its slots, also if the clock of
 * this process is behind them.
 */
export function releaseSlots(engine: Needs<"world" | "commit" | "tasks" | "windows">, ended: Job): void {
  if (ended.counted === undefined || ended.state !== "PENDING") return;
  const nowMs = engine.world.clock.now();
  for (const slot of ended.counted.filter(({ atMs }) => atMs > nowMs)) {
    const released = releaseSlot(engine, ended.org, slot).catch((error: unknown) =>
      engine.world.log.write("warn", "policy_slot_release_failed", { job: ended.id, error: String(error) }),
    );
    engine.tasks.track(released);
  }
}

async function releaseSlot(
  engine: Needs<"world" | "commit" | "windows">,
  org: string,
  { id, atMs }: Counted,
): Promise<void> {
  const release = await engine.windows.acquire([id]);
  try {
    await retryOnConflict(`policy window \`${id}\``, async () => {
      const found = await engine.world.store.load(WINDOWS, id);
      if (found === null) return;
      const entries = entriesOf(found.value);
      const at = entries.findIndex((entry) => entry.atMs === atMs);
      if (at === -1) return;
      const { ruleId, dueMs } = found.value;
      const lastMs = entries.at(-1)?.atMs ?? 0;
      const left = entries.filter((_, index) => index !== at);
      const kept = left.length === 0 ? null : toStored(left, { org, ruleId, withinMs: dueMs - lastMs });
      const committed = await engine.commit({ org, puts: [put(WINDOWS, id, found, kept)] });
      return committed.kind === "committed" ? undefined : "stale";
    });
  } finally {
    release();
  }
}
