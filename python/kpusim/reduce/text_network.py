"""Graphs as the compiler prints them, that nodes are left out of."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kpusim.errors import UserError

NAME = r'(?:"(?:[^"\\]|\\.)*"|[\w./$@-]+)'
VALUE = re.compile(f"%({NAME})")
NODE = re.compile(
    rf"  (?P<made>%{NAME}(?:, %{NAME})*) = (?P<opcode>\w+(?:\.\w+)*)\((?P<read>[^()]*)\)"
    r"(?: \{(?P<attributes>(?:\"(?:[^\"\\]|\\.)*\"|[^{}\"])*)\})?  (?P<types>\w+\[.*?)"
    r"(?P<rest>  (?:from|group|anchor|alone|strips|kept)\b.*)?"
)
PORT = re.compile(rf"  (?P<role>input|output) (?P<name>{NAME}): %(?P<value>{NAME}) (?P<type>.*?)  host .*")


@dataclass(frozen=True)
class TextNode:
    """A line of a node.

    Attributes
    ----------
    line : str
        It.
    made, read, types : tuple of str
        Values that it makes and reads, quoted as they stand, and the types of what it makes.
    attributes : tuple of str
        Each as it stands.
    """

    line: str
    made: tuple[str, ...]
    read: tuple[str, ...]
    types: tuple[str, ...]
    attributes: tuple[str, ...]

    @classmethod
    def parse(cls, line: str) -> TextNode | None:
        """Read one; None where the line is of something else."""
        match = NODE.fullmatch(line)
        if match is None:
            return None
        attributes = re.findall(r'\w+=(?:"(?:[^"\\]|\\.)*"|\S+)', match["attributes"] or "")
        return cls(line, tuple(VALUE.findall(match["made"])), tuple(VALUE.findall(match["read"])),
                   tuple(match["types"].split(", ")), tuple(attributes))  # fmt: skip


class TextNetwork:
    """A text, by its lines.

    Attributes
    ----------
    size : int
        Nodes.
    """

    suffix = ".txt"

    def __init__(
        self, head: list[str], ports: list[str], constants: list[str], nodes: list[TextNode],
        absent: list[str], types: dict[str, str], data: Path | None,
    ) -> None:  # fmt: skip
        self.head, self.ports, self.constants, self.nodes = head, ports, constants, nodes
        self.absent, self.types, self.data = absent, types, data
        self.size = len(nodes)

    @classmethod
    def load(cls, path: Path) -> TextNetwork:
        """Read one; its constants may stand in a file beside it."""
        head: list[str] = []
        ports: list[str] = []
        constants: list[str] = []
        nodes: list[TextNode] = []
        absent: list[str] = []
        types: dict[str, str] = {}
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="surrogateescape").splitlines(), 1
        ):
            node = TextNode.parse(line)
            port = PORT.fullmatch(line)
            if not line.strip() or line.startswith("#") or line.startswith(("  values ", "  gone ")):
                continue  # ids and names of values are new ones anyway
            if node is not None:
                nodes.append(node)
                types.update(zip(node.made, node.types, strict=True))
            elif port is not None:
                ports.append(line)
                types[port["value"]] = port["type"]
            elif line.startswith("  constant "):
                constants.append(line)
            elif line.startswith("  absent "):
                absent.append(line)
            elif re.match(r"graph |  passed |  model |  constants ", line):
                head.append(line)
            else:
                raise UserError(
                    f"{path}:{number}:1: error: this is not a line of a graph. Fix: print it again."
                )
        data = path.with_name(path.name + ".bin")
        return cls(head, ports, constants, nodes, absent, types, data if data.is_file() else None)

    def kept(self, nodes: Sequence[int]) -> TextNetwork | None:
        """Implement Network."""
        return self._with([self.nodes[i] for i in nodes])

    def _with(self, nodes: list[TextNode]) -> TextNetwork | None:
        made = {name for node in nodes for name in node.made}
        read = list(dict.fromkeys(name for node in nodes for name in node.read))
        constants = [line for line in self.constants if VALUE.findall(line)[0] in read]
        known = made | {VALUE.findall(line)[0] for line in constants}
        ports = [PORT.fullmatch(line) for line in self.ports]
        lines = [
            port[0] for port in ports
            if port is not None and port["value"] in (read if port["role"] == "input" else made)
        ]  # fmt: skip
        given = {port["value"] for port in ports if port is not None and port["role"] == "input"}
        for name in read:
            if name not in known and name not in given:
                lines.append(self._port("input", name))
        ended = {port["value"] for port in ports if port is not None and port["role"] == "output"}
        ends = [name for node in nodes for name in node.made if name not in read and name not in ended]
        lines += [self._port("output", name) for name in ends]
        if not any(line.startswith("  output ") for line in lines):
            return None
        absent = [line for line in self.absent if line.split()[1] in read]
        return TextNetwork(self.head, lines, constants, nodes, absent, self.types, self.data)

    def _port(self, role: str, name: str) -> str:
        type_ = self.types[name]
        return f"  {role} {name}: %{name} {type_}  host {type_.partition('[')[0]}"

    def smaller(self) -> Iterator[tuple[str, TextNetwork]]:
        """Implement Network: outputs, then attributes."""
        outputs = [line for line in self.ports if line.startswith("  output ")]
        for line in outputs if len(outputs) > 1 else ():
            ports = [other for other in self.ports if other != line]
            what = line.split(":", 1)[0].strip()
            yield (
                what,
                TextNetwork(self.head, ports, self.constants, self.nodes, self.absent, self.types, self.data),
            )
        for place, node in enumerate(self.nodes):
            for attribute in node.attributes:
                rest = " ".join(other for other in node.attributes if other != attribute)
                old = " {" + " ".join(node.attributes) + "}"
                line = node.line.replace(old, " {" + rest + "}" if rest else "", 1)
                changed = TextNode.parse(line)
                if changed is not None and line != node.line:
                    nodes = [*self.nodes[:place], changed, *self.nodes[place + 1 :]]
                    yield (
                        f"attribute {attribute} of %{node.made[0]}",
                        TextNetwork(
                            self.head, self.ports, self.constants, nodes, self.absent, self.types, self.data
                        ),
                    )

    def content(self) -> bytes:
        """Implement Network."""
        inputs = [line for line in self.ports if line.startswith("  input ")]
        outputs = [line for line in self.ports if line.startswith("  output ")]
        lines = [
            *self.head,
            *inputs,
            *self.constants,
            *(node.line for node in self.nodes),
            *outputs,
            *self.absent,
        ]
        return ("\n".join(lines) + "\n").encode(errors="surrogateescape")

    def write(self, path: Path) -> None:
        """Implement Network."""
        path.write_bytes(self.content())
        if self.data is not None:
            shutil.copyfile(self.data, path.with_name(path.name + ".bin"))

    def summary(self) -> str:
        """Implement Network."""
        inputs = sum(line.startswith("  input ") for line in self.ports)
        attributes = sum(len(node.attributes) for node in self.nodes)
        return (
            f"{self.size} nodes, {inputs} inputs, {len(self.ports) - inputs} outputs, "
            f"{len(self.constants)} constants, {attributes} attributes"
        )
