/** Filters. Their only state is the address (L49): `?state=FAILED&topic=demo.echo`. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { param, setParams } from "../data/location.ts";

export function Filters({
  names,
  children,
}: {
  readonly names: readonly string[];
  readonly children: ComponentChildren;
}) {
  const isFiltered = names.some((name) => param(name) !== "");
  return (
    <div class="filters" role="search">
      {children}
      {isFiltered && (
        <button
          type="button"
          class="button ghost"
          onClick={() => setParams(Object.fromEntries(names.map((name) => [name, null])))}
        >
          Clear filters
        </button>
      )}
    </div>
  );
}

interface SelectProps {
  readonly name: string;
  readonly label: string;
  /** Values, or pairs of value and text. */
  readonly options: readonly (string | readonly [string, string])[];
  readonly all?: string;
}

export function SelectFilter({ name, label, options, all = "all" }: SelectProps) {
  const id = useId();
  const chosen = param(name);
  const pairs = options.map((option) =>
    typeof option === "string" ? ([option, option.toLowerCase().replaceAll("_", " ")] as const) : option,
  );
  const isKnown = chosen === "" || pairs.some(([value]) => value === chosen);
  return (
    <div class="filter">
      <label for={id}>{label}</label>
      <select id={id} value={chosen} onChange={(event) => setParams({ [name]: event.currentTarget.value })}>
        <option value="">{all}</option>
        {!isKnown && <option value={chosen}>{chosen}</option>}
        {pairs.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

interface TextProps {
  readonly name: string;
  readonly label: string;
  readonly placeholder?: string;
  /** Offered as completions. */
  readonly suggestions?: readonly string[];
}

/** Applied on Enter, on leaving the field, and shortly after the last key. */
export function TextFilter({ name, label, placeholder, suggestions = [] }: TextProps) {
  const id = useId();
  const timer = useRef(0);
  const input = useRef<HTMLInputElement>(null);
  const value = param(name);
  const apply = (text: string, replace: boolean) => {
    clearTimeout(timer.current);
    if (text.trim() !== param(name)) setParams({ [name]: text.trim() }, { replace });
  };
  useEffect(() => {
    if (input.current !== null && document.activeElement !== input.current) input.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <div class="filter">
      <label for={id}>{label}</label>
      <input
        id={id}
        ref={input}
        type="search"
        defaultValue={value}
        placeholder={placeholder}
        list={suggestions.length > 0 ? `${id}-list` : undefined}
        autoComplete="off"
        spellcheck={false}
        onInput={(event) => {
          const text = event.currentTarget.value;
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => apply(text, true), TYPING_MS);
        }}
        onChange={(event) => apply(event.currentTarget.value, false)}
      />
      {suggestions.length > 0 && (
        <datalist id={`${id}-list`}>
          {suggestions.map((suggestion) => (
            <option key={suggestion} value={suggestion} />
          ))}
        </datalist>
      )}
    </div>
  );
}

const TYPING_MS = 250;
