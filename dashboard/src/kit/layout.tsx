/** Building blocks of pages. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { hrefWith, param } from "../data/location.ts";
import { copyText } from "./action.tsx";
import type { Tone } from "./badge.tsx";
import { Icon } from "./icon.tsx";

interface PageProps {
  readonly title: string;
  /** Title of the browser tab, if it differs. */
  readonly tab?: string;
  /** Links back: `[["/jobs", "Jobs"]]`. */
  readonly trail?: readonly (readonly [string, string])[];
  readonly beside?: ComponentChildren;
  readonly actions?: ComponentChildren;
  /** The content fills the height and scrolls inside: for one long list. */
  readonly isFilled?: boolean;
  readonly children: ComponentChildren;
}

export function Page({ title, tab = title, trail = [], beside, actions, isFilled = false, children }: PageProps) {
  useEffect(() => {
    document.title = `${tab} · Cordum`;
  }, [tab]);
  return (
    <div class={isFilled ? "page filled" : "page"}>
      <header class="page-head">
        <div class="page-title">
          {trail.length > 0 && (
            <nav class="trail" aria-label="parents">
              {trail.map(([to, text]) => (
                <a key={to} href={to}>
                  {text}
                </a>
              ))}
            </nav>
          )}
          <h1>{title}</h1>
          {beside}
        </div>
        {actions !== undefined && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface SectionProps {
  readonly title: string;
  readonly about?: string;
  readonly tools?: ComponentChildren;
  readonly tone?: "bad" | "warn";
  readonly children: ComponentChildren;
}

export function Section({ title, about, tools, tone, children }: SectionProps) {
  return (
    <section class={tone === undefined ? "section" : `section ${tone}`} aria-label={title}>
      <header class="section-head">
        <h2>{title}</h2>
        {about !== undefined && <p class="soft">{about}</p>}
        {tools !== undefined && <div class="tools">{tools}</div>}
      </header>
      {children}
    </section>
  );
}

/** A figure with its unit and what it means. */
export function Stat({
  label,
  value,
  unit,
  about,
  tone,
  to,
}: {
  readonly label: string;
  readonly value: string;
  readonly unit?: string;
  readonly about?: ComponentChildren;
  readonly tone?: Tone | undefined;
  readonly to?: string;
}) {
  const content = (
    <>
      <span class="stat-label">{label}</span>
      <span class={`stat-value ${tone ?? ""}`}>
        {value}
        {unit !== undefined && <small> {unit}</small>}
      </span>
      {about !== undefined && <span class="stat-about soft">{about}</span>}
    </>
  );
  return to === undefined ? (
    <div class="stat">{content}</div>
  ) : (
    <a class="stat" href={to}>
      {content}
    </a>
  );
}

/** Pairs of name and value; pairs without a value are left out. */
export function Facts({ of }: { readonly of: readonly (readonly [string, ComponentChildren])[] }) {
  const shown = of.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return (
    <dl class="facts">
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** An id in full, with a button that copies it. */
export function Id({ id, to }: { readonly id: string; readonly to?: string }) {
  return (
    <span class="id mono">
      {to === undefined ? id : <a href={to}>{id}</a>}
      <button type="button" class="button ghost icon-only" aria-label={`copy ${id}`} onClick={() => copyText(id)}>
        <Icon name="copy" />
      </button>
    </span>
  );
}

interface TabsProps {
  /** The parameter of the address. */
  readonly name: string;
  readonly tabs: readonly (readonly [string, string])[];
  /** Other parameters, which belong to one tab. */
  readonly clears?: readonly string[];
}

export function Tabs({ name, tabs, clears = [] }: TabsProps) {
  const cleared = Object.fromEntries(clears.map((other) => [other, null]));
  const chosen = param(name) || tabs[0]?.[0];
  const box = useRef<HTMLElement>(null);
  // On narrow screens the tabs scroll.
  useEffect(() => {
    const current = box.current?.querySelector<HTMLElement>("[aria-current]");
    if (box.current && current) box.current.scrollLeft = current.offsetLeft - box.current.offsetLeft - TAB_LEFT_PX;
  }, [chosen]);
  return (
    <nav class="tabs" aria-label={name} ref={box}>
      {tabs.map(([value, text], at) => (
        <a
          key={value}
          href={hrefWith({ ...cleared, [name]: at === 0 ? null : value })}
          aria-current={value === chosen ? "page" : undefined}
        >
          {text}
        </a>
      ))}
    </nav>
  );
}

/** Of the tab before the chosen one, so much is visible. */
const TAB_LEFT_PX = 60;

/** A share of a whole as a bar; the text says the same. */
export function Meter({
  share,
  tone = "busy",
  label,
}: {
  readonly share: number;
  readonly tone?: Tone;
  readonly label: string;
}) {
  const width = `${Math.min(100, Math.max(0, share * 100))}%`;
  return (
    <span class={`meter ${tone}`} role="img" aria-label={label} title={label}>
      <span ref={(element) => element?.style.setProperty("width", width)} />
    </span>
  );
}
