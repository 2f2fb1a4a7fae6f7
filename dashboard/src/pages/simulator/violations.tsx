/** Which invariant was violated, and what happened before. */
import type { Simulation } from "../../../../src/client/schema.ts";
import { param, setParams } from "../../data/location.ts";
import { Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { counted, decimal } from "../../kit/numbers.ts";
import { Entries } from "./entries.tsx";
import { before, entryOf, type Violation } from "./history.ts";

export function Violations({ of }: { readonly of: Simulation }) {
  const { violations, trace } = of;
  const [first] = violations;
  if (first === undefined) {
    return <Note tone="good">Every invariant held, and everything ended after the faults stopped.</Note>;
  }
  const chosen = violations[Number(param("violation")) || 0] ?? first;
  const select = (at: number) => setParams({ at: String(at) }, { replace: true });
  return (
    <Section title={counted(violations.length, "violation")} tone="bad">
      {violations.length > 1 && <Choose {...{ violations, chosen }} />}
      <p class="lead">
        <strong>{chosen.checker.replaceAll("_", " ")}</strong>: {chosen.invariant}.
      </p>
      <p>
        <span class="tone-bad">Violated at {decimal(chosen.at_ms)} ms</span> by <code>{chosen.id}</code>: {chosen.hint}
      </p>
      <h3>What happened before</h3>
      <Entries of={trace} indexes={before(trace, chosen)} at={Number(param("at"))} onSelect={select} />
      <p class="buttons">
        <button type="button" class="button" onClick={() => select(entryOf(trace, chosen))}>
          Show on the timeline
        </button>
      </p>
    </Section>
  );
}

function Choose({ violations, chosen }: { readonly violations: readonly Violation[]; readonly chosen: Violation }) {
  return (
    <label class="field">
      <span>Violation</span>
      <select
        value={String(violations.indexOf(chosen))}
        onChange={(event) =>
          setParams({ violation: event.currentTarget.value === "0" ? null : event.currentTarget.value })
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
