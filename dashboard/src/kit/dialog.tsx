/** A modal dialog: focus stays inside, Escape closes it, and focus returns to where it was. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Icon } from "./icon.tsx";

export interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Buttons, the main one last. */
  readonly footer?: ComponentChildren;
  /** `drawer`: at the right edge, full height. */
  readonly kind?: "dialog" | "drawer" | "wide";
}

export function Dialog({ title, onClose, children, footer, kind = "dialog" }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes the dialog, the click is on its backdrop
    <dialog
      ref={element}
      class={`modal ${kind}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="modal-box">
        <header class="modal-head">
          <h2 id={id}>{title}</h2>
          <button type="button" class="button ghost icon-only" aria-label="close" onClick={onClose}>
            <Icon name="close" />
          </button>
        </header>
        <div class="modal-body">{children}</div>
        {footer !== undefined && <footer class="modal-foot">{footer}</footer>}
      </div>
    </dialog>
  );
}
