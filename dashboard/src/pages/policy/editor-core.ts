/** CodeMirror, in a shadow tree: there its styles are style sheet objects, which the content security policy allows. */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  MatchDecorator,
  ViewPlugin,
  WidgetType,
} from "@codemirror/view";
import type { Problem } from "./problems.ts";

export interface Editor {
  setText(text: string): void;
  showProblems(problems: readonly Problem[]): void;
  /** Moves the cursor to a line, from 1, and the focus to the editor. */
  goTo(line: number): void;
  close(): void;
}

interface EditorOptions {
  readonly text: string;
  readonly label: string;
  readonly onChange: (text: string) => void;
}

export function openEditor(host: HTMLElement, { text, label, onChange }: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const changes = EditorView.updateListener.of(({ docChanged, state }) => {
    if (docChanged) onChange(state.doc.toString());
  });
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({ doc: text, extensions: [...EXTENSIONS, changes, named(label)] }),
  });
  return {
    setText(next) {
      if (next !== view.state.doc.toString())
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
    },
    showProblems: (problems) => view.dispatch({ effects: setProblems.of(problems) }),
    goTo(line) {
      const { from } = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
    close: () => view.destroy(),
  };
}

const named = (label: string): Extension =>
  EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", spellcheck: "false", autocapitalize: "off" });

const setProblems = StateEffect.define<readonly Problem[]>();

/** Below its line, so that it is read without a pointer. */
class ProblemWidget extends WidgetType {
  readonly #text: string;

  constructor(text: string) {
    super();
    this.#text = text;
  }

  override eq(other: WidgetType): boolean {
    return other instanceof ProblemWidget && other.#text === this.#text;
  }

  toDOM(): HTMLElement {
    const element = document.createElement("div");
    element.className = "cm-problem";
    element.textContent = this.#text;
    return element;
  }
}

const problems = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(shown, { changes, effects, state }) {
    const set = effects.find((effect) => effect.is(setProblems));
    if (set === undefined) return shown.map(changes);
    const ranges = (set.value as readonly Problem[]).flatMap(({ line, text }) => {
      if (line === null || line > state.doc.lines) return [];
      const { from, to } = state.doc.line(line);
      const widget = Decoration.widget({ widget: new ProblemWidget(text), side: 1, block: true });
      return [Decoration.line({ class: "cm-wrong" }).range(from), widget.range(to)];
    });
    return Decoration.set(ranges, true);
  },
  provide: (field) => EditorView.decorations.from(field),
});

const TOKENS = ["comment", "string", "key", "decision"] as const;
const MARKS = Object.fromEntries(TOKENS.map((name) => [name, Decoration.mark({ class: `cm-${name}` })]));

/** Colours, not a parser: the control plane reads the text. */
const tokens = new MatchDecorator({
  regexp:
    /(?<comment>(?:^|(?<=\s))#.*)|(?<string>"(?:[^"\\]|\\.)*"|'[^']*')|(?<key>[\w.-]+)(?=:(?:\s|$))|(?<decision>(?<=decision:\s*)\w+)/g,
  decoration: ({ groups = {} }) => {
    const name = TOKENS.find((token) => groups[token] !== undefined);
    return name === undefined ? null : (MARKS[name] ?? null);
  },
});

const highlighting = ViewPlugin.define(
  (view) => ({
    decorations: tokens.createDeco(view),
    update(update) {
      this.decorations = tokens.updateDeco(update, this.decorations);
    },
  }),
  { decorations: ({ decorations }) => decorations },
);

/**
 * Text that replaces a selection. The browser would keep the colour of what is replaced in a style attribute, which the
 * content security policy refuses.
 */
const replacing = EditorView.domEventHandlers({
  beforeinput({ inputType, data }, view) {
    if (inputType !== "insertText" || data === null || view.composing || view.state.selection.main.empty) return false;
    view.dispatch({ ...view.state.replaceSelection(data), userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

/** The variables of `styles/tokens.css` reach into the shadow tree and follow the theme. */
const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", maxHeight: "62vh", fontSize: "12.5px" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--accent-soft)",
  },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--text-soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "transparent", boxShadow: "inset 2px 0 var(--accent)" },
  ".cm-comment": { color: "var(--text-soft)", fontStyle: "italic" },
  ".cm-string": { color: "var(--good)" },
  ".cm-key": { color: "var(--accent)" },
  ".cm-decision": { color: "var(--wait)", fontWeight: "600" },
  ".cm-wrong": { backgroundColor: "var(--bad-soft)" },
  ".cm-problem": {
    ...{ backgroundColor: "var(--bad-soft)", color: "var(--bad)", borderLeft: "3px solid var(--bad)" },
    ...{ padding: "2px 10px", fontFamily: "var(--font)", whiteSpace: "pre-wrap" },
  },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-textfield, .cm-button": {
    ...{ backgroundColor: "var(--surface)", backgroundImage: "none", color: "var(--text)" },
    border: "1px solid var(--line-strong)",
  },
  ".cm-searchMatch": { backgroundColor: "var(--warn-soft)", outline: "1px solid var(--warn)" },
});

const EXTENSIONS: readonly Extension[] = [
  ...[lineNumbers(), history(), drawSelection(), highlightActiveLine(), EditorView.lineWrapping],
  ...[replacing, highlighting, problems, theme, search({ top: true }), EditorState.tabSize.of(2)],
  // Without a binding for Tab, which moves the focus on.
  keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
];
