/** Loading, empty, failed and stale, each with its own look (L52, L57). */
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { CordumError } from "../../../src/client/client-error.ts";
import { everySecond } from "../data/clock.ts";
import type { Shown, Stale } from "../data/resource.ts";
import { Icon } from "./icon.tsx";
import { duration } from "./numbers.ts";
import { Prose } from "./prose.tsx";
import { absolute } from "./time.tsx";

interface Source<T> {
  readonly shown: ReadonlySignal<Shown<T>>;
  reload(): Promise<void>;
}

interface ShowProps<T> {
  readonly of: Source<T>;
  /** What is loaded, for the texts: `jobs`. */
  readonly what: string;
  readonly isEmpty?: (value: T) => boolean;
  /** In place of the content if it is empty. */
  readonly empty?: ComponentChildren;
  readonly children: (value: T) => ComponentChildren;
}

/** The content of a resource, or its state. */
export function Show<T>({ of, what, isEmpty, empty, children }: ShowProps<T>) {
  const shown = of.shown.value;
  if (shown.kind === "loading") return <Loading what={what} />;
  if (shown.kind === "failed") return <Failed what={what} error={shown.error} retry={() => void of.reload()} />;
  const content = isEmpty?.(shown.value) === true ? (empty ?? <Empty title={`no ${what}`} />) : children(shown.value);
  return (
    <>
      {shown.stale !== null && <StaleNote stale={shown.stale} retry={() => void of.reload()} />}
      {content}
    </>
  );
}

export function Loading({ what }: { readonly what: string }) {
  return (
    <div class="state loading" role="status">
      <span class="bars" aria-hidden="true" />
      <span>loading {what} …</span>
    </div>
  );
}

/** For work that takes seconds: with the time since it began. */
export function Elapsed({ what }: { readonly what: string }) {
  const [sinceMs] = useState(() => Date.now());
  return (
    <span class="state loading">
      <span class="bars" aria-hidden="true" />
      <span role="status">{what} …</span>
      <span class="soft">{duration(Math.max(0, everySecond.value - sinceMs))}</span>
    </span>
  );
}

export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="state empty">
      <p class="state-title">{title}</p>
      {children !== undefined && <div class="soft">{children}</div>}
    </div>
  );
}

export function Failed({ what, error, retry }: { what: string; error: CordumError; retry?: () => void }) {
  return (
    <div class="state failed" role="alert">
      <Icon name="alert" />
      <div>
        <p class="state-title">
          could not load {what}: {error.title}
        </p>
        <p>
          <Prose text={error.detail} />
        </p>
        {error.requestId !== null && <p class="soft mono">request {error.requestId}</p>}
      </div>
      {retry !== undefined && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function StaleNote({ stale, retry }: { readonly stale: Stale; readonly retry?: () => void }) {
  return (
    <div class="stale" role="status">
      <Icon name="clock" />
      <span>
        <strong>stale since {absolute(stale.sinceMs)}</strong>
        {stale.error === null
          ? ": live updates are interrupted, reconnecting"
          : `: ${stale.error.title}, ${stale.error.detail}`}
      </span>
      {retry !== undefined && (
        <button type="button" class="button small" onClick={retry}>
          Reload
        </button>
      )}
    </div>
  );
}
