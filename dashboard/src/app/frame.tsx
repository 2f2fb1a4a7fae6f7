/** Navigation and the bar on top. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { live } from "../data/live.ts";
import { navigate, path } from "../data/location.ts";
import { theme, times } from "../data/preferences.ts";
import { chooseTenant, chosenTenant, signOut, who } from "../data/session.ts";
import { Icon } from "../kit/icon.tsx";
import { moveRow, type Shortcut, showShortcuts, useShortcuts } from "../kit/shortcuts.tsx";
import { absolute } from "../kit/time.tsx";
import { NAV, type NavEntry } from "../pages/registry.ts";
import { Logo } from "./logo.tsx";

const nextTheme = { system: "light", light: "dark", dark: "system" } as const;

const shortcuts: readonly Shortcut[] = [
  { keys: "?", does: "show the keyboard shortcuts", run: showShortcuts },
  ...NAV.flatMap(([, entries]) =>
    entries.map(({ path: to, text, key }) => ({ keys: `g ${key}`, does: `go to ${text}`, run: () => navigate(to) })),
  ),
  { keys: "/", does: "go to the first filter", run: () => focusOn(".filters input, .filters select") },
  { keys: "j", does: "next row", run: () => moveRow(1) },
  { keys: "k", does: "previous row", run: () => moveRow(-1) },
  { keys: "e", does: "explain the row in focus", run: () => focusOn("[role=row]:focus-within .explain")?.click() },
  { keys: "t", does: "relative or absolute times", run: swapTimes },
  { keys: "d", does: "system, light or dark", run: swapTheme },
];

function focusOn(selector: string): HTMLElement | null {
  const element = document.querySelector<HTMLElement>(selector);
  element?.focus();
  return element;
}

function swapTimes(): void {
  times.value = times.value === "relative" ? "absolute" : "relative";
}

function swapTheme(): void {
  theme.value = nextTheme[theme.value];
}

export function Frame({ children }: { readonly children: ComponentChildren }) {
  const isOpen = useSignal(false);
  useShortcuts(shortcuts);
  useEffect(
    () =>
      path.subscribe(() => {
        isOpen.value = false;
      }),
    [isOpen],
  );
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="bar">
        <button
          type="button"
          class="button ghost icon-only menu-button"
          aria-label="navigation"
          aria-expanded={isOpen.value}
          onClick={() => {
            isOpen.value = !isOpen.value;
          }}
        >
          <Icon name="menu" />
        </button>
        <a href="/" class="home" aria-label="Cordum, Now">
          <Logo />
        </a>
        <span class="grow" />
        <LiveMark />
        <TenantField />
        <ThemeButton />
        <button
          type="button"
          class="button ghost icon-only"
          aria-label="keyboard shortcuts"
          title="keyboard shortcuts (?)"
          onClick={showShortcuts}
        >
          <Icon name="question" />
        </button>
        <button
          type="button"
          class="button ghost"
          onClick={() => void signOut()}
          title={`signed in as ${who.value?.key}, role ${who.value?.role}`}
        >
          Sign out
        </button>
      </header>
      <Navigation isOpen={isOpen.value} />
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

function Navigation({ isOpen }: { readonly isOpen: boolean }) {
  const here = path.value;
  const isCurrent = (to: string) => (to === "/" ? here === "/" : here === to || here.startsWith(`${to}/`));
  const shown = useMemo(
    () =>
      NAV.map(([group, entries]) => [group, entries.filter(isVisible)] as const).filter(
        ([, entries]) => entries.length > 0,
      ),
    [],
  );
  return (
    <nav class={isOpen ? "nav open" : "nav"} aria-label="pages">
      {shown.map(([group, entries]) => (
        <div key={group} class="nav-group">
          <h2>{group}</h2>
          {entries.map(({ path: to, text }) => (
            <a key={to} href={to} aria-current={isCurrent(to) ? "page" : undefined}>
              {text}
            </a>
          ))}
        </div>
      ))}
    </nav>
  );
}

function isVisible({ needs, isForAllTenants }: NavEntry): boolean {
  const caller = who.peek();
  if (needs !== undefined && caller?.access.includes(needs) !== true) return false;
  return isForAllTenants !== true || caller?.tenant === "*";
}

/** Whether changes arrive as they happen. */
function LiveMark() {
  const state = live.value;
  const text = state.kind === "lost" ? `stale since ${absolute(state.sinceMs)}` : state.kind;
  const tone = { live: "good", lost: "bad", connecting: "quiet" }[state.kind];
  return (
    <span class={`badge ${tone} live-mark`} role="status">
      <span class="dot" aria-hidden="true" />
      {text}
    </span>
  );
}

/** Callers of all tenants can narrow every page to one. */
function TenantField() {
  if (who.value?.tenant !== "*") return <span class="tenant soft">tenant {who.value?.tenant}</span>;
  return (
    <label class="tenant">
      <span class="soft">tenant</span>
      <input
        type="search"
        value={chosenTenant.value}
        placeholder="all"
        size={10}
        maxLength={64}
        spellcheck={false}
        onChange={(event) => chooseTenant(event.currentTarget.value.trim())}
      />
    </label>
  );
}

function ThemeButton() {
  const now = theme.value;
  const icon = { system: "system", light: "sun", dark: "moon" } as const;
  return (
    <button
      type="button"
      class="button ghost icon-only"
      aria-label={`theme: ${now}`}
      title={`theme: ${now} (d)`}
      onClick={swapTheme}
    >
      <Icon name={icon[now]} />
    </button>
  );
}
