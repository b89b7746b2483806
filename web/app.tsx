// The page: its frame, and which view is shown.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Config, get } from "./api";
import { lang, setLang, t } from "./i18n";
import { List } from "./list";
import { Busy, Failed } from "./parts";
import { Session } from "./session";
import { Drop } from "./drop";
import { Later } from "./later";
import { useLoad, usePlace } from "./state";

function App() {
  const place = usePlace();
  const config = useLoad<Config>((s) => get("config", s), []);
  const [, redraw] = useState(0);
  const shot = /^#\/f\/([^/?]+)/.exec(location.hash)?.[1];
  useEffect(() => {
    document.title = place.id ? `${place.id} · memgauge` : "memgauge";
  }, [place.id]);
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
        <a class="brand" href="#/">
          memgauge
        </a>
        {(place.id || shot || location.hash === "#/all") && (
          <a class="back" href="#/">
            {config.value?.job ? t("rJob", config.value.job) : t("all")}
          </a>
        )}
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
        {config.error ? (
          <Failed error={config.error} again={config.again} />
        ) : !config.value ? (
          <Busy />
        ) : shot ? (
          <Later key={shot} what={() => import("./snapshot").then((m) => m.Snapshot)} />
        ) : place.id ? (
          <Session key={place.id} place={place} config={config.value} />
        ) : config.value.job && location.hash !== "#/all" ? (
          <Later key="ranks" what={() => import("./ranks").then((m) => m.Ranks)} />
        ) : (
          <List />
        )}
        {config.value && <Drop />}
      </main>
      <footer>memgauge {config.value?.version}</footer>
    </>
  );
}

const root = document.getElementById("app")!;
root.replaceChildren();
render(<App />, root);
