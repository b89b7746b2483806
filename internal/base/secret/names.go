package secret

import (
	"strings"
)

func words(list string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

// kind is what a name says about its value.
type kind int

const (
	plain    kind = iota
	vague         // the value decides
	secret        // hidden, unless it is a number, a path or a switch
	password      // hidden, whatever it looks like
)

// how is the place of a name and its value, which decides how much evidence is needed to hide the value.
type how int

const (
	strict  how = iota // an environment variable: everything after = is the value
	literal            // name=value, or a quoted value
	loose              // `name = value` or `name: value`, which may be code or prose
)

// hides decides whether the value of a name is a secret.
func hides(name, value string, at how) bool {
	k := kindOf(name)
	if k == plain || value == "" || value == Hidden || isNothing(value) || at != strict && isReference(name, value) {
		return false
	}
	switch {
	case k == password:
		return !(isWorkingDirectory(name) && value[0] == '/')
	case isNumber(value) || isPath(value):
		return false
	case k == vague || at == loose:
		return isOpaque(value)
	}
	return at == strict || len(value) >= minNamed
}

// minNamed: a shorter "token" in a text belongs to a language model's vocabulary.
const minNamed = 6

// isWorkingDirectory: the shell's variables have these names.
func isWorkingDirectory(name string) bool { return name == "PWD" || name == "OLDPWD" || name == "pwd" }

// kindOf judges a name by its words.
func kindOf(name string) kind {
	list := splitName(name)
	for len(list) > 1 && Trailers[list[len(list)-1]] {
		list = list[:len(list)-1]
	}
	if len(list) == 0 {
		return plain
	}
	last, before := list[len(list)-1], ""
	if len(list) > 1 {
		before = list[len(list)-2]
	}
	if AboutWords[last] && !(last == "url" && (before == "webhook" || before == "hook")) {
		return plain
	}
	found := plain
	for _, w := range list {
		switch {
		case PasswordWords[w] || endsIn(w, "password", "passwd", "passphrase"):
			found = max(found, password)
		case SecretWords[w] || endsIn(w, "secret", "apikey", "credentials"):
			found = max(found, secret)
		}
	}
	switch {
	case found > plain:
	case SecretWords[before+last]: // connection string
		found = secret
	case last == "key" || last == "keys":
		found = vague
		if KeyQualifiers[before] {
			found = secret
		}
	case last == "token" && !TokenQualifiers[before], last == "tokens" && KeyQualifiers[before]:
		found = secret
	case last == "pass" && PassQualifiers[before]:
		found = password
	case VagueWords[last]:
		found = vague
	}
	return found
}

func endsIn(word string, ends ...string) bool {
	for _, e := range ends {
		if strings.HasSuffix(word, e) {
			return true
		}
	}
	return false
}

// splitName splits a name into lower-case words: at characters that are neither letters nor digits, and where the case
// changes ("apiKey", "APIKey"). Digits after a word are left out.
func splitName(name string) []string {
	var list []string
	from := 0
	put := func(to int) {
		if w := strings.TrimRight(name[from:to], "0123456789"); w != "" {
			list = append(list, asciiLower(w))
		}
		from = to
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case !isAlnum(c):
			put(i)
			from = i + 1
		case i > from && isUpper(c) && !isUpper(name[i-1]):
			put(i)
		case i > from && isUpper(c) && i+1 < len(name) && isLower(name[i+1]):
			put(i)
		}
	}
	put(len(name))
	return list
}

func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if isUpper(c) {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlnum(c byte) bool { return isUpper(c) || isLower(c) || isDigit(c) }
