import { JOBS, type Job } from "../../core/model/job.ts";
import { unindexedJobsOf } from "../../core/model/lists/job-lists.ts";
import { put } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/**
 * Adds jobs of earlier versions to the lists of filters. They are the only entries of `unindexedJobsOf`, and leave it when
 * they are written again. Returns how many are left, at most the given number; the work continues in this process.
 */
export async function indexEarlierJobs(
  engine: Needs<"world" | "commit" | "tasks">,
  org: string,
): Promise<{ readonly left: number }> {
  const left = await engine.world.store.count(JOBS, { index: unindexedJobsOf(org) });
  if (left > 0) engine.tasks.runExclusive(`index jobs ${org}`, () => indexAll(engine, org));
  return { left };
}

async function indexAll(engine: Needs<"world" | "commit" | "tasks">, org: string): Promise<void> {
  const { store, log } = engine.world;
  let cursor: string | undefined;
  try {
    do {
      const page = await store.list(JOBS, { index: unindexedJobsOf(org), limit: PAGE, order: "oldest", cursor });
      // A stale one has changed meanwhile, which indexed it.
      await Promise.all(
        page.items.map((found) => {
          const after: Job = { ...found.value, indexed: 1 };
          return engine.commit({ org, puts: [put(JOBS, found.id, found, after)] });
        }),
      );
      cursor = page.cursor ?? undefined;
    } while (cursor !== undefined && !engine.tasks.isClosed);
  } catch (error) {
    // The next request starts again.
    log.write("warn", "job_indexing_interrupted", { org, error: String(error) });
  }
}

const PAGE = 200;
