/** Preferences of this browser: they are not filters, so they are not in the address. */
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

function stored<T extends string>(name: string, otherwise: T, allowed: readonly T[]) {
  const found = localStorage.getItem(name) as T | null;
  const value = signal<T>(found !== null && allowed.includes(found) ? found : otherwise);
  effect(() => localStorage.setItem(name, value.value));
  return value;
}

export const theme = stored<Theme>("theme", "system", ["system", "light", "dark"]);
/** Which of the two is shown first; the other is in the tooltip. */
export const times = stored<"relative" | "absolute">("times", "relative", ["relative", "absolute"]);

effect(() => {
  if (theme.value === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme.value);
});
