"""Where objects hang, as a tree of labels, and the tensors that hang at the same place."""

MAX_PLACES = 60_000    # a place takes some 200 bytes
PERIOD = 3             # labels at most in what a chain's path repeats: x['node'].next[*]


class Places:
    """The tree of places. 0 is nothing."""

    def __init__(self):
        self.parent, self.label, self.role, self.anchor = [0], [""], [0], [0]
        self._labels, self._known = {}, {}
        self.folded = set()          # places at which all further links of a chain lie

    def at(self, parent, label, role=None):
        number = self._labels.get(label)
        if number is None:
            number = self._labels[label] = len(self._labels) + 1
        key = parent << 24 | number
        place = self._known.get(key)
        if place is None:
            if len(self.parent) >= MAX_PLACES or number >= 1 << 24:
                return parent
            again = self._again(parent, label)
            if again:
                self._known[key] = again
                self.folded.add(again)
                return again
            place = self._known[key] = len(self.parent)
            self.parent.append(parent)
            self.label.append(label)
            self.role.append(self.role[parent] if role is None else role)
            self.anchor.append(self.anchor[parent])
        return place

    def _again(self, parent, label):
        """The place where a path that has repeated itself twice has been before, else 0: x.prev.prev.prev lies at
        x.prev.prev, and a tree's x.children[*].children[*].children at x.children[*].children. Modules in modules are
        not so many."""
        ahead, labels = parent, [label]
        for _ in range(2 * PERIOD):
            if not self.parent[ahead]:   # roots are no links
                break
            labels.append(self.label[ahead])
            ahead = self.parent[ahead]
        for period in range(1, PERIOD + 1):
            if len(labels) > 2 * period and labels[:period + 1] == labels[period:2 * period + 1] \
                    and "._modules" not in labels[:period]:
                place = parent
                for _ in range(period - 1):
                    place = self.parent[place]
                return place
        return 0

    def path(self, place):
        labels = self.labels(place)
        return tidy("".join(labels)) if labels else ""

    def root(self, place):
        while self.parent[place]:
            place = self.parent[place]
        return self.label[place]

    def labels(self, place):
        out = []
        while place and len(out) < 60:
            out.append(self.label[place])
            place = self.parent[place]
        return out[::-1]


def tidy(path):
    """nn.Module keeps its parts in dicts of its own; people write them as attributes."""
    for table in ("._modules", "._parameters", "._buffers"):
        while True:
            begin = path.find(table + "['")
            end = path.find("']", begin)
            if begin < 0 or end < 0:
                break
            path = path[:begin] + "." + path[begin + len(table) + 2:end] + path[end + 2:]
    return path


TENSOR_ROLE, PARAMETER, BUFFER, GRADIENT, OPTIMIZER = range(5)
ROLES = ("tensor", "parameter", "buffer", "gradient", "optimizer")


class Groups:
    """Tensors of the same place, role, type and device."""

    def __init__(self):
        self.index = {}
        self.place, self.role, self.dtype, self.device = [], [], [], []
        self.count, self.bytes, self.fresh, self.oldest, self.estimated = [], [], [], [], []
        self.shapes = []

    def add(self, place, role, shape, dtype, device, size, weight, fresh, first):
        key = hash((place, role, dtype, device))
        i = self.index.get(key)
        if i is None:
            i = self.index[key] = len(self.place)
            for column, value in ((self.place, place), (self.role, role), (self.dtype, dtype), (self.device, device),
                                  (self.count, 0), (self.bytes, 0), (self.fresh, 0), (self.oldest, 0),
                                  (self.estimated, False), (self.shapes, {})):
                column.append(value)
        self.count[i] += weight
        self.bytes[i] += size * weight
        self.fresh[i] += weight * fresh
        if first and (not self.oldest[i] or first < self.oldest[i]):
            self.oldest[i] = first
        self.estimated[i] = self.estimated[i] or weight != 1
        shapes = self.shapes[i]
        if shape in shapes or len(shapes) < 8:
            shapes[shape] = shapes.get(shape, 0) + weight
