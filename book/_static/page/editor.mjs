// A code cell's editor. It lives in a shadow root, where CodeMirror's styles need no leave of the page's
// Content-Security-Policy: there they are adopted sheets, not elements.
import {
  EditorState, EditorView, HighlightStyle, Prec, bracketMatching, closeBrackets, closeBracketsKeymap, defaultKeymap, drawSelection,
  highlightSpecialChars, history, historyKeymap, indentOnInput, indentUnit, indentWithTab, keymap, python, syntaxHighlighting, tags,
} from "./codemirror.mjs";

const colour = (name) => `var(--kv-code-${name})`;

const marks = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword, tags.moduleKeyword], color: colour("keyword") },
  { tag: [tags.string, tags.special(tags.string)], color: colour("string") },
  { tag: [tags.number, tags.bool, tags.null], color: colour("number") },
  { tag: [tags.comment, tags.docComment], color: colour("comment") },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className), tags.className], color: colour("name") },
]);

// The same lines at the same places as in the text that stood there before, so that nothing moves.
const look = EditorView.theme({
  "&": { color: "var(--kv-code-ink)", backgroundColor: "transparent", fontSize: "inherit" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "inherit", lineHeight: "inherit", overflowX: "auto" },
  ".cm-content": { padding: "1rem 0", caretColor: "var(--kv-code-ink)" },
  ".cm-line": { padding: "0 1rem" },
  ".cm-cursor": { borderLeftColor: "var(--kv-code-ink)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--kv-code-selected)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "transparent", outline: "1px solid currentColor" },
});

// {view, set(text)} in `host`. changed(text) is called after every edit, run() on Ctrl/⌘+Enter.
export function edit(host, text, { label, described, changed, run }) {
  const root = host.attachShadow({ mode: "open" });
  const pressed = () => { run(); return true; };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        Prec.highest(keymap.of([{ key: "Mod-Enter", run: pressed }, { key: "Shift-Enter", run: pressed }])),
        highlightSpecialChars(), history(), drawSelection(), indentUnit.of("    "), EditorState.tabSize.of(4),
        python(), syntaxHighlighting(marks), indentOnInput(), bracketMatching(), closeBrackets(),
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-description": described, tabindex: "0", autocapitalize: "off", autocorrect: "off", spellcheck: "false" }),
        EditorView.updateListener.of((update) => { if (update.docChanged) changed(view.state.doc.toString()); }),
        look,
      ],
    }),
  });
  return { view, set: (words) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: words } }) };
}
