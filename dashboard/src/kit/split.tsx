/** A list beside the record that is chosen in it by a parameter of the address. On narrow screens one of the two. */
import type { ComponentChildren } from "preact";
import { hrefWith, param } from "../data/location.ts";

interface SplitProps {
  /** Parameter of the chosen record. */
  readonly name: string;
  readonly what: string;
  readonly list: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Split({ name, what, list, children }: SplitProps) {
  return (
    <div class={param(name) === "" ? "split" : "split is-chosen"}>
      {list}
      <div class="split-detail">
        <a class="split-back" href={hrefWith({ [name]: null })}>
          All {what}
        </a>
        {children}
      </div>
    </div>
  );
}
