import { AUDIT_HEADS, AUDIT_PAGES, pageId, pageOf } from "../../core/model/audit.ts";
import { put } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/**
 * Adds the pages of earlier versions to the lists of filters, oldest first, because each needs the latest time of those
 * before it. Returns the number of pages left at the start; the work continues in this process.
 */
export async function indexEarlierAudit(
  engine: Needs<"world" | "commit" | "tasks">,
  org: string,
): Promise<{ readonly left: number }> {
  const head = (await engine.world.store.load(AUDIT_HEADS, org))?.value;
  if (head === undefined || head.latestMs !== undefined) return { left: 0 };
  engine.tasks.runExclusive(`index audit ${org}`, () => indexAll(engine, org));
  return { left: pageOf(head.count) + 1 };
}

async function indexAll(engine: Needs<"world" | "commit" | "tasks">, org: string): Promise<void> {
  const { store, log } = engine.world;
  try {
    let [number, latestMs] = [0, 0];
    while (!engine.tasks.isClosed) {
      const [head, page] = await Promise.all([
        store.load(AUDIT_HEADS, org),
        store.load(AUDIT_PAGES, pageId(org, number)),
      ]);
      if (head === null || head.value.latestMs !== undefined) return;
      const isLast = number >= pageOf(head.value.count);
      const through = Math.max(latestMs, ...(page?.value.entries ?? []).map(({ at }) => at));
      const puts = page === null ? [] : [put(AUDIT_PAGES, page.id, page, { ...page.value, earlierMs: latestMs })];
      const after = isLast ? [put(AUDIT_HEADS, org, head, { ...head.value, latestMs: through })] : [];
      const committed = await engine.commit({ org, puts: [...puts, ...after] });
      // Stale: the chain has grown meanwhile. The page is read again.
      if (committed.kind !== "committed") continue;
      if (isLast) return;
      [number, latestMs] = [number + 1, through];
    }
  } catch (error) {
    // The next request starts again.
    log.write("warn", "audit_indexing_interrupted", { org, error: String(error) });
  }
}
