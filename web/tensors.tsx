// Who holds tensors: groups of a census, what they are compared with an older one, and what else grew.
import { useState } from "preact/hooks";
import { type Group, type Tensors as Answer, Trouble, get, of, post } from "./api";
import * as f from "./format";
import { held } from "./held";
import { t } from "./i18n";
import { Failed, Shown, Table, cell } from "./parts";
import { type Place, change, useLoad } from "./state";
import { Excerpt } from "./verdicts";

const ways: Record<string, (g: Group) => string> = {
  holder: (g) => g.holder ?? t("unknown"),
  site: (g) => g.site ?? t("unknown"),
  shape: (g) => `${g.shape} ${g.dtype} ${g.device}`,
  age: (g) => (g.oldest_step == null ? t("fresh") : t("older", f.count(g.oldest_step))),
};

interface Sum {
  key: string;
  bytes: number;
  before: number | null;
  count: number;
  sites: Set<string>;
}

function summed(groups: Group[], way: string): Sum[] {
  const by = new Map<string, Sum>();
  for (const g of groups) {
    const key = ways[way](g),
      s = by.get(key) ?? { key, bytes: 0, before: null, count: 0, sites: new Set<string>() };
    s.bytes += g.bytes;
    s.count += g.count;
    if (g.before != null) s.before = (s.before ?? 0) + g.before;
    if (g.site) s.sites.add(g.site);
    by.set(key, s);
  }
  return [...by.values()].sort((a, b) => b.bytes - a.bytes);
}

export function Tensors({ id, live, place }: { id: string; live: boolean; place: Place }) {
  const [asked, setAsked] = useState(() => ({
    pid: place.params.get("pid") ?? "",
    census: place.params.get("census") ?? "",
    before: place.params.get("before") ?? "",
  }));
  const [way, setWay] = useState(() => {
    const asked = place.params.get("group") ?? "";
    return asked in ways ? asked : "holder";
  });
  const [busy, setBusy] = useState(false),
    [error, setError] = useState<Trouble | null>(null);
  const answer = useLoad<Answer>((s) => get(of(id, "tensors?" + new URLSearchParams(asked)), s), [id, asked]);
  const pick = (values: Partial<typeof asked>) => {
    const next = { ...asked, ...values };
    setAsked(next);
    change(next);
  };
  const take = async () => {
    setBusy(true);
    setError(null);
    try {
      await post(of(id, "census"), {});
      pick({ pid: "", census: "", before: "" });
    } catch (e) {
      setError(e as Trouble);
    }
    setBusy(false);
  };
  return (
    <>
      <div class="bar">
        <h2>{t("tensors")}</h2>
        {live && !held && (
          <button onClick={take} disabled={busy}>
            {busy ? t("takingcensus") : t("censusnow")}
          </button>
        )}
      </div>
      {error && <Failed error={error} />}
      <Shown of={answer}>
        {(a) =>
          a.censuses.length === 0 ? (
            <p class="state">{t("nocensus")}</p>
          ) : (
            <>
              <Choose
                a={a}
                asked={asked}
                pick={pick}
                way={way}
                setWay={(w) => {
                  setWay(w);
                  change({ group: w });
                }}
              />
              <Groups id={id} list={summed(a.groups, ways[way] ? way : "holder")} way={way} />
              {a.objects.length > 0 && (
                <section aria-labelledby="objects">
                  <h2 id="objects">{t("objects")}</h2>
                  <Table
                    label={t("objects")}
                    head={[t("evidence"), t("type"), t("grew"), t("count"), t("holder"), t("site")]}
                    numeric={[2, 3]}
                    rows={a.objects
                      .filter((o) => o.delta || o.evidence !== "type")
                      .map((o) => [
                        o.evidence,
                        cell(<code class="text">{o.type}</code>, o.type),
                        cell(o.delta == null ? "" : (o.delta > 0 ? "+" : "") + f.count(o.delta), o.delta),
                        cell(f.count(o.length ?? o.count), o.length ?? o.count),
                        cell(<code class="text">{o.holder ?? ""}</code>, o.holder),
                        cell(<code class="text">{o.site ?? ""}</code>, o.site),
                      ])}
                  />
                </section>
              )}
            </>
          )
        }
      </Shown>
    </>
  );
}

