package secret

// The rules are strings and lists of words, since the agent needs them too: gen writes them into _secrets.py. The
// patterns use only what RE2 and Python's re read alike, with classes of their own for blanks, because \s differs.
// \x1f separates the arguments of a command, \x1e replaces a blank inside one; see Args.
//
//go:generate go run ./gen -py ../../../python/memgauge/_agent/record/_secrets.py

const (
	blank    = `[ \t\r\n\x1f]`
	nonblank = `[^ \t\r\n\x1f]`
	quoted   = `\\?"[^"\n\x1f]*"|\\?'[^'\n\x1f]*'`
	bare     = `[^ \t\r\n\x1f"',;&<>(){}\[\]]+`
	within   = `[^\n|;&]{0,200}?` // within one command of a shell line; bounded, since re backtracks
)

// Pattern is a rule: what its group matches is hidden, if Check allows it. Group 0 hides the whole match.
type Pattern struct {
	Name   string // for tests and messages
	Expr   string
	Secret int    // the group that is hidden
	Check  string // a further condition on the group: "" none, "opaque", "random", "pair" (two groups decide), "named"
	Key    int    // with "named": the group that holds the name; the one after it is the separator
}

// Patterns are applied one after the other.
var Patterns = []Pattern{
	{Name: "private key", Expr: `-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----((?:[^-\x1f]|-[^-\x1f])*)`, Secret: 1},
	{Name: "URL with a password",
		Expr: `://[^/ \t\r\n\x1f:@'"\[]*:([^ \t\r\n\x1f/'"]*|[^ \t\r\n\x1f'"0-9/@][^ \t\r\n\x1f'"]*?)@`, Secret: 1,
		Check: "value"},
	{Name: "URL with a token", Expr: `://([^/ \t\r\n\x1f:@'"]{8,})@`, Secret: 1, Check: "opaque"},
	{Name: "webhook",
		Expr: `(?i)(?:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/|` +
			`\.webhook\.office\.com/|outlook\.office\.com/webhook/|hooks\.zapier\.com/hooks/|api\.telegram\.org/bot|` +
			`open\.(?:feishu|larksuite)\.c[no]m?/open-apis/bot/v2/hook/)([^ \t\r\n\x1f"'?]+)`, Secret: 1},
	{Name: "header", Expr: `(?i)(?:proxy-)?authorization\\?["']?` + blank + `{0,3}[:=]` + blank +
		`{0,3}\\?["']?((?:(?:basic|bearer|token|digest|negotiate|apikey|aws4-hmac-sha256)[ \t\x1e]+)?` +
		`[^ \t\r\n\x1f"'\\][^\r\n\x1f"'\\]*)`, Secret: 1, Check: "value"},
	{Name: "cookie", Expr: `(?i)\b(?:set-)?cookie\\?["']?:` + blank + `{0,3}\\?["']?([^\r\n\x1f"']+)`, Secret: 1,
		Check: "value"},
	{Name: "scheme", Expr: `(?i)\b(?:bearer|basic)` + blank + `+([A-Za-z0-9._~+/=-]{8,})`, Secret: 1, Check: "opaque"},
	{Name: "SQL", Expr: `(?i)\b(?:password|secret|token|passphrase|identified` + blank +
		`+by|session_token|access_token|account_key|connection_string)` + blank + `+(` + quoted + `)`, Secret: 1,
		Check: "value"},
	{Name: "user and password", Expr: `(?:^|` + blank + `|["'(,])(?:-u|-U|--user|--proxy-user|--auth)(?:` + blank +
		`+|=|["'],` + blank + `{0,3}["'])["']?([^ \t\r\n\x1f:%"']+)[:%]([^ \t\r\n\x1f"']+)`, Secret: 2, Check: "pair"},
	{Name: "http -a", Expr: `\bhttps?` + blank + within + `-a` + blank +
		`+["']?([^ \t\r\n\x1f:"']+):([^ \t\r\n\x1f"']+)`, Secret: 2, Check: "pair"},
	{Name: "mysql -p", Expr: `\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|mariadb-admin)\b` +
		within + blank + `-p(` + nonblank + `+)`, Secret: 1, Check: "value"},
	{Name: "7z -p", Expr: `\b7z[ar]?\b` + within + blank + `-p(` + nonblank + `+)`, Secret: 1, Check: "value"},
	{Name: "-p",
		Expr: `\b(?:sshpass|mongo(?:sh|dump|restore|export|import)?|(?:docker|podman|nerdctl|buildah|oras|registry)` +
			blank + `+login)\b` + within + blank + `-p` + blank + `*(` + nonblank + `+)`, Secret: 1, Check: "value"},
	{Name: "-P", Expr: `\b(?:zip|unzip|sqlcmd|bcp|isql)\b` + within + blank + `-P` + blank + `*(` + nonblank + `+)`,
		Secret: 1, Check: "value"},
	{Name: "-a", Expr: `\bredis-cli\b` + within + blank + `-a` + blank + `+(` + nonblank + `+)`, Secret: 1,
		Check: "value"},
	{Name: "-w", Expr: `\bldap(?:search|modify|add|delete|passwd|whoami)\b` + within + blank + `-w` + blank + `+(` +
		nonblank + `+)`, Secret: 1, Check: "value"},
	{Name: "login", Expr: `\b(?:wandb|vault|comet|neptune|clearml)` + blank + `+login\b(?:` + blank + `+--?` +
		nonblank + `+)*` + blank + `+([A-Za-z0-9._-]{16,})`, Secret: 1},
	{Name: "openssl", Expr: `\bpass:(` + nonblank + `+)`, Secret: 1, Check: "value"},
	{Name: "setting", Expr: `\b(?:aws_secret_access_key|aws_session_token|secret_key|api_key)` + blank +
		`+([^ \t\r\n\x1f=:,;"'()\[\]{}]{12,})`, Secret: 1, Check: "opaque"},
	{Name: "flag", Expr: `(?:^|` + blank + `|["'(\[,])--?([A-Za-z][A-Za-z0-9_.-]{0,63})(` + blank + `+|=|["'],` +
		blank + `{0,3}["'])(` + quoted + `|[^ \t\r\n\x1f"']+)`, Secret: 3, Check: "named", Key: 1},
	{Name: "argument", Expr: `(?:^|\x1f)([A-Za-z_+][A-Za-z0-9_.-]{0,63})(=)([^\x1f]+)`, Secret: 3, Check: "named",
		Key: 1},
	{Name: "pair", Expr: `([A-Za-z_][A-Za-z0-9_.-]{0,63})(\\?["']?\]?` + blank + `{0,3}(?:=>|:=|==|!=|[=:])` + blank +
		`{0,3})(` + quoted + `|` + bare + `)`, Secret: 3, Check: "named", Key: 1},
	{Name: "known prefix",
		Expr: `\b(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|ptt|soat|cbt|agent)-|hf_|api_org_|sk-(?:proj-|ant-|or-v1-|` +
			`svcacct-|admin-|lf-)?|pk-lf-|[rs]k_(?:live|test)_|xox[abeoprs]-|xapp-|AKIA|ASIA|ABIA|ACCA|APKA|AIza|` +
			`ya29\.|GOCSPX-|1//0|npm_|pypi-|do[opr]_v1_|SG\.|shp(?:at|ss|ca|pa)_|sq0(?:atp|csp)-|EAA[A-Z]|` +
			`dckr_(?:pat|oat)_|r8_|gsk_|pplx-|xai-|nvapi-|lin_api_|PMAK-|figd_|dapi|dkea|hv[sbr]\.|ATATT3|ATCTT3|` +
			`NRAK-|NRJS-|glsa_|glc_|whsec_|nfp_|sb[ps]_|sntry[su]_|dp\.(?:pt|st|ct|sa)\.|AGE-SECRET-KEY-1|tskey-|` +
			`tvly-|fw_|csk-|esecret_|jina_|cog_|voyage-|pa-|key-|rubygems_|CLOJARS_|wandb_v1_|secret_|ntn_|` +
			`pat[A-Za-z0-9]{14}\.|patna|EZ[AT]K|fio-u-|FLWSECK|ops_|rpa_|lsv2_(?:pt|sk)_|e2b_|p8e-|tfp_|sl\.B|AQV|` +
			`LTAI|AKID|ocid1\.credential)([A-Za-z0-9_/+.=-]{10,})`, Secret: 1, Check: "mixed"},
	{Name: "JSON web token", Expr: `\b(eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*){0,4})`, Secret: 1},
	{Name: "vault", Expr: `\.atlasv1\.([A-Za-z0-9_-]{20,})`, Secret: 1},
	{Name: "random", Expr: `([A-Za-z0-9+/_-]{20,}={0,2})`, Secret: 1, Check: "random"},
}

