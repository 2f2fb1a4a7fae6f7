/** The editor of the draft. Its library is loaded with the first one. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { toError } from "../../data/session.ts";
import { Prose } from "../../kit/prose.tsx";
import { Failed, Loading } from "../../kit/state.tsx";
import type { Editor } from "./editor-core.ts";
import type { Problem } from "./problems.ts";

interface PolicyEditorProps {
  readonly text: string;
  readonly problems: readonly Problem[];
  readonly onChange: (text: string) => void;
}

export function PolicyEditor({ text, problems, onChange }: PolicyEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useSignal<Editor | null>(null);
  const failed = useSignal<unknown>(null);
  const latest = useRef({ text, onChange });
  latest.current = { text, onChange };
  useEffect(() => {
    let isClosed = false;
    let opened: Editor | null = null;
    import("./editor-core.ts").then(
      ({ openEditor }) => {
        if (isClosed || host.current === null) return;
        const onChange = (changed: string) => {
          // A text that was set from here is no change of the author.
          if (changed !== latest.current.text) latest.current.onChange(changed);
        };
        opened = openEditor(host.current, { text: latest.current.text, label: "policy draft", onChange });
        editor.value = opened;
      },
      (error) => {
        failed.value = error;
      },
    );
    return () => {
      isClosed = true;
      opened?.close();
    };
  }, [editor, failed]);
  useEffect(() => editor.value?.setText(text), [text, editor.value]);
  useEffect(() => editor.value?.showProblems(problems), [problems, editor.value]);
  if (failed.value !== null) return <Failed what="the editor" error={toError(failed.value)} />;
  return (
    <>
      {editor.value === null && <Loading what="the editor" />}
      <div class="policy-editor" ref={host} />
      {problems.length > 0 && <Problems problems={problems} goTo={(line) => editor.value?.goTo(line)} />}
    </>
  );
}

interface ProblemsProps {
  readonly problems: readonly Problem[];
  readonly goTo: (line: number) => void;
}

function Problems({ problems, goTo }: ProblemsProps) {
  return (
    <ul class="policy-problems" aria-label="problems">
      {problems.map(({ line, text }) => (
        <li key={`${line} ${text}`}>
          {line !== null && (
            <button type="button" class="link" onClick={() => goTo(line)}>
              Line {line}
            </button>
          )}{" "}
          <Prose text={text} />
        </li>
      ))}
    </ul>
  );
}
