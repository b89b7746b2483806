package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestWebSQL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if r := w.do("memgauge", "run", "--quiet", "--name", "q", "--", "python3", "-c", "pass"); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	url := w.served("q", "web")
	b := w.browse(url, "en-US")
	b.shows("h1", "q")
	ask := func(sql string) {
		t.Helper()
		b.open("#/")
		b.shows("h1", "Sessions")
		b.open("#/s/" + regexp.MustCompile(`/s/([^/?]+)$`).FindStringSubmatch(url)[1] + "/sql?q=" +
			strings.NewReplacer(" ", "%20", "<", "%3C", ">", "%3E", "+", "%2B").Replace(sql))
		b.until("the editor", "!!document.querySelector('.cm-content')")
	}
	ask("SELECT 9223372036854775807 AS n, NULL AS x, '<b>k</b>' AS s")
	b.shows(".row", "9223372036854775807")
	b.shows(".row .null", "NULL")
	b.shows(".row", "<b>k</b>")
	ask("SELECT range AS n, range * 2 AS m FROM range(1000000)")
	b.until("a million rows", "document.querySelector('.rows [aria-rowcount]')?.ariaRowCount === '1000001'")
	run[string](b, "document.querySelector('.rows').scrollTop = 1e9, ''")
	b.shows(".row", "999999")
	if n := run[int](b, "document.querySelectorAll('.row').length"); n > 200 {
		t.Errorf("%d rows are in the page", n)
	}
	b.accessible("the answer")
	ask("SELECT range AS n, range * 2 AS m FROM range(10)")
	b.shows(".row", "18")
	run[string](b, "[...document.querySelectorAll('button')].find((e) => e.innerText === 'Chart').click(), ''")
	b.until("a chart", "!!document.querySelector('.chart canvas')")
	b.clean(url)
	// what is typed over a selection Chromium gives a style of its own, which the page's policy blocks and tells
	ask("SELECT 1 AS first")
	b.shows(".row", "first")
	b.typed("SELECT 4242 AS typed, 'it is there' AS whole")
	b.until("what was asked before", "document.querySelector('.asked option:nth-child(2)')?.innerText.includes('4242')")
	ask("SELECT range AS n, CASE WHEN range % 2 THEN 9007199254740991 - range END AS held_bytes FROM range(400)")
	b.shows(".rowhead", "held_bytes")
	run[string](b, "[...document.querySelectorAll('button')].find((e) => e.innerText === 'Chart')?.click(), ''")
	b.until("a chart in bytes", "!!document.querySelector('.chart .u-legend')")
	ask("SELECT 1 AS one,%0A  wrng FROM memgauge.events")
	b.shows(".state.bad pre", "^")
	b.until("the place of the mistake", "String(getSelection()) === 'wrng'")
	b.tree()
	ask("DROP TABLE memgauge.events")
	b.shows(".state.bad", "DROP")
}

// tree opens a table among the schemas, and writes a column's name into the statement.
func (b *browser) tree() {
	b.t.Helper()
	run[string](b, `document.querySelectorAll(".tree, .tree details").forEach((e) => { e.open = true }), ""`)
	b.shows(".tree > .schema > summary", "python")
	const name = `[...document.querySelectorAll(".tree dt button")].find((e) => e.textContent === "heap_in_use")`
	b.until("a column", "!!"+name)
	run[string](b, name+`.click(), ""`)
	b.until("the name in the statement", "document.querySelector('.cm-content').innerText.includes('heap_in_use')")
}

// typed writes a statement faster than the page draws, and runs it: the editor has what was typed, and its answer
// comes.
func (b *browser) typed(sql string) {
	b.t.Helper()
	run[string](b, "document.querySelector('.cm-content').focus(), ''")
	b.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.key(sql)
	b.until("what was typed", fmt.Sprintf("document.querySelector('.cm-content').innerText.trim() === %q", sql))
	b.do(chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.shows(".row", "4242")
}
