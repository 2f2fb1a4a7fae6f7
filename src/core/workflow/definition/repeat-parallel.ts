/**
 * A `parallel` step with `for_each`: what it says of its list holds for each of its branches, as if it had been written there.
 * The step itself goes on to count branches, each of which has done its list or has not.
 */

import { isObject, type Json } from "./fields.ts";
import type { StepDraft } from "./step-draft.ts";

/** By the id of a branch, the step that repeats it. It is found before steps are read: `item` means something in a branch. */
export function repeatedBy(steps: Json): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [id, step] of Object.entries(steps)) {
    if (!isObject(step) || step.type !== "parallel" || !Object.hasOwn(step, "for_each")) continue;
    for (const branch of [step.branches].flat()) {
      if (typeof branch === "string" && branch !== id && !found.has(branch)) found.set(branch, id);
    }
  }
  return found;
}

export function handOnLists(drafts: readonly StepDraft[], by: ReadonlyMap<string, string>): readonly StepDraft[] {
  const lists = new Map(drafts.map(({ id, rest }) => [id, rest.forEach]));
  return drafts.map((draft) => {
    const around = by.get(draft.id);
    if (around === undefined && draft.act.type !== "parallel") return draft;
    const forEach = lists.get(around ?? "") ?? null;
    return { ...draft, rest: { ...draft.rest, forEach } };
  });
}
