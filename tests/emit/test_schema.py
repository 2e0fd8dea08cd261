"""The promises of docs/emit_programs.md: numbers are never used again, what is not known is refused.

usage: KPUSIM=path/to/kpusim PROTOC=path/to/protoc python -m unittest test_schema
       PROTOC=path/to/protoc python test_schema.py --update    adds what is new in the schema to schema.txt
"""

from __future__ import annotations

import struct
import sys
import tempfile
import unittest
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2, text_format
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto
from google.protobuf.message import Message
from support import files, kpusim, program_class, schema

LIST = Path(__file__).with_name("schema.txt")


def types(
    schema_files: Iterable[descriptor_pb2.FileDescriptorProto],
) -> Iterator[tuple[str, DescriptorProto | EnumDescriptorProto]]:
    """Messages and enumerations by their full names, nested ones too."""

    def inside(
        scope: str, message: DescriptorProto
    ) -> Iterator[tuple[str, DescriptorProto | EnumDescriptorProto]]:
        name = f"{scope}.{message.name}"
        yield name, message
        for enum in message.enum_type:
            yield f"{name}.{enum.name}", enum
        for nested in message.nested_type:
            yield from inside(name, nested)

    for file in schema_files:
        for enum in file.enum_type:
            yield f"{file.package}.{enum.name}", enum
        for message in file.message_type:
            yield from inside(file.package, message)


