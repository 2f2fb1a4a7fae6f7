/**
 * A button that sends one operation.
 *
 * 1. A role without the access does not see it.
 * 2. Its menu copies the same request as curl and as a command of the CLI.
 * 3. With `confirm` a dialog shows what will happen first, and can ask for a reason.
 */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { CordumError } from "../../../src/client/client-error.ts";
import type { OperationName } from "../../../src/client/operations.ts";
import type { Operations } from "../../../src/client/schema.ts";
import type { Arguments } from "../../../src/client/transport.ts";
import { asCli, asCurl, type Request } from "../data/equivalent.ts";
import { api, chosenTenant, may } from "../data/session.ts";
import { Dialog } from "./dialog.tsx";
import { Icon } from "./icon.tsx";
import { useShortcuts } from "./shortcuts.tsx";
import { notify, notifyError } from "./toast.tsx";

interface Shared {
  readonly label: string;
  /** One of the accesses of the role. */
  readonly needs: string;
  readonly tone?: "plain" | "main" | "danger";
  /** `small`: in the row of a table. */
  readonly size?: "small";
  readonly confirm?: Confirmation;
  readonly isDisabled?: boolean;
  /** Tooltip, and why it is disabled. */
  readonly title?: string;
  /** After an error, which is shown as a message. The dialog closes if it returns true: another attempt cannot help. */
  readonly onFailed?: (error: CordumError) => boolean;
  /** A key that does the same as the button: `a`. */
  readonly shortcut?: string;
}

export interface ActionProps<K extends OperationName> extends Shared {
  readonly send: K;
  readonly args: Arguments<K>;
  /** Command and arguments: `["job cancel", id]`. Null: the CLI has no command for it. */
  readonly cli: readonly [string, ...string[]] | null;
  /** What the command reads from its standard input. */
  readonly stdin?: string;
  /** Message after success. */
  readonly done?: string | ((response: Operations[K]["response"]) => string);
  readonly onDone?: (response: Operations[K]["response"]) => void;
}

export interface Confirmation {
  readonly title: string;
  readonly text: ComponentChildren;
  /** Asks for a text that is sent as this field of the body. */
  readonly reason?: { readonly field: string; readonly label: string; readonly isRequired?: boolean };
}

export function Action<K extends OperationName>(props: ActionProps<K>) {
  const { send, args, cli, stdin, done, onDone, label } = props;
  const { body, ...rest } = args as { body?: object };
  const run = async (extra: object) => {
    const isEmpty = body === undefined && Object.keys(extra).length === 0;
    const full = isEmpty ? rest : { ...rest, body: { ...body, ...extra } };
    const response = await api.peek().request(send, full as Arguments<K>);
    notify(typeof done === "function" ? done(response) : (done ?? `${label}: done`));
    onDone?.(response);
  };
  const request: Request = { name: send, ...(args as Omit<Request, "name">) };
  const curl = asCurl(request, location.origin, chosenTenant.value);
  const command = cli && asCli(cli[0], cli.slice(1), chosenTenant.value, stdin);
  return <ActionButton {...props} curl={curl} cli={command} run={run} />;
}

export interface ActionButtonProps extends Shared {
  readonly curl: string;
  readonly cli: string | null;
  /** Sends; what it throws is shown as a message. `extra`: the reason that was asked for. */
  readonly run: (extra: object) => Promise<void>;
}

/** The button alone, for actions that are more than one operation. */
export function ActionButton(props: ActionButtonProps) {
  const isAsked = useSignal(false);
  const isBusy = useSignal(false);
  const { label, tone = "plain", size = "", confirm, isDisabled = false, title, shortcut, curl, cli } = props;
  const button = useRef<HTMLButtonElement>(null);
  const keys = useMemo(() => {
    const run = () => button.current?.click();
    return shortcut === undefined || !may(props.needs) ? [] : [{ keys: shortcut, does: label.toLowerCase(), run }];
  }, [shortcut, label, props.needs]);
  useShortcuts(keys);
  if (!may(props.needs)) return null;
  const run = async (extra: object = {}) => {
    isBusy.value = true;
    const error = await props.run(extra).then(() => null, notifyError);
    isBusy.value = false;
    if (error === null || props.onFailed?.(error) === true) isAsked.value = false;
  };
  return (
    <span class="action">
      <button
        type="button"
        ref={button}
        class={`button ${tone} ${size}`}
        disabled={isDisabled || isBusy.value}
        title={title}
        aria-keyshortcuts={shortcut}
        onClick={() => {
          if (confirm === undefined) void run();
          else isAsked.value = true;
        }}
      >
        {isBusy.value ? `${label} …` : label}
        {shortcut !== undefined && (
          <span class="key" aria-hidden="true">
            {shortcut}
          </span>
        )}
      </button>
      <CopyMenu {...{ label, size, curl, cli }} />
      {isAsked.value && confirm !== undefined && (
        <ConfirmDialog
          {...{ confirm, label, tone }}
          isBusy={isBusy.value}
          onClose={() => {
            isAsked.value = false;
          }}
          onConfirm={run}
        />
      )}
    </span>
  );
}

