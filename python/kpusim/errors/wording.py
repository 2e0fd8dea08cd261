"""Messages of the core name options of the command; here they name the arguments that Python has for them."""

from __future__ import annotations

import re

#: Arguments that an option becomes; others have its name, with ``_``.
RENAMED = {
    "param": "params",
    "input": "inputs",
    "trace-filter": "units",
    "trace-window": "window",
    "trace-cause": "causes",
    "trace-op": "ops",
    "trace-every": "every",
}
#: Options that take a value.
VALUED = (
    "platform mode order timeout max-cycles seed top threshold events fill header precision calibrate keep "
    "accuracy wide-share report-accuracy calibration-method percentile export-qdq effort mapping "
    "write-mapping explain-mapping memory-map group-size layout batch inferences boundary positions "
    "print-after print-graph"
).split()
PAIRS = ("dim", "bind", "param", "input")
FLAGS = ("strict", "retarget", "force")
#: Options that Python has in another form, with what follows them.
OTHERS = {
    "--memory-trace beside --events": "events='accesses'",
    "--power-by op": "power_by='op'",
    "--set ": "",
    "with -I": "in search_paths",
}
#: Values that may follow an option: a placeholder, or one of the values that messages name.
VALUE = r"[A-Z]{2,}|random:\d+|values\+timing|timing|functional|zeros|int\d+|posit\d+|b?fp?\d+|\d+"
FOUND = re.compile(
    r"(?P<command>`kpusim [^`]*`)"
    rf"|(?P<other>{'|'.join(map(re.escape, OTHERS))})"
    rf"|--(?P<pair>{'|'.join(PAIRS)})\b(?: (?P<key>[\w.]+)(?:=(?P<item>\w+))?)?"
    rf"|--(?P<flag>{'|'.join(FLAGS)})(?![\w-])"
    rf"|--(?P<option>{'|'.join([*VALUED, *RENAMED])})(?![\w-])(?: (?P<value>{VALUE})(?!\w))?"
)


def argument(option: str) -> str:
    """Name of the argument that stands for an option."""
    return RENAMED.get(option, option.replace("-", "_"))


def in_python(text: str) -> str:
    """Return a message with arguments in place of options; commands in backquotes stay."""
    return FOUND.sub(replaced, text)


def replaced(found: re.Match[str]) -> str:
    """Replace one option."""
    if found["command"]:
        return found["command"]
    if found["other"]:
        return OTHERS[found["other"]]
    if found["flag"]:
        return f"{found['flag']}=True"
    if found["pair"]:
        name = argument(found["pair"])
        if found["item"]:
            return f"{name}={{'{found['key']}': {found['item']}}}"
        return f"{name}['{found['key']}']" if found["key"] else name
    name, value = argument(found["option"]), found["value"]
    if value is None:
        return name
    return f"{name}={value}" if value.isdigit() or value.isupper() else f"{name}={value!r}"
