// The parts of CodeMirror that the pages' editors use; esbuild makes one module of it when the book is built.
export { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { python } from "@codemirror/lang-python";
export { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
export { EditorState, Prec } from "@codemirror/state";
export { EditorView, drawSelection, highlightSpecialChars, keymap } from "@codemirror/view";
export { tags } from "@lezer/highlight";
