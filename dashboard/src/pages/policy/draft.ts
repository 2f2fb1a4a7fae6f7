/**
 * The draft of the policy: its text, kept for this window across reloads, and what the control plane says about it.
 *
 * 1. The text is checked by comparing it with the policy in force: problems come with their line, and without problems the
 *    answer is the difference.
 */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { CordumError } from "../../../../src/client/client-error.ts";
import type { PolicyDiff } from "../../../../src/client/schema.ts";
import { api, toError } from "../../data/session.ts";
import { type Problem, problemsOf } from "./problems.ts";

export interface Draft {
  readonly text: string;
  /** The snapshot that was in force when the draft was begun. */
  readonly base: string;
}

export type Checked =
  | { readonly kind: "checking" }
  | { readonly kind: "valid"; readonly text: string; readonly diff: PolicyDiff }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] }
  | { readonly kind: "failed"; readonly error: CordumError };

/** Of the entry in the storage of the window; read with the module. */
const NAME = "policy draft";

export const draft = signal<Draft | null>(stored());
/** The draft that was discarded last, until another one is begun. */
export const discarded = signal<Draft | null>(null);
export const checked = signal<Checked>({ kind: "checking" });

export function discardDraft(): void {
  discarded.value = draft.peek();
  setDraft(null);
}

export function setDraft(next: Draft | null): void {
  if (next !== null) discarded.value = null;
  draft.value = next;
  try {
    if (next === null) sessionStorage.removeItem(NAME);
    else sessionStorage.setItem(NAME, JSON.stringify(next));
  } catch {
    // Too large to be kept across a reload: it stays in this page.
  }
}

/** Checks the text shortly after its last change, and after a change of the policy in force. */
export function useCheck(text: string, snapshot: string): void {
  useEffect(() => {
    const closing = new AbortController();
    checked.value = { kind: "checking" };
    const timer = setTimeout(() => void check(text, closing.signal), TYPING_MS);
    return () => {
      clearTimeout(timer);
      closing.abort();
    };
  }, [text, snapshot]);
}

async function check(text: string, abort: AbortSignal): Promise<void> {
  const answer = await api
    .peek()
    .policy.diff({ policy: text }, { signal: abort })
    .then((diff): Checked => ({ kind: "valid", text, diff }), failure);
  if (!abort.aborted) checked.value = answer;
}

function failure(thrown: unknown): Checked {
  const error = toError(thrown);
  return error.code === "invalid_policy"
    ? { kind: "invalid", problems: problemsOf(error.problem.problems) }
    : { kind: "failed", error };
}

function stored(): Draft | null {
  return JSON.parse(sessionStorage.getItem(NAME) ?? "null") as Draft | null;
}

const TYPING_MS = 400;
