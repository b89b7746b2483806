// Package source owns the words by which a user says what is asked: a session of this machine, those of many machines
// that a hub knows, or a lake. They are read in one place, wherever they stand: before a command, behind -t, or in
// MEMGAUGE_TARGET.
package source

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/ask"
)

// Endpoint is what the words say. The zero value says nothing: the only live session is meant, else the newest one.
type Endpoint struct {
	ask.Wanted        // a session of this machine; Rank narrows many, too
	Lake       string // where a lake lies
	Many       bool   // sessions of many machines, which a hub knows
	Hub        string // host:port; "": this machine's
	Job, Node  string // which of them
}

// Given says whether the words say anything.
func (e Endpoint) Given() bool { return e != Endpoint{} }

// Words are the forms that an ENDPOINT has.
const Words = "a PID, a session's name, id or directory, rank=N, lake=WHERE, or hub, host:port, job=NAME, node=NAME"

var address = pattern.Of(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$`)

// IsWord says whether a text can be nothing but a part of an ENDPOINT. A session's name or its PID can be more.
func IsWord(text string) bool {
	return text == "hub" || address().MatchString(text) ||
		slices.ContainsFunc([]string{"job=", "node=", "rank=", "lake="}, func(k string) bool {
			return strings.HasPrefix(text, k)
		})
}

// split takes a text apart at blanks and commas where one of the words needs that. A directory may have both.
func split(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if strings.HasPrefix(text, "lake=") || !slices.ContainsFunc(words, IsWord) {
		return []string{text}
	}
	return words
}

// Parse reads the words of some texts. No text, or an empty one, says nothing.
func Parse(texts ...string) (e Endpoint, err error) {
	for _, text := range texts {
		for _, word := range split(text) {
			if word == "" {
				continue
			}
			if err := e.take(word); err != nil {
				return Endpoint{}, remedy.Add(fmt.Errorf("endpoint %q: %w", word, err), "an ENDPOINT is "+Words)
			}
		}
	}
	if err := e.check(); err != nil {
		return Endpoint{}, err
	}
	return e, nil
}

var errTwice = errors.New("that was said already")

// take adds a word.
func (e *Endpoint) take(word string) error {
	name, value, keyed := strings.Cut(word, "=")
	switch {
	case word == "hub":
		e.Many = true
	case !keyed && !address().MatchString(word): // also one called job or lake
		return e.session(word)
	case name == "job":
		return e.narrow(&e.Job, value)
	case name == "node":
		return e.narrow(&e.Node, value)
	case name == "rank":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is not a rank", value)
		}
		if e.Rank != nil {
			return errTwice
		}
		rank := int(n)
		e.Rank = &rank
	case name == "lake":
		return once(&e.Lake, value)
	case address().MatchString(word):
		e.Many = true
		return once(&e.Hub, word)
	default:
		return e.session(word)
	}
	return nil
}

// once sets a text that is still empty.
func once(place *string, value string) error {
	switch {
	case value == "":
		return errors.New("it names nothing")
	case *place != "":
		return errTwice
	}
	*place = value
	return nil
}

func (e *Endpoint) narrow(place *string, value string) error {
	e.Many = true
	return once(place, value)
}

// session takes a word that names one. Whether a name is that of a directory is seen where it is looked for.
func (e *Endpoint) session(word string) error {
	if e.named() {
		return errors.New("one session was named already")
	}
	if n, err := strconv.ParseUint(word, 10, 31); err == nil && n > 0 {
		e.PID = int(n)
	} else if strings.ContainsRune(word, '/') {
		e.Dir = word
	} else {
		e.Name = word
	}
	return nil
}

func (e *Endpoint) named() bool { return e.PID != 0 || e.Name != "" || e.Dir != "" }

// check refuses words that don't go together.
func (e *Endpoint) check() error {
	switch {
	case e.Many && e.named():
		word := firstOf(e.Name, e.Dir, strconv.Itoa(e.PID))
		return remedy.Add(fmt.Errorf("endpoint %q: it can't be said together with a hub", word),
			"memgauge hub job=NAME node=NAME rank=N COMMAND")
	case e.Lake != "" && (e.Many || e.named() || e.Rank != nil):
		return remedy.Add(errors.New("endpoint lake="+e.Lake+": a lake stands alone"),
			"--job says of which job: memgauge lake=/data/lake query --job NAME")
	}
	return nil
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
