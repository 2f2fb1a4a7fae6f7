/** Schedules as text. */
import type { Json } from "../client.ts";
import type { Io } from "../io.ts";
import { formatDuration, printable, reasonsText, textFields, textTable } from "../table.ts";

export const timingText = ({ cron, every, time_zone: zone }: Json): string =>
  cron === undefined ? `every ${every}` : `${cron} (${zone})`;

export function scheduleText(schedule: Json): string {
  return [
    textFields(factsOf(schedule)),
    section(
      "next slots",
      ["SLOT", "STARTS AT"],
      schedule.next_slots.map((one: Json) => [one.slot, one.starts_at]),
    ),
    section(
      "last starts",
      ["RUN", "SLOT", "STARTED", "CAUSE"],
      schedule.last_starts.map((one: Json) => [one.run_id, one.slot ?? "–", one.started_at, one.cause]),
    ),
  ].join("");
}

function factsOf(schedule: Json): readonly (readonly [string, string])[] {
  const { counts, waiting, last_not_started: left, backfill } = schedule;
  const facts: [string, string][] = [
    ["schedule", schedule.id],
    ["workflow", schedule.workflow_id],
    ["state", schedule.state],
    ["when", timingText(schedule)],
    ["overlap", schedule.overlap],
    ["jitter", formatDuration(schedule.jitter_ms)],
    ["catch-up", formatDuration(schedule.catch_up_ms)],
    ["slots", `${counts.started} started, ${counts.skipped} skipped, ${counts.missed} missed, ${counts.failed} failed`],
  ];
  if (waiting) facts.push(["waits", `slot ${waiting.slot}: ${waiting.reason}`]);
  if (left) facts.push(["not started", `slot ${left.slot}, ${left.result}: ${left.reason}`]);
  if (backfill) {
    const handled = backfill.started + backfill.existing + backfill.failed;
    const why = backfill.waits_for ? `; waits: ${backfill.waits_for}` : "";
    facts.push(["backfill", `${handled} of ${backfill.slots} slots, until ${backfill.until}${why}`]);
  }
  if (schedule.open_runs.length > 0) facts.push(["open runs", schedule.open_runs.join(", ")]);
  facts.push(["applied", `${schedule.updated_at} by ${schedule.submitted_by_name ?? schedule.submitted_by}`]);
  return facts;
}

const section = (title: string, headers: readonly string[], rows: readonly (readonly string[])[]): string =>
  rows.length === 0 ? "" : `\n${title}\n${textTable(headers, rows)}`;

export function explanationText(io: Io, { schedule_id: id, state, reasons }: Json): string {
  return `${printable(id)}  ${state}\n${reasonsText(io, reasons)}`;
}