def row_of(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    """Return what a field means to bytes and texts: name and type."""
    label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
    kind = (
        field.type_name.lstrip(".")
        or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    )
    group = f" of {message.oneof_decl[field.oneof_index].name}" if field.HasField("oneof_index") else ""
    return f"{field.name} {label} {kind}{group}"


def rows(schema_files: Iterable[descriptor_pb2.FileDescriptorProto]) -> dict[tuple[str, int], str]:
    """Return every field and value by type and number."""
    result = {}
    for name, entry in types(schema_files):
        if isinstance(entry, DescriptorProto):
            result.update({(name, field.number): row_of(entry, field) for field in entry.field})
        else:
            result.update({(name, value.number): f"{value.name} value" for value in entry.value})
    return result


def reserved(schema_files: Iterable[descriptor_pb2.FileDescriptorProto]) -> dict[str, set[int]]:
    """Return the numbers that each type has reserved."""
    return {
        name: {
            number
            for numbers in entry.reserved_range
            for number in range(numbers.start, numbers.end + isinstance(entry, EnumDescriptorProto))
        }
        for name, entry in types(schema_files)
    }


def listed() -> dict[tuple[str, int], str]:
    """Return the rows of the list."""
    result = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        name, number, row = line.split(" ", 2)
        result[name, int(number)] = row
    return result


def complaints(
    schema_files: list[descriptor_pb2.FileDescriptorProto], known: dict[tuple[str, int], str]
) -> list[str]:
    """List what a schema does to the numbers of a list that it must not do, and what the list lacks."""
    now, kept = rows(schema_files), reserved(schema_files)
    said = []
    for (name, number), row in known.items():
        if (name, number) in now:
            if now[name, number] != row:
                said.append(
                    f"{name} {number} was `{row}` and is `{now[name, number]}`. Fix: take another number."
                )
        elif number not in kept.get(name, set()):
            said.append(f"{name} {number} (`{row}`) is gone. Fix: write `reserved {number};` in its place.")
    said += [
        f"{name} {number} (`{row}`) is new. Fix: run `python tests/emit/test_schema.py --update`."
        for (name, number), row in now.items()
        if (name, number) not in known
    ]
    return said


class NumbersTest(unittest.TestCase):
    """The schema beside the list of every number that a version has had."""

    def changed(self, change: str) -> list[str]:
        """Complaints about the schema with one change to the message Task."""
        schema_files = files(schema())
        task = next(entry for name, entry in types(schema_files) if name == "kpu.proto.Task")
        assert isinstance(task, DescriptorProto)
        sync = next(field for field in task.field if field.name == "sync")
        if change in ("removed", "reserved"):
            task.field.remove(sync)
        if change == "reserved":
            task.reserved_range.add(start=3, end=4)
        if change == "renamed":
            sync.name = "synchronous"
        if change == "retyped":
            sync.type = FieldDescriptorProto.TYPE_STRING
        if change == "renumbered":
            sync.number = 77
        return complaints(schema_files, listed())

    def test_the_schema_keeps_the_list(self) -> None:
        """Every number has the name and type that it always had, or is reserved."""
        self.assertEqual(complaints(files(schema()), listed()), [])

    def test_what_breaks_it_is_found(self) -> None:
        """A field that is removed, renamed, retyped or renumbered; one that is reserved is well removed."""
        self.assertEqual(self.changed("reserved"), [])
        for change, number_of_complaints, words in (
            ("removed", 1, "kpu.proto.Task 3 (`sync optional bool`) is gone"),
            ("renamed", 1, "was `sync optional bool` and is `synchronous optional bool`"),
            ("retyped", 1, "was `sync optional bool` and is `sync optional string`"),
            ("renumbered", 2, "kpu.proto.Task 3 (`sync optional bool`) is gone"),
        ):
            said = self.changed(change)
            self.assertEqual(len(said), number_of_complaints, said)
            self.assertIn(words, said[0])


class NewerTest(unittest.TestCase):
    """Files of a version that knows more, before the reader of now."""

    def setUp(self) -> None:
        """A schema with a field, a value and a part more, and a program that may use them."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "newer"
        schema_files = files(schema())
        by_name = dict(types(schema_files))
        task, elem = by_name["kpu.proto.Task"], by_name["kpu.proto.ElemType"]
        assert isinstance(task, DescriptorProto) and isinstance(elem, EnumDescriptorProto)
        task.field.add(
            name="urgency", number=99, type=FieldDescriptorProto.TYPE_UINT32, label="LABEL_OPTIONAL"
        )
        elem.value.add(name="TERNARY", number=99)
        self.program = text_format.Parse(
            "buffer { name: 'x' level: L2 size { token { value: 64 } } }"
            "region { offset { token { } } extent { token { value: 32 } } }"
            "region { offset { token { value: 32 } } extent { token { value: 32 } } }"
            "statement { task { input { region: 0 } output { region: 1 } } }",
            program_class(schema_files)(),
        )

    def said(self, content: bytes) -> str:
        """Return what `check` says of a file."""
        self.path.write_bytes(content)
        return kpusim("check", self.path).stdout

    def forms(self, program: Message) -> Iterator[bytes]:
        """A program serialized, and as text."""
        yield program.SerializeToString()
        yield text_format.MessageToString(program).encode()

    def test_a_newer_file_without_news_is_read(self) -> None:
        """The fields that it does not use leave no trace."""
        for content in self.forms(self.program):
            self.assertNotIn("error", self.said(content))

    def test_a_field_is_refused_by_name(self) -> None:
        """With its byte or line; never ignored, though proto3 would."""
        self.program.statement[0].task.urgency = 7
        serialized, text = self.forms(self.program)
        byte = serialized.index(bytes([99 << 3 & 0x7F | 0x80, 99 >> 4, 7]))
        self.assertIn(
            f"at byte {byte} (KPUProgram.statement[0].task): message Task has field 99, which this "
            "version does not know",
            self.said(serialized),
        )
        line = 1 + next(i for i, line in enumerate(text.decode().splitlines()) if "urgency" in line)
        self.assertIn(f"newer:{line}:", self.said(text))
        self.assertIn("unknown field `urgency` of Task", self.said(text))

    def test_a_value_is_refused_by_name(self) -> None:
        """An element type of tomorrow."""
        for region in self.program.region:
            region.elem = 99
            region.shape.add().token.add(value=32)
        serialized, text = self.forms(self.program)
        self.assertIn(
            "field Region.elem has value 99, which this version does not know", self.said(serialized)
        )
        self.assertIn(
            "`TERNARY` is not a value of `elem`. Fix: give one of ELEM_NONE, I4, I8", self.said(text)
        )

    def test_a_container_is_refused_by_version_and_kind(self) -> None:
        """Its version before anything else, and a field in it as that of a message alone."""
        container = self.path.with_name("made.kpu")
        self.said(self.program.SerializeToString())
        self.assertEqual(kpusim("asm", self.path, "-o", container).returncode, 0)
        content = bytearray(container.read_bytes())
        struct.pack_into("<I", content, 8, 2)
        self.assertIn("container version 2 is not supported (this is version 1)", self.said(bytes(content)))


def update() -> None:
    """Add what is new to the list; what is there stays."""
    known = listed() if LIST.exists() else {}
    merged = {**rows(files(schema())), **known}
    LIST.write_text(
        "".join(f"{name} {number} {row}\n" for (name, number), row in sorted(merged.items())),
        encoding="utf-8",
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
