import type { Schedule } from "../../../../src/client/schema.ts";
import { Badge, type Tone } from "../../kit/badge.tsx";

const TONES: Readonly<Record<Schedule["state"], Tone>> = {
  active: "good",
  waiting: "wait",
  paused: "warn",
  finished: "quiet",
};

export function ScheduleState({ state }: { readonly state: Schedule["state"] }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}

/** `0 9 * * 1-5 (Europe/Berlin)`, `every 15m`. */
export function timingText({ cron, every, time_zone: zone }: Pick<Schedule, "cron" | "every" | "time_zone">): string {
  return cron === undefined ? `every ${every}` : `${cron} (${zone ?? "UTC"})`;
}
