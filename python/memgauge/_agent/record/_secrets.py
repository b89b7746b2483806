# Generated from internal/base/secret/rules.go by `make generate`. Do not edit.

# name, group of the secret, what it must be besides, group of its name, expression
PATTERNS = (
    ("private key", 1, "", 0,
     "-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----((?:[^-\\x1f]|-[^-\\x1f])*)"
     ),
    ("URL with a password", 1, "value", 0,
     "://[^/ \\t\\r\\n\\x1f:@'\"\\[]*:([^ \\t\\r\\n\\x1f/'\"]*|[^ \\t\\r\\n\\x1f'\"0-9/@][^ \\t\\r\\n\\x1f'\"]*?)@"
     ),
    ("URL with a token", 1, "opaque", 0,
     "://([^/ \\t\\r\\n\\x1f:@'\"]{8,})@"
     ),
    ("webhook", 1, "", 0,
     "(?i)(?:hooks\\.slack\\.com/(?:services|workflows)/|discord(?:app)?\\.com/api/webhooks/|\\.webhook\\.offic"
     "e\\.com/|outlook\\.office\\.com/webhook/|hooks\\.zapier\\.com/hooks/|api\\.telegram\\.org/bot|open\\.(?:feis"
     "hu|larksuite)\\.c[no]m?/open-apis/bot/v2/hook/)([^ \\t\\r\\n\\x1f\"'?]+)"
     ),
    ("header", 1, "value", 0,
     "(?i)(?:proxy-)?authorization\\\\?[\"']?[ \\t\\r\\n\\x1f]{0,3}[:=][ \\t\\r\\n\\x1f]{0,3}\\\\?[\"']?((?:(?:basic|bea"
     "rer|token|digest|negotiate|apikey|aws4-hmac-sha256)[ \\t\\x1e]+)?[^ \\t\\r\\n\\x1f\"'\\\\][^\\r\\n\\x1f\"'\\\\]*)"
     ),
    ("cookie", 1, "value", 0,
     "(?i)\\b(?:set-)?cookie\\\\?[\"']?:[ \\t\\r\\n\\x1f]{0,3}\\\\?[\"']?([^\\r\\n\\x1f\"']+)"
     ),
    ("scheme", 1, "opaque", 0,
     "(?i)\\b(?:bearer|basic)[ \\t\\r\\n\\x1f]+([A-Za-z0-9._~+/=-]{8,})"
     ),
    ("SQL", 1, "value", 0,
     "(?i)\\b(?:password|secret|token|passphrase|identified[ \\t\\r\\n\\x1f]+by|session_token|access_token|acco"
     "unt_key|connection_string)[ \\t\\r\\n\\x1f]+(\\\\?\"[^\"\\n\\x1f]*\"|\\\\?'[^'\\n\\x1f]*')"
     ),
    ("user and password", 2, "pair", 0,
     "(?:^|[ \\t\\r\\n\\x1f]|[\"'(,])(?:-u|-U|--user|--proxy-user|--auth)(?:[ \\t\\r\\n\\x1f]+|=|[\"'],[ \\t\\r\\n\\x1f]"
     "{0,3}[\"'])[\"']?([^ \\t\\r\\n\\x1f:%\"']+)[:%]([^ \\t\\r\\n\\x1f\"']+)"
     ),
    ("http -a", 2, "pair", 0,
     "\\bhttps?[ \\t\\r\\n\\x1f][^\\n|;&]{0,200}?-a[ \\t\\r\\n\\x1f]+[\"']?([^ \\t\\r\\n\\x1f:\"']+):([^ \\t\\r\\n\\x1f\"']+)"
     ),
    ("mysql -p", 1, "value", 0,
     "\\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|mariadb-admin)\\b[^\\n|;&]{0,200}?[ "
     "\\t\\r\\n\\x1f]-p([^ \\t\\r\\n\\x1f]+)"
     ),
    ("7z -p", 1, "value", 0,
     "\\b7z[ar]?\\b[^\\n|;&]{0,200}?[ \\t\\r\\n\\x1f]-p([^ \\t\\r\\n\\x1f]+)"
     ),
    ("-p", 1, "value", 0,
     "\\b(?:sshpass|mongo(?:sh|dump|restore|export|import)?|(?:docker|podman|nerdctl|buildah|oras|registry)"
     "[ \\t\\r\\n\\x1f]+login)\\b[^\\n|;&]{0,200}?[ \\t\\r\\n\\x1f]-p[ \\t\\r\\n\\x1f]*([^ \\t\\r\\n\\x1f]+)"
     ),
    ("-P", 1, "value", 0,
     "\\b(?:zip|unzip|sqlcmd|bcp|isql)\\b[^\\n|;&]{0,200}?[ \\t\\r\\n\\x1f]-P[ \\t\\r\\n\\x1f]*([^ \\t\\r\\n\\x1f]+)"
     ),
    ("-a", 1, "value", 0,
     "\\bredis-cli\\b[^\\n|;&]{0,200}?[ \\t\\r\\n\\x1f]-a[ \\t\\r\\n\\x1f]+([^ \\t\\r\\n\\x1f]+)"
     ),
    ("-w", 1, "value", 0,
     "\\bldap(?:search|modify|add|delete|passwd|whoami)\\b[^\\n|;&]{0,200}?[ \\t\\r\\n\\x1f]-w[ \\t\\r\\n\\x1f]+([^ "
     "\\t\\r\\n\\x1f]+)"
     ),
    ("login", 1, "", 0,
     "\\b(?:wandb|vault|comet|neptune|clearml)[ \\t\\r\\n\\x1f]+login\\b(?:[ \\t\\r\\n\\x1f]+--?[^ \\t\\r\\n\\x1f]+)*[ "
     "\\t\\r\\n\\x1f]+([A-Za-z0-9._-]{16,})"
     ),
    ("openssl", 1, "value", 0,
     "\\bpass:([^ \\t\\r\\n\\x1f]+)"
     ),
    ("setting", 1, "opaque", 0,
     "\\b(?:aws_secret_access_key|aws_session_token|secret_key|api_key)[ \\t\\r\\n\\x1f]+([^ \\t\\r\\n\\x1f=:,;\"'()"
     "\\[\\]{}]{12,})"
     ),
    ("flag", 3, "named", 1,
     "(?:^|[ \\t\\r\\n\\x1f]|[\"'(\\[,])--?([A-Za-z][A-Za-z0-9_.-]{0,63})([ \\t\\r\\n\\x1f]+|=|[\"'],[ \\t\\r\\n\\x1f]{0,"
     "3}[\"'])(\\\\?\"[^\"\\n\\x1f]*\"|\\\\?'[^'\\n\\x1f]*'|[^ \\t\\r\\n\\x1f\"']+)"
     ),
    ("argument", 3, "named", 1,
     "(?:^|\\x1f)([A-Za-z_+][A-Za-z0-9_.-]{0,63})(=)([^\\x1f]+)"
     ),
    ("pair", 3, "named", 1,
     "([A-Za-z_][A-Za-z0-9_.-]{0,63})(\\\\?[\"']?\\]?[ \\t\\r\\n\\x1f]{0,3}(?:=>|:=|==|!=|[=:])[ \\t\\r\\n\\x1f]{0,3})"
     "(\\\\?\"[^\"\\n\\x1f]*\"|\\\\?'[^'\\n\\x1f]*'|[^ \\t\\r\\n\\x1f\"',;&<>(){}\\[\\]]+)"
     ),
    ("known prefix", 1, "mixed", 0,
     "\\b(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|ptt|soat|cbt|agent)-|hf_|api_org_|sk-(?:proj-|ant-|or-v1-"
     "|svcacct-|admin-|lf-)?|pk-lf-|[rs]k_(?:live|test)_|xox[abeoprs]-|xapp-|AKIA|ASIA|ABIA|ACCA|APKA|AIza"
     "|ya29\\.|GOCSPX-|1//0|npm_|pypi-|do[opr]_v1_|SG\\.|shp(?:at|ss|ca|pa)_|sq0(?:atp|csp)-|EAA[A-Z]|dckr_("
     "?:pat|oat)_|r8_|gsk_|pplx-|xai-|nvapi-|lin_api_|PMAK-|figd_|dapi|dkea|hv[sbr]\\.|ATATT3|ATCTT3|NRAK-|"
     "NRJS-|glsa_|glc_|whsec_|nfp_|sb[ps]_|sntry[su]_|dp\\.(?:pt|st|ct|sa)\\.|AGE-SECRET-KEY-1|tskey-|tvly-|"
     "fw_|csk-|esecret_|jina_|cog_|voyage-|pa-|key-|rubygems_|CLOJARS_|wandb_v1_|secret_|ntn_|pat[A-Za-z0-"
     "9]{14}\\.|patna|EZ[AT]K|fio-u-|FLWSECK|ops_|rpa_|lsv2_(?:pt|sk)_|e2b_|p8e-|tfp_|sl\\.B|AQV|LTAI|AKID|o"
     "cid1\\.credential)([A-Za-z0-9_/+.=-]{10,})"
     ),
    ("JSON web token", 1, "", 0,
     "\\b(eyJ[A-Za-z0-9_-]{10,}(?:\\.[A-Za-z0-9_-]*){0,4})"
     ),
    ("vault", 1, "", 0,
     "\\.atlasv1\\.([A-Za-z0-9_-]{20,})"
     ),
    ("random", 1, "random", 0,
     "([A-Za-z0-9+/_-]{20,}={0,2})"
     ),
)
NUMBER = "^[+-]?[0-9][0-9_]{0,11}(?:\\.[0-9]{0,12})?(?:[eE][+-]?[0-9]{1,3})?[A-Za-z%]{0,2}\\Z"
PATH = "^(?:(?:~|\\.{0,2}|[A-Za-z]:|(?:file|s3|gs|az|hdfs|dbfs|abfss|wandb):/)[/\\\\][A-Za-z0-9._/\\\\~:-]*|(?:[A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+\\.(?:pem|json|key|txt|ya?ml|crt|cer|pub|csv|env|ini|cfg|toml|py|pt|bin|log|md|xml|p12|jks))\\Z"
REFERENCE = "^(?:\\$\\{?[A-Z_][A-Z0-9_]*\\}?|\\$\\{[^}]*\\}|\\$\\(.*|%\\([A-Za-z_]+\\)s|%s|\\{\\{?[A-Za-z0-9_. !:]*\\}?\\}|<[A-Za-z_ -]+>|[*xX.\u2022]{3,}|(?:self|args|cfg|config|opts?|options|settings|conf|os|params|kwargs|env|secrets|st|hparams|flags|FLAGS|ns|ctx)\\.[A-Za-z_][A-Za-z0-9_.]*)\\Z"
MARKERS = (
    "pass", "pw", "secret", "cred", "key", "token", "auth", "otp", "jwt", "bearer", "basic", "cookie", "dsn",
    "conn", "sas", "hook", "mnemonic", "hmac", "sig", "licen", "private", "psk", "mfa", "pat=", "pat ",
    "pat\x1f", "pat\"", "pat'", "pat:", "pat\\", "pat]", "pin=", "pin ", "pin\x1f", "pin\"", "pin'", "pin:",
    "pin\\", "pin]", "://", "-u ", "-u\x1f", "-a ", "-a\x1f", "-u\"", "-u'", "--user", "--proxy",
    "identified", "mysql", "maria", "7z", "mongo", "zip", "sqlcmd", "bcp", "isql", "ldap", "login",
    "telegram", "feishu", "larksuite", "office.com", "zapier",
)
PASSWORD_WORDS = (
    "authorization", "mnemonic", "mysqlpwd", "otp", "passcode", "passphrase", "passphrases", "passwd",
    "password", "passwords", "passwort", "pgpassword", "psk", "pswd", "pw", "pwd", "sshpass", "totp",
)
SECRET_WORDS = (
    "accesskey", "accesstoken", "accountkey", "apikey", "apikeys", "apitoken", "authkey", "authtoken",
    "bearer", "connectionstring", "connstr", "cookie", "cookies", "cred", "credential", "credentials",
    "creds", "dsn", "hmac", "jwt", "licensekey", "mfa", "privatekey", "privkey", "sas", "sastoken", "secret",
    "secretkey", "secrets", "sharedaccesskey", "sharedaccesssignature", "webhook", "webhooks",
)
VAGUE_WORDS = (
    "auth", "key", "keys", "license", "pass", "pat", "pin", "private", "sig", "signature",
)
KEY_QUALIFIERS = (
    "access", "account", "aes", "anthropic", "api", "app", "application", "auth", "aws", "azure", "client",
    "comet", "consumer", "datadog", "dd", "deploy", "encrypt", "encryption", "fernet", "gcp", "gpg", "hf",
    "hmac", "huggingface", "ingest", "instrumentation", "jwt", "license", "master", "minio", "neptune", "ng",
    "openai", "pgp", "private", "registration", "rsa", "s3", "secret", "sentry", "service", "session",
    "shared", "sign", "signing", "ssh", "storage", "subscription", "tailscale", "tf", "tsig", "wandb", "wg",
    "write",
)
TOKEN_QUALIFIERS = (
    "add", "audio", "bos", "by", "class", "cls", "cur", "current", "decoder", "dist", "encoder", "end", "eod",
    "eom", "eos", "eot", "first", "image", "last", "mask", "max", "min", "n", "new", "next", "num", "pad",
    "padding", "per", "prev", "previous", "prompt", "return", "sep", "skip", "special", "speech", "start",
    "stop", "target", "text", "think", "unk", "video", "vision",
)
PASS_QUALIFIERS = (
    "account", "admin", "api", "basic", "cert", "database", "db", "docker", "elastic", "email", "es", "ftp",
    "http", "imap", "jenkins", "key", "keystore", "ldap", "login", "mail", "mq", "my", "mysql", "pg",
    "postgres", "proxy", "rabbit", "rabbitmq", "redis", "registry", "root", "smtp", "sql", "ssh", "store",
    "sudo", "truststore", "user", "wifi",
)
ABOUT_WORDS = (
    "age", "agent", "algo", "algorithm", "arn", "bias", "budget", "cache", "class", "cmd", "column",
    "command", "count", "counts", "dim", "dims", "dir", "directory", "disabled", "embed", "embedding",
    "embeddings", "enable", "enabled", "endpoint", "expiration", "expires", "expiry", "field", "file",
    "files", "fn", "folder", "format", "func", "function", "head", "header", "heads", "helper", "host", "id",
    "ids", "ids_tensor", "idx", "index", "interval", "kind", "layer", "layers", "len", "length", "lengths",
    "level", "limit", "loss", "manager", "map", "mapping", "method", "mode", "name", "names", "norm", "num",
    "number", "parallelism", "path", "paths", "plan", "policy", "port", "position", "prefix", "proj",
    "projection", "provider", "rate", "ratio", "region", "required", "ring", "s", "scheme", "sec", "second",
    "seconds", "server", "service", "shape", "size", "sizes", "sock", "states", "stdin", "strategy", "suffix",
    "timeout", "ttl", "type", "types", "uri", "url", "usage", "used", "value_states", "version", "weight",
    "weights",
)
TRAILERS = (
    "b64", "backup", "base", "current", "default", "dev", "env", "main", "master", "next", "old", "plain",
    "plaintext", "primary", "prod", "production", "raw", "secondary", "stage", "staging", "test", "v",
    "value",
)
NOTHINGS = (
    "any", "ask", "auto", "basic", "bearer", "bool", "bytes", "changeme-not-set", "cls", "default", "digest",
    "disabled", "enabled", "expected", "false", "float", "hidden", "int", "invalid", "masked", "missing",
    "n/a", "na", "negotiate", "nil", "no", "none", "null", "off", "on", "optional", "prompt", "redacted",
    "required", "secretstr", "self", "stdin", "str", "string", "token", "tokens", "true", "type", "undefined",
    "unset", "yes",
)
LONG_WORD, MIN_RANDOM, MIN_OPAQUE, MIN_NAMED, MAX_SAME = 12, 20, 8, 6, 8
MIN_CHANGE, MAX_TEXT, HIDDEN = 0.38, 1048576, "<redacted>"