// Markers: a text without any of these, and without a long word, contains nothing that a rule could match. In lower
// case.
var Markers = []string{
	"pass", "pw", "secret", "cred", "key", "token", "auth", "otp", "jwt", "bearer", "basic", "cookie", "dsn", "conn",
	"sas",
	"hook", "mnemonic", "hmac", "sig", "licen", "private", "psk", "mfa", "pat=", "pat ", "pat\x1f", "pat\"", "pat'",
	"pat:",
	"pat\\", "pat]", "pin=", "pin ", "pin\x1f", "pin\"", "pin'", "pin:", "pin\\", "pin]", "://", "-u ", "-u\x1f", "-a ",
	"-a\x1f", "-u\"", "-u'", "--user", "--proxy", "identified", "mysql", "maria", "7z", "mongo", "zip", "sqlcmd", "bcp",
	"isql",
	"ldap", "login", "telegram", "feishu", "larksuite", "office.com", "zapier",
}

// LongWord is the length in bytes from which a word may be random, or a token with a known prefix.
const LongWord = 12

// Words of names. A name is split at all characters that are neither letters nor digits, and where its case changes.
var (
	// PasswordWords make a name that of a password: even a number or a path is hidden.
	PasswordWords = words("password passwords passwd passphrase passphrases passcode pwd pw pswd passwort sshpass " +
		"otp totp mnemonic psk authorization pgpassword mysqlpwd")
	// SecretWords make a name that of a secret, unless the value is a number, a path or a single switch.
	SecretWords = words("secret secrets credential credentials creds cred apikey apikeys apitoken accesskey " +
		"accesstoken secretkey privatekey privkey authtoken authkey accountkey jwt bearer cookie cookies dsn " +
		"connstr connectionstring sas webhook webhooks hmac mfa licensekey sharedaccesskey sharedaccesssignature " +
		"sastoken")
	// VagueWords may mean a secret or not: the value decides.
	VagueWords = words("key keys auth sig signature private license pat pass pin")
	// KeyQualifiers make "key" a secret.
	KeyQualifiers = words("api access secret private encryption encrypt signing sign master service account storage " +
		"ssh auth session shared deploy app application registration subscription tsig wg gpg pgp rsa client " +
		"consumer fernet jwt aes hmac tf ng wandb openai anthropic hf huggingface comet neptune aws azure gcp s3 " +
		"minio license instrumentation write ingest tailscale datadog dd sentry")
	// TokenQualifiers make "token" one of text, as language models use the word.
	TokenQualifiers = words("pad padding eos bos unk mask sep cls special image audio video vision start end stop " +
		"next prev previous class prompt dist think eot eod eom per by decoder encoder first last max min num n new " +
		"target current cur add text speech return skip")
	// AboutWords end names that describe a secret rather than contain it.
	AboutWords = words("file files path paths dir directory folder url uri endpoint host port name names id ids " +
		"type types kind size sizes len length lengths count counts num number ttl timeout expiry expires " +
		"expiration age enabled enable disabled required policy provider algorithm algo format version mode class " +
		"prefix suffix header field column dim dims weight weights bias proj projection heads head scheme method " +
		"helper command cmd server service region arn manager parallelism ratio rate limit sec second seconds s " +
		"budget usage used loss index idx position level map mapping fn func function shape states value_states " +
		"cache embedding embeddings embed norm layer layers ids_tensor sock ring agent interval strategy plan stdin")
	// Nothings are values that hide nothing.
	Nothings = words("true false none null nil yes no on off auto default required optional undefined unset " +
		"disabled enabled prompt ask stdin str string int bytes bool float any secretstr self cls type token tokens " +
		"redacted hidden masked changeme-not-set n/a na expected invalid missing basic bearer digest negotiate")
)

// More words of names.
var (
	// PassQualifiers make "pass" a password; it is also a run over the data.
	PassQualifiers = words("db database user smtp mail email imap ftp admin root proxy sudo my mysql pg postgres " +
		"redis rabbit rabbitmq mq es elastic http wifi ldap ssh key store truststore keystore cert basic registry " +
		"docker jenkins sql login account api")
	// Trailers say which of several secrets it is, and nothing about its kind.
	Trailers = words("v prod production dev test staging stage old primary secondary base b64 value plain plaintext " +
		"raw main default current next backup master env")
)
