/** Which invariant was violated, and what happened before. */
import { useMemo } from "preact/hooks";
import type { LabCatalogue, Simulation } from "../../../../src/client/schema.ts";
import { param, setParams } from "../../data/location.ts";
import { Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { counted, decimal } from "../../kit/numbers.ts";
import { useShortcuts } from "../../kit/shortcuts.tsx";
import { Entries } from "./entries.tsx";
import { NOT_HANDLED } from "./flow-marks.tsx";
import { lostBefore, notesOf, placeOf } from "./flows.ts";
import { entryOf, type Violation } from "./history.ts";

interface ViolationsProps {
  readonly of: Simulation;
  readonly chosen: Violation | null;
  /** The entries that led to it. */
  readonly led: ReadonlySet<number>;
  readonly mutant: LabCatalogue["simulator"]["mutants"][number] | undefined;
}

export function Violations({ chosen, ...props }: ViolationsProps) {
  if (chosen === null) {
    return <Note tone="good">Every invariant held, and everything ended after the faults stopped.</Note>;
  }
  return <Explained {...props} chosen={chosen} />;
}

function Explained({ of, chosen, led, mutant }: ViolationsProps & { readonly chosen: Violation }) {
  const { violations, trace } = of;
  const at = param("at") === "" ? entryOf(trace, chosen) : Number(param("at"));
  const select = (index: number) => setParams({ at: String(index) }, { replace: true });
  const notes = useMemo(() => notesOf(of), [of]);
  const indexes = useMemo(() => [...led].toSorted((a, b) => a - b), [led]);
  useJumps(indexes, entryOf(trace, chosen), select);
  return (
    <Section title={counted(violations.length, "violation")} tone="bad">
      {violations.length > 1 && <Choose {...{ violations, chosen }} />}
      <p class="lead">
        <strong>{chosen.checker.replaceAll("_", " ")}</strong>: {chosen.invariant}.
      </p>
      <p>
        <span class="tone-bad">Violated at {decimal(chosen.at_ms)} ms</span> by <code>{chosen.id}</code>: {chosen.hint}
      </p>
      {mutant !== undefined && (
        <p class="soft">
          The injected bug <code>{mutant.name}</code>: {mutant.about}.
        </p>
      )}
      <h3>What happened before</h3>
      <Entries of={trace} {...{ indexes, at, notes }} onSelect={select} />
      <Lost of={of} {...{ chosen, select }} />
      <p class="buttons">
        <button type="button" class="button" aria-keyshortcuts="v" onClick={() => select(entryOf(trace, chosen))}>
          Show on the timeline
          <span class="key" aria-hidden="true">
            v
          </span>
        </button>
        <span class="soft">These events have a ring there; [ and ] go from one to the next.</span>
      </p>
    </Section>
  );
}

interface LostProps {
  readonly of: Simulation;
  readonly chosen: Violation;
  readonly select: (at: number) => void;
}

function Lost({ of, chosen, select }: LostProps) {
  const lost = useMemo(() => lostBefore(of, chosen), [of, chosen]);
  if (lost.length === 0) return null;
  return (
    <>
      <h3>Messages about it that were lost</h3>
      <ul class="lost-messages">
        {lost.map(({ from, to, id, sent_ms, lost: why }) => (
          <li key={`${id} ${sent_ms} ${to}`}>
            <button type="button" class="entry" onClick={() => select(Math.floor(placeOf(of.trace, sent_ms)))}>
              {decimal(sent_ms)} ms: {id}, from {from} to {to}
            </button>{" "}
            <span class="soft">{why ?? NOT_HANDLED}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function useJumps(indexes: readonly number[], violated: number, select: (at: number) => void): void {
  const shortcuts = useMemo(() => {
    // At the time of the key, not of the render.
    const at = () => Number(new URLSearchParams(location.search).get("at") ?? violated);
    const jump = (to: number | undefined) => void (to !== undefined && select(to));
    return [
      { keys: "v", does: "go to the violation", run: () => select(violated) },
      { keys: "[", does: "previous event that led to it", run: () => jump(indexes.findLast((one) => one < at())) },
      { keys: "]", does: "next event that led to it", run: () => jump(indexes.find((one) => one > at())) },
    ];
  }, [indexes, violated]);
  useShortcuts(shortcuts);
}

function Choose({ violations, chosen }: { readonly violations: readonly Violation[]; readonly chosen: Violation }) {
  return (
    <label class="field">
      <span>Violation</span>
      <select
        value={String(violations.indexOf(chosen))}
        onChange={(event) =>
          setParams({ violation: event.currentTarget.value === "0" ? null : event.currentTarget.value, at: null })
        }
      >
        {violations.map(({ checker, id, at_ms }, index) => (
          <option key={`${checker} ${id}`} value={String(index)}>
            {checker.replaceAll("_", " ")}: {id}, at {decimal(at_ms)} ms
          </option>
        ))}
      </select>
    </label>
  );
}
