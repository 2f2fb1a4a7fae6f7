import { JOBS, type Job } from "../../core/model/job.ts";
import { type Run, TIMELINE, type TimelineLine, timelineOf } from "../../core/model/run.ts";
import type { Page } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

export interface TimelineAnswer {
  readonly lines: readonly TimelineLine[];
  /** The sequence number of the next line. */
  readonly cursor: string | null;
}

/** Oldest first. Lines are numbered without gaps, so the next number is a stable cursor. */
export async function timeline(
  engine: Needs<"world">,
  run: Run,
  { cursor, limit }: { readonly cursor?: string | undefined; readonly limit: number },
): Promise<TimelineAnswer> {
  const from = Math.max(0, Math.trunc(Number(cursor ?? 0)) || 0);
  const lines = [...(await olderLines(engine, run, from, limit)), ...run.lines]
    .filter(({ seq }) => seq >= from)
    .slice(0, limit);
  const next = (lines.at(-1)?.seq ?? run.lineCount) + 1;
  return { lines, cursor: next < run.lineCount ? String(next) : null };
}

/** Pages before the requested one are skipped; there are few. */
async function olderLines(
  engine: Needs<"world">,
  run: Run,
  from: number,
  limit: number,
): Promise<readonly TimelineLine[]> {
  const first = run.lines[0]?.seq ?? 0;
  if (from >= first) return [];
  const lines: TimelineLine[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await engine.world.store.list(TIMELINE, {
      index: timelineOf(run.id),
      limit: PAGES,
      order: "oldest",
      ...(cursor === undefined ? {} : { cursor }),
    });
    // Lines of the run as it was read may have moved to a page since.
    for (const { value } of page.items) lines.push(...value.lines.filter(({ seq }) => seq >= from && seq < first));
    if (page.cursor === null || lines.length >= limit) return lines;
    cursor = page.cursor;
  }
}

/** `index`: see `childrenOf`. */
export function children(
  engine: Needs<"world">,
  index: string,
  { cursor, limit }: { readonly cursor?: string | undefined; readonly limit: number },
): Promise<Page<Job>> {
  return engine.world.store.list(JOBS, {
    index,
    limit,
    order: "oldest",
    ...(cursor === undefined ? {} : { cursor }),
  });
}

const PAGES = 50;
