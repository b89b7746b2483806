package sampler

import (
	"regexp"
	"strconv"
)

const redacted = "<redacted>"

var (
	secretName = regexp.MustCompile(`(?i)(^|_)(key|keys|api_?key|token|secret|passw(or)?d|pass|pwd|cred|creds|credentials?|auth|cookie|dsn|private|signature|sas|webhook|license)(_|$)|apikey|password|passwd|secret|token|credential`)
	// What secrets look like whatever their name: known prefixes, a URL with a password, a key in PEM or a JSON web token.
	secretValue = regexp.MustCompile(`://[^/\s:@]*:[^/\s@]+@|-----BEGIN |^eyJ[A-Za-z0-9_-]{10,}\.|\b(gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|ASIA|AIza|ya29\.)[A-Za-z0-9_-]{8,}`)
)

// redact hides a value that is, or looks like, a secret.
func redact(name, value string) string {
	if value != "" && (secretName.MatchString(name) || secretValue.MatchString(value)) {
		return redacted
	}
	return value
}

func itoa(n int) string { return strconv.Itoa(n) }
