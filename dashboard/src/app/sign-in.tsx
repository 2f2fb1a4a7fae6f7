/** Before sign-in nothing of the control plane is shown, not even zeros (L57). */
import { useSignal } from "@preact/signals";
import type { CordumError } from "../../../src/client/client-error.ts";
import { openSession, session, signIn } from "../data/session.ts";
import { Icon } from "../kit/icon.tsx";
import { Prose } from "../kit/prose.tsx";
import { Logo } from "./logo.tsx";

export function SignIn() {
  const key = useSignal("");
  const isBusy = useSignal(false);
  const state = session.value;
  const submit = async (event: Event) => {
    event.preventDefault();
    const text = key.value.trim();
    if (text === "") return;
    key.value = "";
    isBusy.value = true;
    await signIn(text);
    isBusy.value = false;
  };
  const error = state.kind === "signed_out" || state.kind === "unreachable" ? state.error : null;
  return (
    <main class="sign-in">
      <form class="sign-in-box" onSubmit={submit}>
        <Logo />
        <h1>Sign in</h1>
        <p class="soft">
          Enter an API key. It is exchanged for a session of this browser and is not stored here. The first key comes
          from <code>cordum key create --tenant '*' --role admin</code>.
        </p>
        <label class="field">
          <span>API key</span>
          <input
            type="password"
            name="key"
            autoComplete="current-password"
            placeholder="cordum_…"
            spellcheck={false}
            value={key.value}
            aria-invalid={error !== null}
            aria-describedby={error === null ? undefined : "sign-in-error"}
            onInput={(event) => {
              key.value = event.currentTarget.value;
            }}
          />
        </label>
        {error !== null && <Refused error={error} />}
        <div class="sign-in-foot">
          {state.kind === "unreachable" && (
            <button type="button" class="button" onClick={() => void openSession()}>
              Try again
            </button>
          )}
          <button type="submit" class="button main" disabled={isBusy.value}>
            {isBusy.value ? "Signing in …" : "Sign in"}
          </button>
        </div>
      </form>
    </main>
  );
}

function Refused({ error }: { readonly error: CordumError }) {
  return (
    <div class="state failed" role="alert" id="sign-in-error">
      <Icon name="alert" />
      <div>
        <p class="state-title">{error.title}</p>
        <p>
          <Prose text={error.detail} />
        </p>
      </div>
    </div>
  );
}
