/** Times: relative and absolute, one shown and the other in the tooltip; `t` swaps them. */
import { useComputed } from "@preact/signals";
import { everyHalfMinute, everySecond } from "../data/clock.ts";
import { times } from "../data/preferences.ts";
import { duration } from "./numbers.ts";

/** `12:03:11`, with the date unless it is today. */
export function absolute(ms: number, nowMs = Date.now()): string {
  const date = new Date(ms);
  const time = date.toLocaleTimeString("en-GB");
  if (date.toDateString() === new Date(nowMs).toDateString()) return time;
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return date.getFullYear() === new Date(nowMs).getFullYear()
    ? `${day} ${time}`
    : `${day} ${date.getFullYear()} ${time}`;
}

/** `3 min ago`, `in 12 s`, `now`. */
export function relative(ms: number, nowMs: number): string {
  const ago = nowMs - ms;
  if (Math.abs(ago) < 1_000) return "now";
  return ago > 0 ? `${duration(ago)} ago` : `in ${duration(-ago)}`;
}

/** A past time in its largest unit, for narrow columns: `3 min ago`. */
function brief(ms: number, nowMs: number): string {
  const [amount = "", unit = "", smaller] = relative(ms, nowMs).split("\u00a0");
  return nowMs > ms && smaller !== undefined ? `${amount}\u00a0${unit} ago` : relative(ms, nowMs);
}

/** A point in time, ISO 8601 or milliseconds. `both` shows the two. */
export function Time({ at, both = false }: { readonly at: string | number | null; readonly both?: boolean }) {
  const ms = typeof at === "number" ? at : Date.parse(at ?? "");
  const text = useComputed(() => {
    const nowMs = (Math.abs(Date.now() - ms) < 90_000 ? everySecond : everyHalfMinute).value;
    return both ? `${absolute(ms, nowMs)} · ${relative(ms, nowMs)}` : brief(ms, nowMs);
  });
  if (Number.isNaN(ms)) return <span class="soft">–</span>;
  const iso = new Date(ms).toISOString();
  if (times.value === "absolute" && !both) {
    return (
      <time dateTime={iso} title={iso}>
        {absolute(ms)}
      </time>
    );
  }
  return (
    <time dateTime={iso} title={`${absolute(ms)} (${iso})`}>
      {text}
    </time>
  );
}

/** Time left until `at`, counting down. */
export function Countdown({ at }: { readonly at: string }) {
  const text = useComputed(() => {
    const leftMs = Date.parse(at) - everySecond.value;
    return leftMs <= 0 ? "ended" : `${duration(leftMs)} left`;
  });
  return (
    <time dateTime={at} title={at} class="countdown">
      {text}
    </time>
  );
}
