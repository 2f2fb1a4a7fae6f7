/** JSON of any size as text: the first lines, then more on request (L54). Values are text, never markup. */
import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { copyText } from "./action.tsx";
import { Icon } from "./icon.tsx";
import { bytes, count } from "./numbers.ts";

export function Json({ value, label }: { readonly value: unknown; readonly label: string }) {
  const linesMax = useSignal(LINES);
  if (value === null || value === undefined) return <p class="soft">none</p>;
  const text = JSON.stringify(value, null, 2) ?? "";
  const cut = text.length > CHARACTERS_MAX;
  const lines = (cut ? text.slice(0, CHARACTERS_MAX) : text).split("\n");
  const shown = lines.slice(0, linesMax.value);
  const left = lines.length - shown.length;
  return (
    <div class="code">
      <pre tabIndex={0} role="region" aria-label={label}>
        {withMarks(
          shown
            .map((line) =>
              line.length > WIDTH_MAX ? `${line.slice(0, WIDTH_MAX)} … (${count(line.length)} characters)` : line,
            )
            .join("\n"),
        )}
        {cut && left === 0 ? `\n… (${bytes(text.length)}; copy it to see the rest)` : ""}
      </pre>
      <button
        type="button"
        class="button small ghost code-copy"
        aria-label={`copy ${label}`}
        onClick={() => copyText(text)}
      >
        <Icon name="copy" />
      </button>
      {left > 0 && (
        <button
          type="button"
          class="button small more"
          onClick={() => {
            linesMax.value *= 10;
          }}
        >
          {count(left)} more lines
        </button>
      )}
    </div>
  );
}

/** Values that the server hides stand out: they are not what was submitted. */
function withMarks(text: string): ComponentChildren {
  const parts = text.split(HIDDEN);
  return parts.flatMap((part, at) => (at === 0 ? [part] : [<mark key={at}>hidden</mark>, part]));
}

/** Of `src/core/model/redact.ts`. */
const HIDDEN = '"[redacted]"';
const LINES = 40;
const WIDTH_MAX = 2_000;
const CHARACTERS_MAX = 500_000;

export type ReadJson =
  | { readonly kind: "ok"; readonly value: unknown }
  | { readonly kind: "bad"; readonly why: string };

/** A placeholder of a hidden value would be sent as if it were the value. */
export function readJson(text: string): ReadJson {
  try {
    const value: unknown = JSON.parse(text);
    if (text.includes("[redacted]")) return { kind: "bad", why: "replace each [redacted] with its value" };
    return { kind: "ok", value };
  } catch (error) {
    return { kind: "bad", why: (error as Error).message };
  }
}

interface JsonFieldProps {
  readonly label: string;
  readonly value: Signal<string>;
  readonly rows: number;
}

/** A field for JSON, with its first problem. */
export function JsonField({ label, value, rows }: JsonFieldProps) {
  const read = readJson(value.value);
  return (
    <label class="field">
      <span>{label}</span>
      <textarea
        class="mono"
        rows={rows}
        spellcheck={false}
        value={value.value}
        aria-invalid={read.kind === "bad"}
        onInput={(event) => {
          value.value = event.currentTarget.value;
        }}
      />
      <span class="tone-bad" role="status">
        {read.kind === "bad" ? read.why : ""}
      </span>
    </label>
  );
}
