"""Steps out of their pieces: time, energy, bytes, and what bounds them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kpusim.base.arguments import path_text, whole_number
from kpusim.errors import UserError
from kpusim.llm.architecture import Model
from kpusim.llm.experts import Routing
from kpusim.llm.families import read_model
from kpusim.llm.formats import Formats
from kpusim.llm.layers import Step
from kpusim.llm.running import Processes
from kpusim.llm.work import Piece, graph_of, pieces_of, resident_bytes
from kpusim.llm.worker import Measured, Task
from kpusim.platform import OverrideValue, Platform, override_list

StrPath = str | os.PathLike[str]
#: File of a piece's model; `kind` is whole, head or layer.
MODEL_FILE = "{number}_{kind}.onnx"
LONGEST = 1 << 20  #: prompt or context
MOST_BATCH = 1 << 16


@dataclass(frozen=True)
class Simulated:
    """A piece with what it took.

    Attributes
    ----------
    weight_bytes, cache_read_bytes, cache_written_bytes : float
        What it moves at least: its weights, and its keys and values, once.
    """

    piece: Piece
    measured: Measured
    weight_bytes: float
    cache_read_bytes: int
    cache_written_bytes: int


@dataclass(frozen=True)
class Row:
    """A step: a prompt, or one more token of each sequence.

    Attributes
    ----------
    phase : {"prompt", "token"}
        Which of both.
    length : int
        Tokens of the prompt, or positions in the cache before the new token.
    batch : int
        Sequences.
    time_us : float
        To the first token, or for one more of each sequence.
    tokens_per_s : float
        Of all sequences: of the prompt, or new ones.
    energy_per_token_uj : float
        NaN where energy is not modelled.
    dram_bytes, compulsory_bytes : float
        Moved; and weights once, the cache once, and new positions once.
    resident_bytes : float
        All weights and the cache: what DRAM has to hold.
    least_us : float
        `time_us` if nothing took time but the arrays at their peak, or DRAM at its bandwidth with the
        compulsory bytes: whichever takes longer.
    parts : dict of str to int
        Cycles by part of the model, most first; they sum to `cycles`.
    bounds : dict of str to int
        Cycles by the resource that bounds the operations they are charged to, most first.
    bound_cycles : dict of str to int
        What these resources take at least for those operations.
    """

    phase: str
    length: int
    batch: int
    cycles: int
    time_us: float
    tokens_per_s: float
    energy_uj: float
    energy_per_token_uj: float
    dram_bytes: float
    compulsory_bytes: float
    weight_bytes: float
    cache_bytes: int
    resident_bytes: float
    compute_utilization: float
    least_us: float
    parts: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, int] = field(default_factory=dict)
    bound_cycles: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimate:
    """Result of :func:`estimate`.

    Attributes
    ----------
    rows : list of Row
        A row for each prompt, context and batch.
    pieces : list of tuple
        What was simulated, with how often each row takes it: ``(Simulated, {row: count})``.
    notes : list of str
        Assumptions, and what the compiler said.
    """

    model: Model
    formats: Formats
    platform: Platform
    routing: Routing
    whole: bool
    rows: list[Row]
    pieces: list[tuple[Simulated, dict[int, int]]]
    notes: list[str]


def estimate(
    config: StrPath | Model,
    platform: Platform | StrPath = "npm_pro",
    *,
    prompt: Sequence[int] = (128,),
    context: Sequence[int] = (1024,),
    batch: Sequence[int] = (1,),
    precision: str = "int4",
    kv: str | None = None,
    routing: str = "uniform",
    whole: bool = False,
    workers: int | None = None,
    models: StrPath | None = None,
    progress: Callable[[int, int], None] | None = None,
    sets: Mapping[str, OverrideValue] | None = None,
    **options: str,
) -> Estimate:
    """Estimate how fast a language model would be on a device.

    A layer of each kind, and the head, are compiled and simulated for each prompt, context and batch; the
    model is their sum.

    Parameters
    ----------
    config : path or Model
        A ``config.json`` of `transformers`.
    platform : Platform, str or path
        The device.
    prompt, context, batch : sequence of int
        Tokens that come at once; positions in the cache before a new token; sequences.
    precision : {"f32", "fp16", "bf16", "int8", "int4"}
        Of the weights.
    kv : str, optional
        Type of the cache: int8, else the float type.
    routing : str
        Which experts tokens choose: ``uniform`` or ``skewed:S``.
    whole : bool
        Compile all layers as one program instead.
    workers : int, optional
        Processes at a time; one for each core by default.
    models : path, optional
        An existing folder for the ONNX models of the pieces.
    progress : callable, optional
        Called with how many pieces are done, and how many there are.
    sets : mapping, optional
        Parameters of the platform.
    **options
        Of the compiler, such as ``effort="1"``.

    Raises
    ------
    UserError
        For a configuration that is not modelled, and whatever the compiler refuses.

    Examples
    --------
    >>> import kpusim.llm
    >>> found = kpusim.llm.estimate("tests/llm/configs/tiny_llama.json", context=[64])  # doctest: +SKIP
    >>> found.rows[0].tokens_per_s  # doctest: +SKIP
    """
    model = config if isinstance(config, Model) else read_model(Path(path_text(config)))
    formats, chosen = Formats.of(precision, kv), Routing.of(routing)
    device = platform if isinstance(platform, Platform) else Platform.load(platform)
    device = device.with_(**sets) if sets else device
    steps = [Step(b, s, None) for b in _sizes(batch, "batch", MOST_BATCH) for s in _sizes(prompt, "prompt")]
    steps += [Step(b, 1, c) for b in _sizes(batch, "batch", MOST_BATCH) for c in _sizes(context, "context")]
    if not steps:
        raise UserError("there is neither a prompt nor a context. Fix: give one of them.")
    counts = [pieces_of(model, step, whole=whole) for step in steps]
    pieces = list(dict.fromkeys(piece for found in counts for piece in found))
    with tempfile.TemporaryDirectory(prefix="kpusim_llm_") as temporary:
        folder = Path(path_text(models) if models is not None else temporary)
        device_file = Path(temporary) / "platform.textproto"
        device_file.write_text(device.text())
        simulated = _simulated(
            pieces, model, formats, chosen, folder, str(device_file), options, workers, progress
        )
    by_piece = dict(zip(pieces, simulated, strict=True))
    rows = [
        _row(step, found, by_piece, resident_bytes(model, step, formats))
        for step, found in zip(steps, counts, strict=True)
    ]
    used = [
        (one, {row: found[one.piece] for row, found in enumerate(counts) if one.piece in found})
        for one in simulated
    ]
    notes = [*_assumptions(model, formats, chosen, whole), *dict.fromkeys(_told(simulated))]
    return Estimate(model, formats, device, chosen, whole, rows, used, notes)


def _sizes(values: Sequence[int], name: str, most: int = LONGEST) -> list[int]:
    """Return the sizes, each once.

    Raises
    ------
    UserError
        For one that is none.
    """
    for value in values:
        if whole_number(value, name, 1) > most:
            raise UserError(f"{name} {value} is more than {most}. Fix: give a smaller one.")
    return list(dict.fromkeys(values))


def _simulated(
    pieces: list[Piece], model: Model, formats: Formats, routing: Routing, folder: Path, platform: str,
    options: Mapping[str, str], workers: int | None, progress: Callable[[int, int], None] | None,
) -> list[Simulated]:  # fmt: skip
    """Simulate each piece."""
    graphs, tasks = [], []
    for number, piece in enumerate(pieces):
        graph = graph_of(piece, model, formats, routing)
        kind = "whole" if piece.whole else "head" if piece.layer is None else "layer"
        path = folder / MODEL_FILE.format(number=number, kind=kind)
        graph.save(path)
        graphs.append(graph)
        given = {"precision": formats.compiled(graph.has_steps), **options}
        tasks.append((Task(piece.name(), str(path), platform, given), graph.weight_bytes))
    count = workers if workers is not None else os.cpu_count() or 1
    processes = Processes(whole_number(count, "workers", 1))
    done = None if progress is None else lambda number: progress(number, len(tasks))
    results = processes.run(tasks, done)
    return [
        Simulated(piece, found, graph.weight_bytes, graph.cache_read_bytes, graph.cache_written_bytes)
        for piece, graph, found in zip(pieces, graphs, results, strict=True)
    ]


def _row(
    step: Step, counts: Mapping[Piece, int], by_piece: Mapping[Piece, Simulated], resident: float
) -> Row:
    found = [(by_piece[piece], count) for piece, count in counts.items()]

    def total(key: str) -> float:
        return sum(one.measured.stats.get(key, float("nan")) * count for one, count in found)

    cycles = int(total("cycles.total"))
    time_us, energy = total("time.total_us"), total("energy.total_uj")
    tokens = step.rows
    weights = sum(one.weight_bytes * count for one, count in found)
    cache = sum((one.cache_read_bytes + one.cache_written_bytes) * count for one, count in found)
    parts: dict[str, int] = {}
    bounds: dict[str, int] = {}
    bound_cycles: dict[str, int] = {}
    for one, count in found:
        for row in one.measured.operations:
            parts[row.part] = parts.get(row.part, 0) + row.cycles * count
            bounds[row.bound] = bounds.get(row.bound, 0) + row.cycles * count
            bound_cycles[row.bound] = bound_cycles.get(row.bound, 0) + row.bound_cycles * count
    compute, dram = (
        sum(one.measured.stats[key] * one.measured.stats["cycles.total"] * count for one, count in found)
        for key in ("utilization.compute", "utilization.dram_bandwidth")
    )
    moved, compulsory = total("bytes.dram.read") + total("bytes.dram.write"), weights + cache
    least = max(compute, dram * compulsory / moved)
    return Row(
        phase="token" if step.context is not None else "prompt",
        length=step.tokens if step.context is None else step.context,
        batch=step.batch,
        cycles=cycles,
        time_us=time_us,
        tokens_per_s=tokens / time_us * 1e6,
        energy_uj=energy,
        energy_per_token_uj=energy / tokens,
        dram_bytes=moved,
        compulsory_bytes=compulsory,
        weight_bytes=weights,
        cache_bytes=cache,
        resident_bytes=resident,
        compute_utilization=compute / cycles,
        least_us=least / cycles * time_us,
        parts=_most_first(parts),
        bounds=_most_first(bounds),
        bound_cycles=bound_cycles,
    )


def _most_first(cycles: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(cycles.items(), key=lambda item: -item[1]))


def _assumptions(model: Model, formats: Formats, routing: Routing, whole: bool) -> list[str]:
    notes = [f"{model.name}: {remark}" for remark in model.remarks]
    notes.append(
        f"weights {formats.precision}, cache {formats.cache}, "
        f"{'all layers in one program' if whole else 'layers simulated alone and added up'}; "
        "embeddings are looked up by the host; sampling, tokenizer and host are not modelled"
    )
    experts = {one.feed for one in model.layers if one.feed.experts}
    notes += [
        f"of {one.experts} experts each token chooses {one.chosen}, {routing}: an assumption, without values"
        for one in experts
    ]
    return notes


#: Begins of the compiler's remarks that say what was asked for.
USUAL = ("stays in floats", "compiled for")


def _told(simulated: Sequence[Simulated]) -> list[str]:
    """Return what the compiler remarked, but for what is usual, and how many engines work."""
    notes = [note for one in simulated for note in one.measured.notes]
    return [note for note in notes if not note.startswith(USUAL) and "engines work" not in note]


def overrides_of(texts: Sequence[str]) -> dict[str, OverrideValue]:
    """Parameters of the platform, ``NAME=VALUE`` each.

    Raises
    ------
    UserError
        For what is none.
    """
    found: dict[str, OverrideValue] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise UserError(f"`{text}` is not NAME=VALUE. Fix: write such as ddr.channels=2.")
        found[name] = value
    override_list(found)
    return found
