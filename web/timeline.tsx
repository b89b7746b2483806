// The page of one snapshot, whose answers stand in the page itself.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type HeldShot, holdShot } from "./held";
import { lang, setLang, t } from "./i18n";
import { Failed } from "./parts";
import { Snapshot } from "./snapshot";
import { unpack } from "./unpack";

function Timeline({ version }: { version: string }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const go = () => redraw((n) => n + 1);
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
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
        <Snapshot />
      </main>
      <footer>memgauge {version}</footer>
    </>
  );
}

async function show() {
  const root = document.getElementById("app")!;
  try {
    const data = (await unpack()) as HeldShot;
    holdShot(data);
    if (!location.hash) history.replaceState(null, "", "#/f/1/time");
    root.replaceChildren();
    render(<Timeline version={data.version} />, root);
  } catch (e) {
    root.append(document.createElement("p"));
    render(<Failed error={e as never} />, root.lastElementChild!);
  }
}

void show();
