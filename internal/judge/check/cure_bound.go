package check

import (
	"slices"
	"strconv"
	"strings"
)

// Bounds for containers that nothing empties.

// limit is how many items a container should keep.
type limit struct {
	text string // a number, or what the text calls it
	look string // "" where nothing reads older items
}

// grown are the places that add to the leak's holder: those on its line, else those that name it.
func (c *curing) grown() (list []growth) {
	named := func(g growth) bool { return c.holds(c.plain(root(g.into))) }
	own := func(g growth) bool { return !g.by }
	for _, want := range []func(growth) bool{
		func(g growth) bool { return own(g) && c.onLine(g.at) && named(g) },
		func(g growth) bool { return own(g) && named(g) },
		func(g growth) bool { return own(g) && c.onLine(g.at) },
	} {
		for _, g := range c.growths() {
			if want(g) {
				list = append(list, g)
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// root is the container that is added to, without keys: activations of activations[name].
func root(n node) node {
	for n = n.bare(); n.is("subscript"); n = n.field("value").bare() {
		n.t.spend(1)
	}
	return n
}

// bound gives a list, a deque, a dict or a set a bound.
func (c *curing) bound() {
	list := c.grown()
	if len(list) == 0 {
		return
	}
	first := list[0]
	h, known := c.holderOf(first.into)
	kind := c.kindOfHolder(h, first)
	l := c.limitFor(h, first, kind)
	if kind == "deque" && known && c.sizeDeque(h, first, l) {
		return
	}
	var edits []Edit
	for _, g := range list {
		if g.into.text() != first.into.text() {
			continue
		}
		edits = append(edits, c.copied(g)...)
		more := c.cut(h, g, kind, l)
		if more == nil {
			return
		}
		edits = append(edits, more...)
	}
	what := "keep the newest " + l.text + " items of " + first.into.text()
	switch kind {
	case "dict":
		what = "keep the newest " + l.text + " entries of " + first.into.text()
	case "set":
		what = "keep " + l.text + " items of " + first.into.text()
	}
	c.propose(first.at, what, l.look, edits...)
}

// kindOfHolder is what a container is: list, deque, dict or set; "" where nothing tells.
func (c *curing) kindOfHolder(h holder, g growth) string {
	if g.into.bare().is("subscript") && g.at.is("call") { // activations[name].append(…)
		return "list"
	}
	for _, b := range h.made {
		v := b.value.bare()
		switch {
		case v.is("list", "list_comprehension"):
			return "list"
		case v.is("dictionary", "dictionary_comprehension"):
			return "dict"
		case v.is("set"):
			return "set"
		case v.is("call"):
			switch name := last(c.dotted(v.field("function"))); name {
			case "list", "deque", "dict", "set":
				return name
			case "defaultdict", "OrderedDict", "Counter":
				return "dict"
			}
		}
	}
	switch kind := c.held(); kind {
	case "list", "deque", "dict", "set":
		return kind
	}
	switch {
	case g.at.is("assignment"):
		return "dict"
	case g.at.is("augmented_assignment") || g.at.is("call") && last(c.dotted(g.at.field("function"))) == "append":
		return "list"
	}
	return ""
}

// cut is the edit that takes out what is too much behind a place that adds.
func (c *curing) cut(h holder, g growth, kind string, l limit) []Edit {
	into := g.into.bare()
	if !plainName(into) || g.at.parent().is("lambda") {
		return nil
	}
	x := into.text()
	switch kind {
	case "list":
		for _, s := range c.byName["sort"] { // what is sorted keeps its first, not its newest
			if s.receiver().text() == x && s.start() > g.at.start() && c.sameFunction(s.node, g.at) {
				return c.behind(s.node, "del "+x+"["+l.text+":]")
			}
		}
		drop := "del " + x + "[:-" + l.text + "]"
		if e := c.behind(g.at, drop); e != nil {
			return e
		}
		return []Edit{{g.at.end(), g.at.end(), "; " + drop}}
	case "deque":
		return c.behind(g.at, "while len("+x+") > "+l.text+":", "\t"+x+".popleft()")
	case "dict":
		return c.behind(g.at, "if len("+x+") > "+l.text+":", "\tdel "+x+"[next(iter("+x+"))]  # the oldest")
	case "set":
		return c.behind(g.at, "if len("+x+") > "+l.text+":", "\t"+x+".pop()")
	}
	return nil
}

// copied copies a part of something larger before it is kept, where the run has shown that parts are kept.
func (c *curing) copied(g growth) (edits []Edit) {
	if !c.leak.Views {
		return nil
	}
	how := ".clone()"
	if c.leak.Class == "retained_objects" {
		how = ".copy()"
	}
	parts := []node{g.value.bare()}
	if parts[0].is("tuple", "list") {
		parts = parts[0].children()
	}
	for _, p := range parts {
		if p = p.bare(); p.is("subscript") {
			edits = append(edits, Edit{p.end(), p.end(), how})
		}
	}
	return edits
}

// sizeDeque gives a deque its maxlen where it is made.
func (c *curing) sizeDeque(h holder, g growth, l limit) bool {
	var edits []Edit
	for _, b := range h.made {
		v := call{b.value.bare(), ""}
		if !v.is("call") || last(c.dotted(v.field("function"))) != "deque" {
			continue
		}
		if v.keyword("maxlen").ok() || len(v.args()) > 1 || v.spread() {
			return false
		}
		size := l.text
		if _, err := strconv.Atoi(size); err != nil {
			if size = last(size); !c.function(v.node).isParam[size] {
				return false
			}
		}
		args := v.field("arguments")
		sep := ""
		if len(v.args()) == 1 {
			sep = ", "
		}
		edits = append(edits, Edit{args.end() - 1, args.end() - 1, sep + "maxlen=" + size})
	}
	if len(edits) == 0 {
		return false
	}
	n := len(c.list)
	c.propose(g.at, "give "+h.name+" a maxlen: the oldest item goes when a new one comes", l.look, edits...)
	return len(c.list) > n
}

// limitFor is how many items a container should keep: as many as are read of its end, the capacity that its class has
// been given, else a tenth of what it came to.
func (c *curing) limitFor(h holder, g growth, kind string) limit {
	r := c.reads(h, g)
	elsewhere := ""
	if !c.leak.Script {
		elsewhere = "whether other files read older items"
	}
	switch {
	case r.tail != "" && !r.whole && (kind == "list" || kind == "deque"):
		if r.unsure != "" {
			return limit{r.tail, r.unsure}
		}
		return limit{r.tail, elsewhere}
	case c.capacity(h, g) != "":
		return limit{c.capacity(h, g), "whether anything needs older items than that"}
	case !r.whole && r.tail == "" && r.unsure == "":
		return limit{strconv.FormatInt(c.tenth(), 10),
			"whether it is needed at all: nothing in this file reads it; the number is a tenth of what it came to"}
	}
	return limit{strconv.FormatInt(c.tenth(), 10), "how many are needed: the number is a tenth of what it came to, " +
		"and " +
		"older ones are read no more"}
}

// capacities are the names that classes give to how many items they keep.
var capacities = []string{"capacity", "maxlen", "max_len", "max_size", "maxsize", "limit", "max_items", "max_entries",
	"buffer_size", "memory_size", "queue_size", "cache_size", "window", "size"}

// capacity is the attribute beside a container that says how many items it keeps; "" for none.
func (c *curing) capacity(h holder, g growth) string {
	k := c.classAt(g.at)
	if !h.attr || k == nil || !strings.HasPrefix(c.plain(root(g.into)), "self.") {
		return ""
	}
	for _, name := range capacities {
		made := c.attrsOf(k, "self."+name)
		if len(made) != 1 || !made[0].value.ok() {
			continue
		}
		v := made[0].value.bare()
		if v.is("integer") && v.text() != "0" || v.is("identifier") && c.function(v).isParam[v.text()] {
			return "self." + name
		}
	}
	return ""
}

// reading is what a text reads of a container.
type reading struct {
	tail   string // so many of its end: a number or a name; "" none
	unsure string // why others may be needed, too
	whole  bool
}

// reads looks at each place that names a container.
func (c *curing) reads(h holder, g growth) (r reading) {
	most := 0
	for _, n := range c.uses(h) {
		if n.inside(g.into) || slices.ContainsFunc(h.made, func(b binding) bool { return n.inside(b.target) }) ||
			c.index.into[n.i] {
			continue
		}
		for keys := g.into.bare(); keys.is("subscript") && n.parent().is("subscript"); {
			n, keys = n.parent(), keys.field("value").bare() // one item of it is read
		}
		p := n.parent()
		switch {
		case c.index.into[n.i]:
		case p.is("if_statement", "while_statement", "not_operator", "boolean_operator"): // whether there is any
		case p.is("argument_list") && c.dotted(p.parent().field("function")) == "len":
			r.unsure = "what its length is used for"
		case p.is("subscript") && p.field("value").i == n.i && c.tailOf(p, g) != "":
			text := c.tailOf(p, g)
			k, err := strconv.Atoi(text)
			switch {
			case err == nil && (r.tail == "" || most > 0):
				most = max(most, k)
				r.tail = strconv.Itoa(most)
			case r.tail == "" || r.tail == text:
				r.tail = text
			default:
				r.whole = true
			}
		default:
			r.whole = true
		}
	}
	return r
}

// tailOf is how many items of a container's end a subscript reads: N of xs[-N:], 1 of xs[-1]; "" for others, and where
// what says how many means nothing where items are added.
func (c *curing) tailOf(p node, g growth) string {
	at := p.field("subscript").bare()
	if at.is("slice") {
		if parts := at.children(); len(parts) != 1 || !strings.HasSuffix(strings.TrimSpace(at.text()), ":") {
			return ""
		}
		at = at.child().bare()
	}
	if !at.is("unary_operator") || !strings.HasPrefix(at.text(), "-") {
		return ""
	}
	by := at.field("argument").bare()
	switch {
	case by.is("integer"):
		return by.text()
	case !p.field("subscript").is("slice"):
		return ""
	case by.is("attribute") && strings.HasPrefix(by.text(), "self.") && c.classAt(by) == c.classAt(g.at):
		return by.text()
	case by.is("identifier") && len(c.module.bindings[by.text()]) == 1 &&
		len(c.function(by).bindings[by.text()]) == 0 &&
		!c.function(by).isParam[by.text()]:
		return by.text()
	case by.is("identifier") && c.function(by).isParam[by.text()]: // the number that it has where none is given
		for _, q := range c.function(by).field("parameters").children() {
			if q.is("default_parameter") && q.field("name").text() == by.text() && q.field("value").is("integer") {
				return q.field("value").text()
			}
		}
	}
	return ""
}
