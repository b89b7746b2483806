"""What redact.py needs when a text may hold a secret: internal/base/secret, line by line. Only then re is needed
too."""
import re

from . import _secrets as S

PLAIN, VAGUE, SECRET, PASSWORD = range(4)   # what a name says of its value
LITERAL, LOOSE = range(2)                   # name=value or quoted; code or prose
_BLANKS = " \x1e\t\n"
_number, _path, _reference = (re.compile(e, re.A) for e in (S.NUMBER, S.PATH, S.REFERENCE))


class Rule:
    """One of PATTERNS."""

    __slots__ = ("name", "secret", "check", "key", "find")

    def __init__(self, name, secret, check, key, expression):
        self.name, self.secret, self.check, self.key = name, secret, check, key
        self.find = re.compile(expression, re.A).search

    def apply(self, text):
        out, rest = [], text
        while True:
            m = self.find(rest)
            if m is None:
                return "".join(out) + rest
            begin, end = m.span(self.secret)
            if self._is_secret(rest, m):
                begin, end = _unquoted(rest, begin, end)
                out.append(rest[:begin] + S.HIDDEN)
                rest = rest[end:]
                continue
            after = begin if begin > m.start() else m.end()
            after = after or min(1, len(rest))
            out.append(rest[:after])
            rest = rest[after:]
            if not rest:
                return "".join(out)

    def _is_secret(self, text, m):
        begin, end = _unquoted(text, *m.span(self.secret))
        value, check = text[begin:end], self.check
        if not value or value == S.HIDDEN:
            return False
        if check == "value":
            return not is_nothing(value) and not is_reference("", value)
        if check == "opaque":
            return is_opaque(value)
        if check == "mixed":
            return is_mixed(value)
        if check == "random":
            return is_random(value, S.MIN_RANDOM)
        if check == "pair":
            return not (is_digits(m.group(1)) and is_digits(value)) and not is_nothing(value) and not is_reference("",
                value)
        if check == "named":
            if text[end:end + 1] in ("(", "["):
                return False
            bare = self.name == "pair" and begin == m.start(self.secret)
            how = LOOSE if bare and any(c in m.group(self.key + 1) for c in " :\t") else LITERAL
            return hides(m.group(self.key), value, how)
        return True


def _unquoted(text, begin, end):
    while begin < end and text[begin] in "\\\"'":
        begin += 1
    while begin < end and text[end - 1] in "\"'\\":
        end -= 1
    return begin, end


def hides(name, value, how):
    """Whether the value that belongs to a name is a secret."""
    kind = kind_of(name)
    if kind == PLAIN or not value or value == S.HIDDEN or is_nothing(value) or is_reference(name, value):
        return False
    if kind == PASSWORD:
        return not (name in ("PWD", "OLDPWD", "pwd") and value[0] == "/")
    if is_number(value) or is_path(value):
        return False
    if kind == VAGUE or how == LOOSE:
        return is_opaque(value)
    return len(value) >= S.MIN_NAMED


def kind_of(name):
    words = split_name(name)
    while len(words) > 1 and words[-1] in S.TRAILERS:
        words.pop()
    if not words:
        return PLAIN
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in S.ABOUT_WORDS and not (last == "url" and before in ("webhook", "hook")):
        return PLAIN
    found = PLAIN
    for word in words:
        if word in S.PASSWORD_WORDS or word.endswith(("password", "passwd", "passphrase")):
            found = max(found, PASSWORD)
        elif word in S.SECRET_WORDS or word.endswith(("secret", "apikey", "credentials")):
            found = max(found, SECRET)
    if found > PLAIN:
        return found
    if before + last in S.SECRET_WORDS:
        return SECRET
    if last in ("key", "keys"):
        return SECRET if before in S.KEY_QUALIFIERS else VAGUE
    if last == "token" and before not in S.TOKEN_QUALIFIERS or last == "tokens" and before in S.KEY_QUALIFIERS:
        return SECRET
    if last == "pass" and before in S.PASS_QUALIFIERS:
        return PASSWORD
    return VAGUE if last in S.VAGUE_WORDS else PLAIN


def split_name(name):
    words, begin = [], 0

    def put(end):
        nonlocal begin
        word = name[begin:end].rstrip("0123456789")
        if word:
            words.append(ascii_lower(word))
        begin = end
    for i, c in enumerate(name):
        if not is_alnum(c):
            put(i)
            begin = i + 1
        elif i > begin and is_upper(c) and not is_upper(name[i - 1]):
            put(i)
        elif i > begin and is_upper(c) and i + 1 < len(name) and is_lower(name[i + 1]):
            put(i)
    put(len(name))
    return words


def ascii_lower(s):
    return s.lower() if s.isascii() else "".join(c.lower() if "A" <= c <= "Z" else c for c in s)


def is_upper(c):
    return "A" <= c <= "Z"


def is_lower(c):
    return "a" <= c <= "z"


def is_digit(c):
    return "0" <= c <= "9"


def is_alnum(c):
    return is_upper(c) or is_lower(c) or is_digit(c)


def is_nothing(value):
    return ascii_lower(value) in S.NOTHINGS or value.startswith("--")


def is_reference(name, value):
    return _reference.match(value) is not None or name != "" and ascii_lower(value) == ascii_lower(name)


def is_number(value):
    return _number.match(value) is not None


def is_digits(value):
    return value != "" and not value.strip("0123456789")


def is_path(value):
    if _path.match(value) is None:
        return False
    return not any(is_random(part, 16) for part in value.replace("\\", "/").replace(".", "/").split("/"))


def is_mixed(value):
    upper, lower, digit = (any(map(test, value)) for test in (is_upper, is_lower, is_digit))
    return digit and (upper or lower) or upper and lower


def is_opaque(value):
    return (len(value) >= S.MIN_OPAQUE and is_mixed(value) and not any(c in _BLANKS for c in value)
            and not is_number(value)
            and not is_path(value) and not _is_wordy(value) and not _is_capitalised(value))


def _is_wordy(value):
    for separator in "_-/:,":
        value = value.replace(separator, ".")
    pieces = [p for p in value.split(".") if p]
    if len(pieces) < 2:
        return False
    for piece in pieces:
        word = piece.rstrip("0123456789")
        if len(piece) - len(word) > 4 and word or not _is_letters(word) or not _is_one_case(word):
            return False
    return True


def _is_letters(s):
    return all(is_upper(c) or is_lower(c) for c in s)


def _is_one_case(s):
    return not any(map(is_upper, s[1:])) or not any(map(is_lower, s[1:]))


def _is_capitalised(value):
    return _is_letters(value) and all(len(w) >= 3 for w in split_name(value))


def is_random(value, least):
    if len(value) < least or value.startswith("_Z"):
        return False
    _, dash, rest = value.partition("-")
    if dash and not rest.strip("0123456789abcdef-"):    # GPU-UUID
        return False
    counts = [0, 0, 0, 0]
    before = changes = count = same = 0
    for c in value:
        kind = 1 if is_upper(c) else 2 if is_lower(c) else 3 if is_digit(c) else 0
        if not kind:
            continue
        counts[kind] += 1
        count += 1
        if kind == before:
            same += 1
        else:
            same = 1
            changes += 1
        if kind != 3 and same >= S.MAX_SAME:
            return False
        before = kind
    return (count >= least * 4 // 5 and counts[1] >= 2 and counts[2] >= 2 and counts[3] >= 1
            and changes >= S.MIN_CHANGE * count)