interface ConfirmProps {
  readonly confirm: Confirmation;
  readonly label: string;
  readonly tone: string;
  readonly isBusy: boolean;
  readonly onClose: () => void;
  readonly onConfirm: (extra: object) => void;
}

function ConfirmDialog({ confirm, label, tone, isBusy, onClose, onConfirm }: ConfirmProps) {
  const reason = useSignal("");
  const asked = confirm.reason;
  const isMissing = asked?.isRequired === true && reason.value.trim() === "";
  const first = useRef<HTMLElement | null>(null);
  useEffect(() => first.current?.focus(), []);
  const send = () => {
    if (isBusy || isMissing) return;
    onConfirm(asked === undefined || reason.value.trim() === "" ? {} : { [asked.field]: reason.value.trim() });
  };
  return (
    <Dialog
      title={confirm.title}
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={onClose}>
            Back
          </button>
          <button
            type="button"
            ref={(element) => {
              if (asked === undefined) first.current = element;
            }}
            class={`button ${tone === "plain" ? "main" : tone}`}
            disabled={isBusy || isMissing}
            onClick={send}
          >
            {isBusy ? `${label} …` : label}
          </button>
        </>
      }
    >
      <div class="prose">{confirm.text}</div>
      {asked !== undefined && (
        <label class="field">
          <span>
            {asked.label}
            {asked.isRequired === true ? "" : " (optional)"}
          </span>
          <textarea
            ref={(element) => {
              first.current = element;
            }}
            rows={2}
            maxLength={500}
            title="Ctrl+Enter sends"
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
            }}
            value={reason.value}
            onInput={(event) => {
              reason.value = event.currentTarget.value;
            }}
          />
        </label>
      )}
    </Dialog>
  );
}

interface RequestMenuProps {
  readonly label: string;
  readonly request: Request;
  readonly cli: readonly [string, ...string[]] | null;
}

/** The copy menu of a button that is not an `Action`. */
export function RequestMenu({ label, request, cli }: RequestMenuProps) {
  const tenant = chosenTenant.value;
  const command = cli === null ? null : asCli(cli[0], cli.slice(1), tenant);
  return <CopyMenu label={label} curl={asCurl(request, location.origin, tenant)} cli={command} />;
}

interface CopyMenuProps {
  readonly label: string;
  readonly size?: string;
  readonly curl: string;
  readonly cli: string | null;
}

/** Copies a request as a command. */
export function CopyMenu({ label, size = "", curl, cli }: CopyMenuProps) {
  const details = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      const isInside = event.target instanceof Node && details.current?.contains(event.target) === true;
      if (details.current?.open === true && !isInside) details.current.open = false;
    };
    document.addEventListener("click", close);
    return () => document.removeEventListener("click", close);
  }, []);
  const copy = async (text: string) => {
    if (details.current !== null) details.current.open = false;
    await copyText(text);
  };
  return (
    <details
      class="menu"
      ref={details}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || details.current?.open !== true) return;
        event.stopPropagation();
        details.current.open = false;
        details.current.querySelector("summary")?.focus();
      }}
    >
      <summary class={`button ${size}`} aria-label={`copy “${label}” as a command`} title="copy as curl or CLI">
        <Icon name="chevron" />
      </summary>
      <div class="menu-box">
        <button type="button" onClick={() => copy(curl)}>
          Copy as curl
        </button>
        {cli !== null && (
          <button type="button" onClick={() => copy(cli)}>
            Copy as CLI
          </button>
        )}
      </div>
    </details>
  );
}

export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify("copied", text.length > 300 ? `${text.slice(0, 300)} …` : text);
  } catch {
    // Without a secure context the clipboard is not available: the text can be selected instead.
    prompt("Copy this text:", text);
  }
}
