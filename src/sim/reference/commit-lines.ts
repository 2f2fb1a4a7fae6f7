import { type Run, TIMELINE, type TimelineLine, type TimelinePage } from "../../core/model/run.ts";
import type { Change } from "../../ports/store.ts";

/** The timeline lines that a commit adds; some may be on a page already. */
export function linesIn({ puts }: Change, before: Run | null, after: Run): readonly TimelineLine[] {
  const pages = puts.filter(({ table }) => table === TIMELINE.name).map(({ value }) => value as TimelinePage | null);
  const paged = pages.flatMap((page) => (page?.runId === after.id ? page.lines : []));
  return [...paged, ...after.lines].filter(({ seq }) => seq >= (before?.lineCount ?? 0)).sort((a, b) => a.seq - b.seq);
}
