/**
 * The address of the page is the only state of filters, selections and panels (L49): a reload, "back" and a shared link show
 * the same.
 */
import { computed, signal } from "@preact/signals";

const here = () => location.pathname + location.search;
const address = signal(here());

export const path = computed(() => new URL(address.value, location.origin).pathname);
export const query = computed(() => new URL(address.value, location.origin).searchParams);

/** One parameter; an empty text if it is absent. */
export const param = (name: string): string => query.value.get(name) ?? "";

export function navigate(to: string, { replace = false } = {}): void {
  if (to === here()) return;
  const isOtherPage = new URL(to, location.origin).pathname !== location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  address.value = here();
  if (isOtherPage) scrollTo(0, 0);
}

/** Changes parameters of the address; null removes one. */
export function setParams(changes: Readonly<Record<string, string | null>>, options?: { replace?: boolean }): void {
  navigate(hrefWith(changes), options);
}

/** The current address with other parameters. */
export function hrefWith(changes: Readonly<Record<string, string | null>>): string {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  return href(path.value, Object.fromEntries(next));
}

/** `href("/jobs", { state: "FAILED" })`; parameters without a value are left out. */
export function href(to: string, params: Readonly<Record<string, string | number | undefined | null>> = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  }
  return search.size === 0 ? to : `${to}?${search}`;
}

/** `segment` encodes an id for a path: `/jobs/${segment(id)}`. */
export const segment = encodeURIComponent;

/** Clicks on links of the dashboard change the page without a request. */
export function watchLinks(root: Document): void {
  addEventListener("popstate", () => {
    address.value = here();
  });
  root.addEventListener("click", (event) => {
    const link = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (link === null || !isPlain || event.defaultPrevented || link.target !== "" || link.hasAttribute("download"))
      return;
    if (link.origin !== location.origin || link.pathname.startsWith("/api/")) return;
    if (link.pathname === location.pathname && link.search === location.search && link.hash !== "") return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}
