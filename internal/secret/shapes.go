package secret

import (
	"regexp"
	"strings"
	"sync"
)

const (
	minRandom = 20 // bytes of a word in a text that may be random; 16 in a name's value
	minOpaque = 8
	maxSame   = 8 // letters of one case in a row: of 40 random ones 3 % have such a run, of words of a language most
	// of neighbours that are of different classes: random letters and digits have 0.62, camelCase about 0.3
	minChange = 0.38
)

// The expressions that tell values apart; gen gives them to the agent too.
const (
	NumberExpr = `^[+-]?[0-9][0-9_]{0,11}(?:\.[0-9]{0,12})?(?:[eE][+-]?[0-9]{1,3})?[A-Za-z%]{0,2}$`
	PathExpr   = `^(?:(?:~|\.{0,2}|[A-Za-z]:|(?:file|s3|gs|az|hdfs|dbfs|abfss|wandb):/)[/\\][A-Za-z0-9._/\\~:-]*|` +
		`(?:[A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+\.(?:pem|json|key|txt|ya?ml|crt|cer|pub|csv|env|ini|cfg|toml|py|pt|bin|` +
		`log|md|xml|p12|jks))$`
	ReferenceExpr = `^(?:\$\{?[A-Z_][A-Z0-9_]*\}?|\$\{[^}]*\}|\$\(.*|%\([A-Za-z_]+\)s|%s|\{\{?` +
		`[A-Za-z0-9_. !:]*\}?\}|<[A-Za-z_ -]+>|[*xX.•]{3,}|` +
		`(?:self|args|cfg|config|opts?|options|settings|conf|os|params|` +
		`kwargs|env|secrets|st|hparams|flags|FLAGS|ns|ctx)\.[A-Za-z_][A-Za-z0-9_.]*)$`
)

var (
	numberRE    = compiled(NumberExpr)
	pathRE      = compiled(PathExpr)
	referenceRE = compiled(ReferenceExpr)
)

func isNothing(value string) bool {
	return Nothings[asciiLower(value)] || strings.HasPrefix(value, "--")
}

// isReference: the value names where the secret is, and is none itself.
func isReference(name, value string) bool {
	return referenceRE().MatchString(value) || name != "" && asciiLower(value) == asciiLower(name)
}

func isNumber(value string) bool { return numberRE().MatchString(value) }

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isPath tells a path from a secret that begins with a slash, as one in 64 of those in Base64 do.
func isPath(value string) bool {
	if !pathRE().MatchString(value) {
		return false
	}
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == '/' || r == '\\' || r == '.' }) {
		if isRandom(part, 16) {
			return false
		}
	}
	return true
}

// isMixed: letters and digits, or both cases, as the rest of a token whose beginning is known.
func isMixed(value string) bool {
	var upper, lower, digit bool
	for i := 0; i < len(value); i++ {
		upper, lower, digit = upper || isUpper(value[i]), lower || isLower(value[i]), digit || isDigit(value[i])
	}
	return digit && (upper || lower) || upper && lower
}

// isOpaque: no word, number or path, but something that was made up by a machine, or as a password.
func isOpaque(value string) bool {
	return len(value) >= minOpaque && isMixed(value) && !strings.ContainsAny(value, " \x1e\t\n") && !isNumber(value) &&
		!isPath(value) && !isWordy(value) && !isCapitalised(value)
}

// isWordy: words and numbers with dots, dashes or underscores between them, such as model.layers.0.weight.
func isWordy(value string) bool {
	pieces := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("._-/:,", r) })
	if len(pieces) < 2 {
		return false
	}
	for _, p := range pieces {
		word := strings.TrimRight(p, "0123456789")
		if len(p)-len(word) > 4 && word != "" || strings.ContainsAny(word, "0123456789") || !isLetters(word) ||
			!isOneCase(word) {
			return false
		}
	}
	return true
}

func isLetters(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isUpper(s[i]) && !isLower(s[i]) {
			return false
		}
	}
	return true
}

// isOneCase: lower case, upper case, or lower behind one capital.
func isOneCase(s string) bool {
	if s == "" {
		return true
	}
	rest := s[1:]
	return rest == asciiLower(rest) || strings.IndexFunc(rest, func(r rune) bool { return 'a' <= r && r <= 'z' }) < 0
}

// isCapitalised: CamelCase of words, which a name of a class is.
func isCapitalised(value string) bool {
	if !isLetters(value) {
		return false
	}
	for _, w := range splitName(value) {
		if len(w) < 3 {
			return false
		}
	}
	return true
}

// isRandom: a word of both cases and digits that change places as in no name. A digest or a UUID, all of hex digits, is
// none: commits, images and devices are called so.
func isRandom(value string, least int) bool {
	if len(value) < least || strings.HasPrefix(value, "_Z") { // C++'s mangled names
		return false
	}
	if _, rest, ok := strings.Cut(value, "-"); ok && strings.Trim(rest, "0123456789abcdef-") == "" { // GPU-UUID
		return false
	}
	var upper, lower, digits, changes, count, same int
	var before int
	for i := 0; i < len(value); i++ {
		c, class := value[i], 0
		switch {
		case isUpper(c):
			class = 1
			upper++
		case isLower(c):
			class = 2
			lower++
		case isDigit(c):
			class = 3
			digits++
		default:
			continue
		}
		if count++; class == before {
			same++
		} else {
			same = 1
			changes++
		}
		if class != 3 && same >= maxSame {
			return false
		}
		before = class
	}
	return count >= least*4/5 && upper >= 2 && lower >= 2 && digits >= 1 && float64(changes) >= minChange*float64(count)
}

// compiled is a pattern that is compiled when it is first needed: the start of every command would wait for it.
func compiled(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
