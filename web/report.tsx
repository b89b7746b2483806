// The page of a report: one session, whose answers stand in the page itself.
import { render } from "preact";
import { useState } from "preact/hooks";
import { type About, get, of } from "./api";
import { hold } from "./held";
import { lang, setLang, t } from "./i18n";
import { Failed } from "./parts";
import { Session } from "./session";
import { here, link, usePlace } from "./state";
import { unpack } from "./unpack";

function Report({ id, version }: { id: string; version: string }) {
  const place = { ...usePlace(), id };
  const [, redraw] = useState(0);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(e) => {
          e.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        {t("skip")}
      </a>
      <header class="top">
        <strong class="brand">memgauge</strong>
        <span class="grow" />
        <select
          aria-label={t("language")}
          value={lang()}
          onChange={(e) => {
            setLang(e.currentTarget.value);
            redraw((n) => n + 1);
          }}
        >
          <option value="en" lang="en">
            English
          </option>
          <option value="zh-CN" lang="zh-CN">
            简体中文
          </option>
        </select>
      </header>
      <main id="main" tabIndex={-1} key={lang()}>
        <Session place={place} config={{ version, allow_eval: false, first: id, job: "" }} />
      </main>
      <footer>memgauge {version}</footer>
    </>
  );
}

async function show() {
  const root = document.getElementById("app")!;
  try {
    const data = await unpack();
    hold(data);
    const about = await get<About>(of("", "about"));
    if (!here().id) history.replaceState(null, "", link(about.id)); // what the views keep in the address goes behind it
    root.replaceChildren();
    render(<Report id={about.id} version={data.version} />, root);
  } catch (e) {
    root.append(document.createElement("p"));
    render(<Failed error={e as never} />, root.lastElementChild!);
  }
}

void show();
