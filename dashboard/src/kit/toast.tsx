/** Messages about actions. Errors stay until they are closed; they show title, detail and next step of the problem. */
import { signal } from "@preact/signals";
import type { CordumError } from "../../../src/client/client-error.ts";
import { toError } from "../data/session.ts";
import { Icon } from "./icon.tsx";
import { Prose } from "./prose.tsx";

interface Toast {
  readonly id: number;
  readonly tone: "good" | "bad";
  readonly title: string;
  readonly detail: string;
  readonly requestId: string | null;
}

const toasts = signal<readonly Toast[]>([]);
let nextId = 1;

export function notify(title: string, detail = ""): void {
  const id = add({ tone: "good", title, detail, requestId: null });
  setTimeout(() => close(id), SHOWN_MS);
}

export function notifyError(thrown: unknown): CordumError {
  const error = toError(thrown);
  add({ tone: "bad", title: error.title, detail: error.detail, requestId: error.requestId });
  return error;
}

function add(toast: Omit<Toast, "id">): number {
  const id = nextId++;
  toasts.value = [...toasts.value, { ...toast, id }].slice(-SHOWN_MAX);
  return id;
}

function close(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="region" aria-label="messages" aria-live="polite">
      {toasts.value.map(({ id, tone, title, detail, requestId }) => (
        <div key={id} class={`toast ${tone}`} role={tone === "bad" ? "alert" : "status"}>
          <Icon name={tone === "bad" ? "alert" : "check"} />
          <div>
            <p class="toast-title">{title}</p>
            {detail !== "" && (
              <p>
                <Prose text={detail} />
              </p>
            )}
            {requestId !== null && <p class="soft mono">request {requestId}</p>}
          </div>
          <button type="button" class="button ghost icon-only" aria-label="close message" onClick={() => close(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}

const SHOWN_MS = 6_000;
const SHOWN_MAX = 4;
