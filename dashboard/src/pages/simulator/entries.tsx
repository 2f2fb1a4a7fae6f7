import type { Simulation } from "../../../../src/client/schema.ts";
import { decimal } from "../../kit/numbers.ts";
import { describe, kindOf } from "./history.ts";

interface EntriesProps {
  readonly of: Simulation["trace"];
  readonly indexes: readonly number[];
  readonly at: number;
  /** What the description of an entry does not contain. */
  readonly notes: ReadonlyMap<number, string>;
  /** The entries that led to the violation are marked. */
  readonly led?: ReadonlySet<number>;
  readonly onSelect: (at: number) => void;
}

/** Entries of a history in words; a click selects one. */
export function Entries({ of: trace, indexes, at, notes, led, onSelect }: EntriesProps) {
  return (
    <table class="plain entries" aria-label="events">
      <thead>
        <tr>
          <th scope="col" class="end">
            Time
          </th>
          <th scope="col">Event</th>
        </tr>
      </thead>
      <tbody>
        {indexes.map((index) => {
          const entry = trace[index];
          if (entry === undefined) return null;
          const note = notes.get(index);
          const hasLed = led?.has(index) === true;
          return (
            <tr
              key={index}
              aria-current={index === at ? "true" : undefined}
              class={`${kindOf(entry)}${hasLed ? " led" : ""}`}
            >
              <td class="end soft">{decimal(entry.at_ms)} ms</td>
              <td>
                <button type="button" class="entry" onClick={() => onSelect(index)}>
                  {describe(entry)}
                </button>
                {note !== undefined && <span class="soft"> {note}</span>}
                {hasLed && <span class="led-note"> led to the violation</span>}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
