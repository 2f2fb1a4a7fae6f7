/** Plays a history: pause, step, scrub. The entry is in the address, except while it plays. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Simulation } from "../../../../src/client/schema.ts";
import { param, setParams } from "../../data/location.ts";
import { Badge } from "../../kit/badge.tsx";
import { Section } from "../../kit/layout.tsx";
import { count, duration } from "../../kit/numbers.ts";
import { useShortcuts } from "../../kit/shortcuts.tsx";
import { Entries } from "./entries.tsx";
import { notesOf } from "./flows.ts";
import { conditionsAt, conditionText, describe, KINDS, type Kind, lanesOf, spansOf } from "./history.ts";
import { Lanes } from "./lanes.tsx";

interface PlayerProps {
  readonly of: Simulation;
  /** Without one in the address. */
  readonly start: number;
  readonly led: ReadonlySet<number>;
}

export function Player({ of, start, led }: PlayerProps) {
  const playback = usePlayback(of.trace.length, start);
  const { at, go } = playback;
  return (
    <Section title="History" tools={<Legend />}>
      <Controls of={of} playback={playback} />
      {of.trace_total > of.trace.length && (
        <p class="soft">
          The first {count(of.trace.length)} of {count(of.trace_total)} events.
        </p>
      )}
      <Lanes {...{ of, at, led }} onSelect={go} />
      <div class="columns">
        <Around {...{ of, at, led }} onSelect={go} />
        <Processes of={of} at={at} />
      </div>
    </Section>
  );
}

interface Playback {
  readonly at: number;
  readonly isPlaying: boolean;
  readonly speed: number;
  /** Selects an entry, and pauses. */
  readonly go: (at: number) => void;
  readonly step: (by: number) => void;
  /** Plays or pauses. */
  readonly swap: () => void;
}

function usePlayback(length: number, start: number): Playback {
  const bounded = (at: number) => Math.min(length - 1, Math.max(0, at));
  const given = param("at") === "" ? start : Number(param("at"));
  const at = useSignal(bounded(Number.isInteger(given) ? given : start));
  const isPlaying = useSignal(false);
  const speed = Number(param("speed")) || SPEED_DEFAULT;
  const actions = useMemo(() => {
    const go = (next: number) => {
      isPlaying.value = false;
      at.value = bounded(next);
      setParams({ at: String(at.peek()) }, { replace: true });
    };
    const swap = () => {
      if (isPlaying.peek()) return go(at.peek());
      if (at.peek() === length - 1) at.value = 0;
      isPlaying.value = true;
    };
    return { go, swap, step: (by: number) => go(at.peek() + by) };
  }, [length]);

  // Another entry of the address, for example by a link or by "back".
  useEffect(() => {
    if (!isPlaying.peek() && Number.isInteger(given)) at.value = bounded(given);
  }, [given]);
  useEffect(() => {
    if (!isPlaying.value) return;
    const timer = window.setInterval(() => {
      at.value = bounded(at.peek() + 1);
      if (at.peek() === length - 1) actions.go(at.peek());
    }, 1_000 / speed);
    return () => clearInterval(timer);
  }, [isPlaying.value, speed]);

  const shortcuts = useMemo(
    () => [
      { keys: "p", does: "play or pause", run: actions.swap },
      { keys: ".", does: "next event", run: () => actions.step(1) },
      { keys: ",", does: "previous event", run: () => actions.step(-1) },
    ],
    [actions],
  );
  useShortcuts(shortcuts);
  return { at: at.value, isPlaying: isPlaying.value, speed, ...actions };
}

function Controls({ of: { trace }, playback }: { readonly of: Simulation; readonly playback: Playback }) {
  const { at, isPlaying, speed, go, step, swap } = playback;
  const entry = trace[at];
  return (
    <div class="player">
      <button type="button" class="button" aria-label="previous event" onClick={() => step(-1)}>
        ‹
      </button>
      <button type="button" class="button main" aria-keyshortcuts="p" onClick={swap}>
        {isPlaying ? "Pause" : "Play"}
        <span class="key" aria-hidden="true">
          p
        </span>
      </button>
      <button type="button" class="button" aria-label="next event" onClick={() => step(1)}>
        ›
      </button>
      <input
        type="range"
        min={0}
        max={trace.length - 1}
        value={at}
        aria-label="event"
        aria-valuetext={`event ${at + 1}: ${entry === undefined ? "" : describe(entry)}`}
        onInput={(event) => go(Number(event.currentTarget.value))}
      />
      <label class="speed">
        <span class="soft">events/s</span>
        <select value={String(speed)} onChange={(event) => setParams({ speed: event.currentTarget.value })}>
          {SPEEDS.map((one) => (
            <option key={one} value={String(one)}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <span class="soft">
        event {count(at + 1)} of {count(trace.length)}
        {entry !== undefined && `, ${duration(entry.at_ms)}`}
      </span>
    </div>
  );
}

function Legend() {
  return (
    <ul class="legend">
      {(Object.keys(KINDS) as Kind[]).map((kind) => (
        <li key={kind}>
          <span class={`shape ${kind} ${KINDS[kind].tone}`} aria-hidden="true" />
          {KINDS[kind].text}
        </li>
      ))}
      <li>
        <span class="shape lost bad" aria-hidden="true" />
        lost message
      </li>
      <li>
        <span class="shape held wait" aria-hidden="true" />
        lock held, with its fence
      </li>
    </ul>
  );
}

interface AtProps {
  readonly of: Simulation;
  readonly at: number;
}

type AroundProps = AtProps & { readonly led: ReadonlySet<number>; readonly onSelect: (at: number) => void };

function Around({ of, at, led, onSelect }: AroundProps) {
  const { trace } = of;
  const notes = useMemo(() => notesOf(of), [of]);
  const first = Math.max(0, Math.min(at - BEFORE, trace.length - ROWS));
  const indexes = range(first, Math.min(trace.length, first + ROWS));
  return <Entries of={trace} {...{ indexes, at, notes, led, onSelect }} />;
}

function Processes({ of: { trace }, at }: AtProps) {
  const lanes = useMemo(() => lanesOf(trace).filter((lane) => lane !== "job" && lane !== "run"), [trace]);
  const spans = useMemo(() => spansOf(trace), [trace]);
  const conditions = conditionsAt(spans, at);
  return (
    <div class="processes">
      <h3>Processes at this event</h3>
      <dl class="facts">
        {lanes.map((lane) => {
          const found = conditions.get(lane) ?? [];
          return (
            <div key={lane}>
              <dt>{lane}</dt>
              <dd class="buttons">
                {found.length === 0 ? <Badge tone="good">up</Badge> : null}
                {found.map((span): ComponentChildren => {
                  const text = conditionText(span);
                  return (
                    <Badge key={text} tone={span.condition === "down" ? "bad" : "warn"}>
                      {text}
                    </Badge>
                  );
                })}
              </dd>
            </div>
          );
        })}
      </dl>
    </div>
  );
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, offset) => from + offset);

const SPEEDS = [2, 8, 25, 60] as const;
const SPEED_DEFAULT = 8;
const BEFORE = 8;
const ROWS = 13;
