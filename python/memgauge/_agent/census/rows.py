"""How a census writes its rows into the ring."""


def u32(number):
    return max(0, min(int(round(number)), 0xFFFFFFFF))


def _text(parts):
    """Joins the parts of a record's text. Separators within a part are removed, and long parts are cut, so that each
    has room."""
    return "\t".join(_clip(part.replace("\t", " ").replace("\n", " ")) for part in parts)


def _clip(text, most=600):
    return text if len(text) <= most else text[:most // 2 - 1] + "…" + text[-most // 2:]


def put_tensors(ring, text, fields):
    ring.tensors(_text(text), *fields)


def put_objects(ring, text, fields):
    ring.objects(_text(text), *fields)
