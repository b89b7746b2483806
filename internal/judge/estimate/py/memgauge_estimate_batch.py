"""The batch size of a program: where it says it, and how it is multiplied."""
import ast
import json
import os
import re

import torch.utils.data


class Batch:
    """Finds where the program says its batch size, and multiplies it."""
    NAME = re.compile(r"^(per_device_)?(train_)?(micro_?|mini_?)?(batch|batch_?size|bs)$", re.I)
    FLAG = re.compile(r"^(--(per[-_]device[-_])?(train[-_])?(micro[-_]?|mini[-_]?)?(batch[-_]?size|batch|bs)|-b)"
                      r"(=(\d+))?$")
    PLACE = re.compile(r"\{batch:(\d+)\}")

    def __init__(self, log, factor):
        self.log = log
        self.factor = factor
        self.found = []
        self.names = False
        self.said = False  # by the command line; else numbers that differ could each be the batch size

    def scaled(self, value, where):
        self.found.append((value, where))
        return max(1, round(value * self.factor))

    def arguments(self, argv):
        """argv with its batch size multiplied. A literal of the program that it overrides is found too, harmlessly."""
        out, take = [], False
        for word in argv:
            if take and word.isdigit():
                word = str(self.scaled(int(word), out[-1]))
            flag = self.FLAG.match(word)
            take = bool(flag) and flag.group(6) is None
            if flag and flag.group(7):
                word = "%s=%d" % (flag.group(1), self.scaled(int(flag.group(7)), flag.group(1)))
            out.append(self.PLACE.sub(lambda m: str(self.scaled(int(m.group(1)), "{batch:N}")), word))
        return out

    def tree(self, source, name):
        """The syntax tree of a script with its literal batch sizes multiplied."""
        tree = ast.parse(source, name)
        for node in ast.walk(tree):
            for target, value in self.pairs(node):
                self.literal(target, value, name)
        return tree

    def pairs(self, node):
        """Names and the expressions that they get: assignments, keywords, dicts, defaults, argparse."""
        if isinstance(node, ast.Assign):
            for t in node.targets:
                yield from self.unpack(t, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from self.unpack(node.target, node.value)
        elif isinstance(node, ast.Dict):
            for k, v in zip(node.keys, node.values):
                if isinstance(k, ast.Constant) and isinstance(k.value, str):
                    yield k.value, v
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
            named = node.args.args[len(node.args.args) - len(node.args.defaults):]
            yield from ((a.arg, v) for a, v in zip(named, node.args.defaults))
            yield from ((a.arg, v) for a, v in zip(node.args.kwonlyargs, node.args.kw_defaults) if v is not None)
        elif isinstance(node, ast.Call):
            flags = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            names = [f.lstrip("-").replace("-", "_") for f in flags if f.startswith("-")]
            for k in node.keywords:
                if k.arg == "default" and names:
                    yield next((n for n in names if self.NAME.match(n)), names[0]), k.value
                elif k.arg:
                    yield k.arg, k.value

    def unpack(self, target, value):
        if isinstance(value, ast.IfExp):
            yield from self.unpack(target, value.body)
            yield from self.unpack(target, value.orelse)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for t, v in zip(target.elts, value.elts):
                yield from self.unpack(t, v)
        elif isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Attribute):
            yield target.attr, value

    def literal(self, name, value, path):
        if self.NAME.match(name) and isinstance(value, ast.Constant) and type(value.value) is int and value.value > 0:
            value.value = self.scaled(value.value, "%s:%d %s" % (os.path.basename(path), value.lineno, name))

    def loaders(self):
        """Where the program's text has none, the batch sizes of DataLoaders are multiplied."""
        loader, this = torch.utils.data.DataLoader, self
        original = loader.__init__

        def init(self, dataset, batch_size=1, *args, **kwargs):
            if not this.names and this.usable(batch_size):
                batch_size = this.scaled(batch_size, "DataLoader")
            kwargs.update(num_workers=0, pin_memory=False)  # workers take nothing of the device
            for name in ("persistent_workers", "prefetch_factor", "multiprocessing_context"):
                kwargs.pop(name, None)
            original(self, dataset, batch_size, *args[:3], **kwargs)
            this.tell()
        loader.__init__ = init

    @staticmethod
    def usable(value):
        return type(value) is int and value > 0

    def tell(self):
        if self.found and (self.said or len({value for value, _ in self.found}) == 1):
            value, where = self.found[0]
            self.log.write("batch", value, max(1, round(value * self.factor)), json.dumps(where))
