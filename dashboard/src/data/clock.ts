/** Ticks that relative times read. A tick runs only while a component uses it: an idle page does nothing. */
import { type ReadonlySignal, signal } from "@preact/signals";

function tick(everyMs: number): ReadonlySignal<number> {
  let timer = 0;
  const now = signal(Date.now(), {
    watched() {
      now.value = Date.now();
      timer = window.setInterval(() => {
        if (!document.hidden) now.value = Date.now();
      }, everyMs);
    },
    unwatched: () => clearInterval(timer),
  });
  return now;
}

export const everySecond = tick(1_000);
export const everyHalfMinute = tick(30_000);
