/** States. The colour repeats the text: it never carries the meaning alone. */

export type Tone = "good" | "bad" | "warn" | "busy" | "wait" | "quiet";

const TONES: Readonly<Record<string, Tone>> = {
  SUCCEEDED: "good",
  FAILED: "bad",
  TIMEOUT: "bad",
  DENIED: "bad",
  CANCELLED: "quiet",
  SKIPPED: "quiet",
  RUNNING: "busy",
  DISPATCHED: "busy",
  ENDING: "busy",
  SCHEDULED: "wait",
  PENDING: "wait",
  PAUSED: "warn",
  RETRYING: "warn",
  WAITING: "wait",
  APPROVAL_REQUIRED: "warn",
  running: "busy",
  paused: "warn",
  proved: "good",
  promoted: "good",
  rolled_back: "bad",
  ended: "quiet",
};

export const toneOf = (state: string): Tone => TONES[state] ?? "quiet";

/** `APPROVAL_REQUIRED` is shown as `approval required`. */
export function StateBadge({ state }: { readonly state: string }) {
  return <Badge tone={toneOf(state)}>{state.toLowerCase().replaceAll("_", " ")}</Badge>;
}

export function Badge({ tone, children }: { readonly tone: Tone; readonly children: string }) {
  return (
    <span class={`badge ${tone}`}>
      <span class="dot" aria-hidden="true" />
      {children}
    </span>
  );
}
