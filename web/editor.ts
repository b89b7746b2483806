// The SQL editor. It is a part of its own, which is loaded with the first look at the SQL view.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { PostgreSQL, SQLDialect, sql } from "@codemirror/lang-sql";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Table } from "./api";

export interface Editor {
  setText(s: string): void;
  complete(tables: Table[], functions: string[]): void;
  insert(s: string): void; // where the cursor is
  point(at: number): void; // selects the word there
  close(): void;
}

const style = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--string)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
]);

export function make(
  parent: HTMLElement,
  text: string,
  label: string,
  changed: (s: string) => void,
  run: () => void,
): Editor {
  const language = new Compartment(),
    nonce = document.querySelector<HTMLMetaElement>("meta[name=nonce]")?.content ?? "";
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        syntaxHighlighting(style),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label }),
        // Tab leaves the editor: who has only a keyboard must get out of it
        keymap.of([
          {
            key: "Mod-Enter",
            run: () => {
              run();
              return true;
            },
          },
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...historyKeymap,
          ...completionKeymap,
        ]),
        language.of(sql({ dialect: PostgreSQL })),
        EditorView.updateListener.of((u) => u.docChanged && changed(u.state.doc.toString())),
      ],
    }),
  });
  return {
    setText(s) {
      if (s !== view.state.doc.toString())
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: s } });
    },
    insert(s) {
      view.dispatch(view.state.replaceSelection(s));
      view.focus();
    },
    point(at) {
      const word = view.state.wordAt(Math.min(at, view.state.doc.length));
      view.dispatch({ selection: { anchor: word?.from ?? at, head: word?.to ?? at }, scrollIntoView: true });
      view.focus();
    },
    complete(tables, functions) {
      const schema: Record<
        string,
        Record<string, { label: string; type: string; detail: string; info: string }[]>
      > = {};
      for (const x of tables) {
        (schema[x.Schema] ??= {})[x.Name] = x.Columns.map((c) => ({
          label: c.Name,
          type: "property",
          detail: c.Type,
          info: c.Doc,
        }));
      }
      const dialect = SQLDialect.define({ ...PostgreSQL.spec, builtin: functions.join(" ") });
      view.dispatch({ effects: language.reconfigure(sql({ dialect, schema })) });
    },
    close() {
      view.destroy();
    },
  };
}
