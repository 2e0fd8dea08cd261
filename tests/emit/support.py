"""Helpers for the tests of emitted programs: the schema, its Python classes, and the command."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

ROOT = Path(__file__).resolve().parents[2]


def kpusim(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [os.environ["KPUSIM"], *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@cache
def schema() -> bytes:
    """Return a FileDescriptorSet of the program's schema, as protoc makes it."""
    arguments = ["-I", ROOT, "--include_imports", "--descriptor_set_out=/dev/stdout", "isa/kpu_program.proto"]
    command = [os.environ["PROTOC"], *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, timeout=100).stdout


def files(content: bytes) -> list[descriptor_pb2.FileDescriptorProto]:
    """Return the files of a set; the ones that are imported come first."""
    return list(descriptor_pb2.FileDescriptorSet.FromString(content).file)


def program_class(schema_files: list[descriptor_pb2.FileDescriptorProto]) -> type[Message]:
    """KPUProgram of a schema."""
    pool = descriptor_pool.DescriptorPool()
    for file in schema_files:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("kpu.proto.KPUProgram"))
