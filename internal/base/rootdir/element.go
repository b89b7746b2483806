package rootdir

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxElement is how many bytes of a word become part of a name: a file system takes 255, and what we put around it
// must fit too.
const maxElement = 120

// Element makes one part of a path of a word that is not ours, such as the name of a session or of a host: no
// separator, no name of the directory above, nothing hidden, nothing that a terminal or a command takes for an order. A
// name that harms nobody stays as it is. Different words may make the same one.
func Element(word string) string {
	var b strings.Builder
	for _, r := range word {
		if r == '/' || r == '\\' || r == utf8.RuneError || !unicode.IsPrint(r) ||
			b.Len() == 0 && (r == '.' || r == '-' || r == ' ') {
			r = '_'
		}
		if b.Len()+utf8.RuneLen(r) > maxElement {
			break
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}
