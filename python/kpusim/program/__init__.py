"""Programs: read from files of any front end, compiled from networks, checked, written."""

from kpusim.program.program import Program, StrPath, compile, load, unpickled

__all__ = ["Program", "StrPath", "compile", "load", "unpickled"]
