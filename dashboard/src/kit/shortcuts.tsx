/** Keyboard shortcuts. `?` lists those of the page. They do nothing while a field or a dialog has the focus. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Dialog } from "./dialog.tsx";

export interface Shortcut {
  /** `r`, `?`, or a sequence: `g j`. */
  readonly keys: string;
  readonly does: string;
  readonly run: () => void;
}

const registered = signal<readonly (readonly Shortcut[])[]>([]);
const isShown = signal(false);
let pending = "";
let pendingTimer = 0;

/** Registers shortcuts while the component is shown. Pass a constant list, or one made with `useMemo`. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  useEffect(() => {
    registered.value = [...registered.peek(), shortcuts];
    return () => {
      registered.value = registered.peek().filter((one) => one !== shortcuts);
    };
  }, [shortcuts]);
}

export function watchKeys(target: Document): () => void {
  target.addEventListener("keydown", onKey);
  return () => target.removeEventListener("keydown", onKey);
}

function onKey(event: KeyboardEvent): void {
  // An editor in a shadow tree is not the target of the event.
  const [origin] = event.composedPath();
  const isTyping = origin instanceof Element && origin.closest("input, textarea, select, [contenteditable]") !== null;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null)
    return;
  const keys = pending === "" ? event.key : `${pending} ${event.key}`;
  clearTimeout(pendingTimer);
  pending = "";
  // The page's own come last and win.
  const all = registered.peek().flat().toReversed();
  const found = all.find((shortcut) => shortcut.keys === keys);
  if (found !== undefined) {
    event.preventDefault();
    found.run();
  } else if (all.some((shortcut) => shortcut.keys.startsWith(`${keys} `))) {
    pending = keys;
    pendingTimer = window.setTimeout(() => {
      pending = "";
    }, SEQUENCE_MS);
  }
}

export const showShortcuts = (): void => {
  isShown.value = true;
};

export function ShortcutsOverlay() {
  if (!isShown.value) return null;
  const all = registered.value.flat();
  const close = () => {
    isShown.value = false;
  };
  return (
    <Dialog title="Keyboard shortcuts" onClose={close}>
      <dl class="shortcuts">
        {all.map(({ keys, does }) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

/** Moves the focus between rows: to the first link of the next or previous row. */
export function moveRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [role=rowgroup]:not(.head) [role=row]")];
  const current = rows.findIndex((row) => row.contains(document.activeElement));
  const visual = rows.toSorted((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
  const from = current < 0 ? -1 : visual.indexOf(rows[current] as HTMLElement);
  const next = visual[from < 0 ? 0 : from + step];
  next?.querySelector<HTMLElement>("a, button")?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const SEQUENCE_MS = 1_000;
