/** A fact about the record on the page that must not be missed. */
import type { ComponentChildren } from "preact";
import type { Tone } from "./badge.tsx";

interface NoteProps {
  readonly tone?: Extract<Tone, "good" | "bad" | "warn">;
  readonly tools?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Note({ tone, tools, children }: NoteProps) {
  return (
    <div class={`note ${tone ?? ""}`} role="status">
      <p>{children}</p>
      {tools}
    </div>
  );
}