function Choose({
  a,
  asked,
  pick,
  way,
  setWay,
}: {
  a: Answer;
  asked: { pid: string; census: string; before: string };
  way: string;
  setWay: (w: string) => void;
  pick: (v: { pid?: string; census?: string; before?: string }) => void;
}) {
  const pids = [...new Set(a.censuses.map((c) => c.pid))],
    pid = Number(asked.pid) || pids[0];
  const mine = a.censuses.filter((c) => c.pid === pid),
    now = Number(asked.census) || mine[0]?.census_id;
  const text = (c: (typeof mine)[number]) =>
    `${c.census_id}: ${c.step != null ? t("sStep", f.count(c.step)) : f.when(c.t)}, ${f.bytes(c.bytes)}`;
  return (
    <div class="controls">
      {pids.length > 1 && (
        <label>
          pid{" "}
          <select value={String(pid)} onChange={(e) => pick({ pid: e.currentTarget.value, census: "", before: "" })}>
            {pids.map((p) => (
              <option value={String(p)}>{p}</option>
            ))}
          </select>
        </label>
      )}
      <label>
        {t("census")}{" "}
        <select
          value={String(now)}
          onChange={(e) => pick({ census: e.currentTarget.value, pid: String(pid), before: "" })}
        >
          {mine.map((c) => (
            <option value={String(c.census_id)}>{text(c)}</option>
          ))}
        </select>
      </label>
      <label>
        {t("against")}{" "}
        <select
          value={asked.before || String(mine.find((c) => c.census_id < now)?.census_id ?? "")}
          onChange={(e) => pick({ before: e.currentTarget.value, census: String(now), pid: String(pid) })}
        >
          {mine
            .filter((c) => c.census_id < now)
            .map((c) => (
              <option value={String(c.census_id)}>{text(c)}</option>
            ))}
          {!mine.some((c) => c.census_id < now) && <option value="">–</option>}
        </select>
      </label>
      <label>
        {t("groupby")}{" "}
        <select value={way} onChange={(e) => setWay(e.currentTarget.value)}>
          {Object.keys(ways).map((w) => (
            <option value={w}>{t(w)}</option>
          ))}
        </select>
      </label>
    </div>
  );
}

function Groups({ id, list, way }: { id: string; list: Sum[]; way: string }) {
  const [site, setSite] = useState("");
  const most = Math.max(1, ...list.map((s) => Math.abs(s.bytes - (s.before ?? 0))));
  return (
    <>
      <Table
        label={t("tensors")}
        head={[t(way), t("bytes"), t("count"), t("growth"), t("site")]}
        numeric={[1, 2, 3]}
        rows={list.slice(0, 200).map((s) => [
          cell(<code class="text">{s.key}</code>, s.key),
          cell(f.bytes(s.bytes), s.bytes),
          cell(f.count(s.count), s.count),
          cell(<Growth by={s.bytes - (s.before ?? 0)} most={most} />, s.bytes - (s.before ?? 0)),
          <>
            {[...s.sites].slice(0, 2).map((x) => (
              <button class="link" onClick={() => setSite(site === x ? "" : x)}>
                <code>{x.split("/").pop()}</code>
              </button>
            ))}
          </>,
        ])}
      />
      {site && <Excerpt id={id} site={site} />}
    </>
  );
}

// Growth diverges from the middle: what was let go to the left, what came to the right.
function Growth({ by, most }: { by: number; most: number }) {
  const w = (50 * Math.abs(by)) / most;
  return (
    <span class="growth">
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect x={by < 0 ? 50 - w : 50} width={w} y="1" height="8" fill={by < 0 ? "#0072b2" : "#d55e00"} />
        <rect x="49.75" width="0.5" height="10" fill="currentColor" />
      </svg>
      <span>{by ? f.signed(by) : "0"}</span>
    </span>
  );
}
