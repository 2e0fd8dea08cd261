"""Memory trace, Perfetto and Konata exports, read back by readers that share nothing with the writers.

usage: KPUSIM=path/to/kpusim python -m unittest test_traces   (needs the `perfetto` package)
"""

from __future__ import annotations

import csv
import itertools
import json
import tempfile
import unittest
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from command import GEMM, kpusim
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KINDS = (
    "issue",
    "loop",
    "ready",
    "begin",
    "end",
    "cause",
    "counter",
    "flow",
    "op",
    "energy",
    "active",
    "work",
    "access",
    "bank",
)


@dataclass
class Record:
    """A record of an event file."""

    time: int
    value: int
    task: int
    op: int
    unit: int
    kind: str
    cause: int


def read_events(path: Path) -> tuple[dict, list[Record]]:
    """Return the description and the records of an event file, as event_file.hpp lays them out."""
    data = path.read_bytes()
    size = int.from_bytes(data[16:24], "little")
    records = []
    for at in range(32 + size, len(data) - 4, 32):

        def number(offset: int, width: int, signed: bool = False, at: int = at) -> int:
            return int.from_bytes(data[at + offset : at + offset + width], "little", signed=signed)

        records.append(
            Record(
                number(0, 8),
                number(8, 8, True),
                number(16, 4),
                number(20, 4),
                number(24, 2),
                KINDS[data[at + 26]],
                data[at + 27],
            )
        )
    return json.loads(data[32 : 32 + size]), records


class TraceTest(unittest.TestCase):
    """One run of gemm_relu with every trace."""

    work: Path
    info: dict
    records: list[Record]
    stats: dict[str, float]

    @classmethod
    def setUpClass(cls) -> None:
        """Run the example once."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = Path(folder.name)
        traces = []
        for kind in ("events", "memory-trace", "perfetto", "konata", "vcd", "stalls"):
            traces += [f"--{kind}", cls.work / kind]
        result = kpusim("run", GEMM, "--mode", "timing", "--quiet", "-o", cls.work / "out", *traces)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        cls.info, cls.records = read_events(cls.work / "events")
        document = json.loads((cls.work / "out" / "stats.json").read_text())
        cls.stats = {key: row["value"] for key, row in document["stats"].items()}

    def export(self, *options: object, code: int = 0) -> str:
        """`kpusim export` of the recording; standard error."""
        result = kpusim("export", self.work / "events", *options)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    def tasks(self) -> dict[int, dict[str, int]]:
        """Times of each task's steps in ps, and its unit."""
        tasks: dict[int, dict[str, int]] = defaultdict(dict)
        for row in self.records:
            if row.kind in ("issue", "ready", "begin", "end"):
                tasks[row.task].setdefault(row.kind, row.time)
                if row.kind == "begin":
                    tasks[row.task].setdefault("unit", row.unit)
                if row.kind == "issue":
                    tasks[row.task]["statement"] = row.op
        return tasks

    def test_exports_equal_the_run(self) -> None:
        """Exports of the event file are what the run wrote, byte for byte."""
        for kind in ("memory-trace", "perfetto", "konata", "vcd", "stalls"):
            self.export(f"--{kind}", self.work / "again")
            self.assertEqual((self.work / "again").read_bytes(), (self.work / kind).read_bytes(), kind)

    def test_nothing_to_export(self) -> None:
        """No trace, bad windows, filters that match nothing, and recordings without accesses are refused."""
        self.assertIn("Fix:", self.export(code=1))
        for options in (
            ("--trace-window", "5"),
            ("--trace-window", "9:3"),
            ("--trace-window", "-1:3"),
            ("--trace-window", "a:b"),
            ("--trace-filter", "nmu"),
        ):
            self.assertIn("Fix:", self.export("--stalls", self.work / "no", *options, code=1))
        plain = self.work / "plain"
        self.assertEqual(kpusim("run", GEMM, "--mode", "timing", "--quiet", "--events", plain).returncode, 0)
        result = kpusim("export", plain, "--memory-trace", self.work / "no")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--memory-trace", result.stderr)


class MemoryTraceTest(TraceTest):
    """--memory-trace."""

    def rows(self, path: Path) -> list[dict[str, str]]:
        """Return the rows of a memory trace."""
        with path.open() as file:
            return list(csv.DictReader(file))

    def sums(self, rows: list[dict[str, str]]) -> dict[str, int]:
        """Return the bytes by level and direction, under the names of the statistics."""
        sums: dict[str, int] = defaultdict(int)
        for row in rows:
            sums[f"bytes.{row['level']}.{row['access']}"] += int(row["bytes"])
        return sums

    def test_sums_equal_the_statistics(self) -> None:
        """Bytes of each level and direction sum to bytes.* exactly, on every example and DRAM model."""
        rows = self.rows(self.work / "memory-trace")
        expected = {key: value for key, value in self.stats.items() if key.startswith("bytes.")}
        self.assertEqual(self.sums(rows), expected)
        for name in ("digits", "gemm_rmsnorm", "conv_pool"):
            for options in ((), ("--set", "ddr.fidelity=burst")):
                path = self.work / "other"
                program = EXAMPLES / name / f"{name}.nem"
                run = ("run", program, "--mode", "timing", "--quiet", "--json", "--memory-trace", path)
                result = kpusim(*run, *options)
                self.assertEqual(result.returncode, 0, result.stderr)
                stats = json.loads(result.stdout)["stats"]
                expected = {key: row["value"] for key, row in stats.items() if key.startswith("bytes.")}
                self.assertEqual(self.sums(self.rows(path)), {k: v for k, v in expected.items() if v}, name)

    def test_rows(self) -> None:
        """Rows come in order of time, within their task, in the level of the address, from its unit."""
        last = 0
        steps = {}
        for task in self.tasks().values():
            if "begin" in task:
                steps.setdefault(self.info["statements"][task["statement"]]["name"], []).append(task)
        ends = {"dram": 0, "l2": 1, "l1": 2}
        sizes = {"dram": "memory.dram.peak_bytes", "l2": "memory.l2.peak_bytes", "l1": "memory.l1.peak_bytes"}
        for row in self.rows(self.work / "memory-trace"):
            cycle, address = int(row["cycle"]), int(row["address"], 16)
            self.assertGreaterEqual(cycle, last)
            last = cycle
            self.assertEqual(address >> 56, ends[row["level"]])
            self.assertEqual(address >> 40 & 0xFFFF, 0)
            self.assertLessEqual(
                (address & (1 << 40) - 1) + int(row["bytes"]), self.stats[sizes[row["level"]]]
            )
            mine = steps[row["task"].split("[")[0]]
            self.assertTrue(any(t["begin"] <= cycle * 1000 <= t["end"] for t in mine), row)
            self.assertIn(row["unit"], {self.info["units"][t["unit"]]["name"] for t in mine})

    def test_the_first_transfer(self) -> None:
        """The bias, 768 bytes, is read from DRAM and written to L2, each byte once."""
        rows = [row for row in self.rows(self.work / "memory-trace") if row["task"] == "t_bias"]
        for level, access in (("dram", "read"), ("l2", "write")):
            pieces = sorted(
                (int(row["address"], 16), int(row["bytes"]))
                for row in rows
                if (row["level"], row["access"]) == (level, access)
            )
            self.assertEqual(sum(size for _, size in pieces), 768)
            for (address, size), (following, _) in itertools.pairwise(pieces):
                self.assertEqual(address + size, following)
        self.assertEqual({(r["level"], r["access"]) for r in rows}, {("dram", "read"), ("l2", "write")})

    def test_steppers_agree(self) -> None:
        """The slow stepper sees the same requests at the same cycles."""
        for stepper in ("fast", "oracle"):
            run = ("run", GEMM, "--mode", "timing", "--quiet", "--stepper", stepper)
            self.assertEqual(kpusim(*run, "--memory-trace", self.work / stepper).returncode, 0)
        self.assertEqual((self.work / "fast").read_bytes(), (self.work / "oracle").read_bytes())

    def test_an_unfinished_run(self) -> None:
        """A run that is cut off has rows of the completed tasks: the sums still equal bytes.*."""
        path = self.work / "cut"
        run = ("run", GEMM, "--mode", "timing", "--quiet", "--json", "--max-cycles", "20000")
        result = kpusim(*run, "--memory-trace", path)
        self.assertEqual(result.returncode, 2)
        stats = json.loads(result.stdout)["stats"]
        expected = {
            key: row["value"] for key, row in stats.items() if key.startswith("bytes.") and row["value"]
        }
        self.assertEqual(self.sums(self.rows(path)), expected)


class ViewTest(TraceTest):
    """--trace-window and --trace-filter."""

    def test_stalls(self) -> None:
        """Each unit that is shown has rows over the window exactly, cut from those of the whole run."""
        self.export("--stalls", self.work / "s", "--trace-window", "1000:5000", "--trace-filter", "e0_[nc]*")
        with (self.work / "s").open() as file:
            rows = list(csv.DictReader(file))
        with (self.work / "stalls").open() as file:
            whole = list(csv.DictReader(file))
        self.assertEqual({row["unit"] for row in rows}, {"e0_nmu0", "e0_cstl0", "e0_cstl1"})
        for unit in {row["unit"] for row in rows}:
            mine = [row for row in rows if row["unit"] == unit]
            self.assertEqual(sum(int(row["cycles"]) for row in mine), 4000)
            self.assertEqual((mine[0]["start_ps"], mine[-1]["end_ps"]), ("1000000", "5000000"))
            inside = [
                row["cause"]
                for row in whole
                if row["unit"] == unit and int(row["end_ps"]) > 1000000 and int(row["start_ps"]) < 5000000
            ]
            self.assertEqual([row["cause"] for row in mine], inside)

    def test_memory(self) -> None:
        """The memory trace of a window and of some units are the rows of the whole one that lie in it."""
        self.export(
            "--memory-trace", self.work / "m", "--trace-window", "1000:5000", "--trace-filter", "sdma*"
        )
        with (self.work / "memory-trace").open() as file:
            whole = list(csv.DictReader(file))
        with (self.work / "m").open() as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(
            rows,
            [row for row in whole if 1000 <= int(row["cycle"]) < 5000 and row["unit"].startswith("sdma")],
        )
        self.assertTrue(rows)

    def values(self, path: Path, at: int) -> dict[str, str]:
        """Return the values of all signals of a VCD at a time."""
        names: dict[str, str] = {}
        scope: list[str] = []
        values: dict[str, str] = {}
        time = 0
        for line in path.read_text().splitlines():
            words = line.split()
            if line.startswith("$scope"):
                scope.append(words[2])
            elif line.startswith("$upscope"):
                scope.pop()
            elif line.startswith("$var"):
                names[words[3]] = ".".join([*scope[1:], words[4]])
            elif line.startswith("#"):
                time = int(line[1:])
            elif line and line[0] in "sbr" and time <= at and len(words) == 2:
                values[names[words[1]]] = words[0]
        return values

    def test_waveforms(self) -> None:
        """In the window, every signal of the units shown has the value that it has in the whole waveform."""
        self.export("--vcd", self.work / "v", "--trace-window", "1234:5000", "--trace-filter", "ddr?")
        stamps = [int(x[1:]) for x in (self.work / "v").read_text().splitlines() if x.startswith("#")]
        self.assertEqual((stamps[0], stamps[-1]), (1234000, 5000000))
        for at in (1234000, 1300000, 2000000, 4999999):
            part, whole = self.values(self.work / "v", at), self.values(self.work / "vcd", at)
            self.assertIn("ddr1.state", part)
            self.assertNotIn("e0_nmu0.state", part)
            for name, value in part.items():
                self.assertEqual(value, whole[name], (name, at))

    def test_perfetto_and_konata(self) -> None:
        """Slices and rows outside the window, and of other units, are left out."""
        self.export(
            "--perfetto",
            self.work / "p",
            "--konata",
            self.work / "k",
            "--trace-window",
            "1000:5000",
            "--trace-filter",
            "sdma0",
        )
        trace = Perfetto(self.work / "p")
        tracks = {s.track for s in trace.slices if not s.track.startswith("power.")}
        self.assertEqual(tracks, {"sdma0", "sdma0 state"})
        for row in trace.slices:
            self.assertTrue(1000 <= row.begin <= row.end <= 5000)
        tasks = [
            t
            for t in self.tasks().values()
            if "unit" in t and self.info["units"][t["unit"]]["name"] == "sdma0"
        ]
        inside = [t for t in tasks if t["issue"] < 5000000 and t["end"] >= 1000000]
        self.assertEqual(len(Konata(self.work / "k").rows), len(inside))
        self.assertLess(len(inside), len(tasks))


@dataclass
class Slice:
    """A slice of a track."""

    track: str
    name: str
    begin: int
    end: int = -1
    arguments: dict = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)
    last_flows: list[int] = field(default_factory=list)


class Perfetto:
    """A Perfetto trace as its published schema reads it: tracks, slices, counters."""

    def __init__(self, path: Path) -> None:
        """Read every packet; anything unknown to the schema is an error."""
        trace = schema.Trace()
        trace.ParseFromString(path.read_bytes())
        self.tracks: dict[int, object] = {}
        self.slices: list[Slice] = []
        self.counters: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.events = len(trace.packet)
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        strings: dict[int, str] = {}
        open_slices: dict[int, list[Slice]] = defaultdict(list)
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            for row in packet.interned_data.event_names:
                names[row.iid] = row.name
            for row in packet.interned_data.debug_annotation_names:
                arguments[row.iid] = row.name
            for row in packet.interned_data.debug_annotation_string_values:
                strings[row.iid] = row.str.decode()
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            track = self.tracks[event.track_uuid]
            if event.type == schema.TrackEvent.TYPE_COUNTER:
                value = (
                    event.double_counter_value
                    if event.HasField("double_counter_value")
                    else event.counter_value
                )
                self.counters[track.name].append((packet.timestamp, value))
            elif event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
                row = Slice(track.name, names[event.name_iid], packet.timestamp)
                for argument in event.debug_annotations:
                    kind = argument.WhichOneof("value")
                    value = getattr(argument, kind)
                    if kind == "string_value_iid":
                        value = strings[value]
                    row.arguments[arguments[argument.name_iid]] = value
                row.flows = list(event.flow_ids)
                row.last_flows = list(event.terminating_flow_ids)
                open_slices[event.track_uuid].append(row)
                self.slices.append(row)
            else:
                assert event.type == schema.TrackEvent.TYPE_SLICE_END
                open_slices[event.track_uuid].pop().end = packet.timestamp
        assert not any(open_slices.values())


class PerfettoTest(TraceTest):
    """--perfetto."""

    def test_tasks(self) -> None:
        """Each task is one slice of its unit, from begin to end, in cycles, with its name and steps."""
        trace = Perfetto(self.work / "perfetto")
        units = {unit["name"] for unit in self.info["units"]}
        slices = {row.arguments["serial"]: row for row in trace.slices if row.track.split(" +")[0] in units}
        tasks = {serial: task for serial, task in self.tasks().items() if "begin" in task}
        self.assertEqual(set(slices), set(tasks))
        for serial, task in tasks.items():
            row = slices[serial]
            self.assertEqual(row.track.split(" +")[0], self.info["units"][task["unit"]]["name"])
            self.assertEqual((row.begin, row.end), (task["begin"] // 1000, task["end"] // 1000))
            statement = self.info["statements"][task["statement"]]
            self.assertEqual(row.name, statement["name"])
            self.assertEqual(row.arguments["issued"], task["issue"] // 1000)
            self.assertEqual(row.arguments["ready"], task["ready"] // 1000)
            self.assertEqual(row.arguments["place"], f"{statement['file']}:{statement['line']}")
            if statement["loops"]:
                self.assertTrue(row.arguments["iteration"].startswith(statement["loops"][0] + "="))

    def test_places_that_the_program_carries(self) -> None:
        """Tasks of a container with places have the line of the compiler that made it."""
        text = GEMM.read_text()
        first = next(line for line in text.splitlines() if ".async(" in line)
        head = '#! program {"source_file": ["net.py"]}\n#! place {"line": 77, "column": 5}\n'
        source, program = self.work / "placed.nem", self.work / "placed.kpu"
        source.write_text(head + text.replace(first, '#! {"place": 0}\n' + first, 1))
        kpusim("asm", source, "-I", GEMM.parent, "-o", program)
        path = self.work / "placed"
        ran = kpusim("run", program, "--fill", "zeros", "--quiet", "--perfetto", path)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        places = {row.arguments["place"] for row in Perfetto(path).slices if "place" in row.arguments}
        self.assertEqual(places, {"net.py:77"})

    def test_slices_do_not_overlap(self) -> None:
        """Slices of a track follow each other, so overlapping tasks have tracks of their own."""
        path = self.work / "digits"
        run = ("run", EXAMPLES / "digits" / "digits.nem", "--mode", "timing", "--quiet", "--perfetto", path)
        self.assertEqual(kpusim(*run).returncode, 0)
        trace = Perfetto(path)
        tracks: dict[str, list[Slice]] = defaultdict(list)
        for row in trace.slices:
            tracks[row.track].append(row)
        for rows in tracks.values():
            for a, b in itertools.pairwise(rows):
                self.assertLessEqual(a.end, b.begin)
        self.assertTrue("e0_nmu0 +1" in tracks, sorted(tracks))

    def test_states(self) -> None:
        """The slices of a state track sum to the unit's cycles by cause, as in stats.json."""
        trace = Perfetto(self.work / "perfetto")
        cycles: dict[str, int] = defaultdict(int)
        for row in trace.slices:
            if row.track.endswith(" state"):
                cycles[f"units.{row.track[:-6]}.{row.name}"] += row.end - row.begin
        for key, value in self.stats.items():
            if key.startswith("units.") and ".idle." not in key:
                self.assertEqual(cycles.get(key, 0), value, key)

    def test_tokens(self) -> None:
        """Every token is a flow with an id of its own, from the producer's slice to the consumer's."""
        trace = Perfetto(self.work / "perfetto")
        producers = {flow: row.arguments["serial"] for row in trace.slices for flow in row.flows}
        consumers = {flow: row.arguments["serial"] for row in trace.slices for flow in row.last_flows}
        self.assertEqual(sum(len(row.flows) for row in trace.slices), len(producers))
        self.assertEqual(producers.keys(), consumers.keys())
        found = sorted((producers[flow], consumers[flow]) for flow in producers)
        self.assertEqual(found, sorted((row.value, row.task) for row in self.records if row.kind == "flow"))
        self.assertGreater(len(found), 100)

    def test_counters(self) -> None:
        """Queue depths step as recorded; power and bandwidth add up to those of the run."""
        trace = Perfetto(self.work / "perfetto")
        total = int(self.stats["cycles.total"])

        def integral(name: str) -> float:
            rows = trace.counters[name]
            ends = [at for at, _ in rows[1:]] + [total]
            return sum(value * (end - at) for (at, value), end in zip(rows, ends, strict=True))

        self.assertAlmostEqual(integral("power.total") / total, self.stats["power.average_w"], places=6)
        moved = integral("dram.read") + integral("dram.write")  # GB/s * ns = bytes
        self.assertAlmostEqual(
            moved / (self.stats["bytes.dram.read"] + self.stats["bytes.dram.write"]), 1, places=2
        )
        for unit, name in enumerate(self.info["units"]):
            steps = {
                row.time // 1000: row.value
                for row in self.records
                if row.kind == "counter" and row.cause == 0 and row.unit == unit
            }
            shown = dict(trace.counters.get(f"{name['name']} queue_depth", []))
            shown = {at: value for at, value in shown.items() if at in steps}
            self.assertEqual(shown, {at: v for at, v in steps.items() if at < total}, name)

    def test_time(self) -> None:
        """The process says what a nanosecond of the viewer stands for."""
        text = next(iter(Perfetto(self.work / "perfetto").tracks.values())).process.process_name
        self.assertIn("1 ns shown = 1 core cycle", text)
        slow = self.work / "slow"
        run = ("run", GEMM, "--mode", "timing", "--quiet", "--set", "clock.core_mhz=500", "--perfetto", slow)
        cycles = Perfetto(slow) if kpusim(*run).returncode == 0 else None
        self.assertEqual(kpusim(*run, "--perfetto-time", "ns").returncode, 0)
        ns = Perfetto(slow)
        self.assertIn("time in ns", next(iter(ns.tracks.values())).process.process_name)
        self.assertEqual([2 * row.end for row in cycles.slices], [row.end for row in ns.slices])


class Konata:
    """A small reader of the Konata format 0004, written from its description."""

    def __init__(self, path: Path) -> None:
        """Rows with labels, stages as (name, begin, end), retirement; arrows as (consumer, producer)."""
        lines = path.read_text().splitlines()
        assert lines[0] == "Kanata\t0004"
        command, cycle = lines[1].split("\t")
        assert command == "C="
        now = int(cycle)
        self.rows: dict[int, dict] = {}
        self.arrows: list[tuple[int, int]] = []
        for line in lines[2:]:
            command, *words = line.split("\t")
            if command == "C":
                assert int(words[0]) > 0
                now += int(words[0])
            elif command == "I":
                row, serial, thread = map(int, words)
                assert row not in self.rows
                self.rows[row] = {"serial": serial, "thread": thread, "label": "", "stages": [], "open": {}}
            elif command == "L":
                if words[1] == "0":
                    self.rows[int(words[0])]["label"] += words[2]
            elif command == "S":
                row, lane, stage = int(words[0]), words[1], words[2]
                assert lane not in self.rows[row]["open"]
                self.rows[row]["open"][lane] = (stage, now)
            elif command == "E":
                row, lane, stage = int(words[0]), words[1], words[2]
                name, begin = self.rows[row]["open"].pop(lane)
                assert name == stage
                self.rows[row]["stages"].append((stage, begin, now))
            elif command == "R":
                row, _, kind = map(int, words)
                assert not self.rows[row]["open"]
                self.rows[row]["retired"] = (now, kind)
            elif command == "W":
                consumer, producer, _ = map(int, words)
                assert consumer in self.rows and producer in self.rows
                self.arrows.append((consumer, producer))
            else:
                raise AssertionError(line)


class KonataTest(TraceTest):
    """--konata."""

    def test_rows(self) -> None:
        """Each task is a row whose stages reach from its issue to its end without gaps."""
        trace = Konata(self.work / "konata")
        tasks = self.tasks()
        self.assertEqual({row["serial"] for row in trace.rows.values()}, set(tasks))
        seen: dict[str, set[str]] = defaultdict(set)
        for row in trace.rows.values():
            task = tasks[row["serial"]]
            stages = row["stages"]
            self.assertEqual(stages[0][:2], ("wait", task["issue"] // 1000))
            self.assertEqual(stages[0][2], task["begin"] // 1000)
            self.assertEqual(stages[-1][2], task["end"] // 1000)
            self.assertEqual(row["retired"], (task["end"] // 1000, 0))
            for a, b in itertools.pairwise(stages):
                self.assertEqual(a[2], b[1])
            name = self.info["statements"][task["statement"]]["name"]
            self.assertEqual(row["label"].split("[")[0], name)
            seen[self.info["units"][task["unit"]]["name"]] |= {stage[0] for stage in stages[1:]}
        self.assertLessEqual({"load", "compute"}, seen["e0_nmu0"])
        self.assertIn("store", seen["sdma0"])
        self.assertIn("load", seen["sdma0"])
        self.assertEqual(seen["e0_dma0"], {"load"})

    def test_arrows(self) -> None:
        """Every token is an arrow."""
        trace = Konata(self.work / "konata")
        serial = {number: row["serial"] for number, row in trace.rows.items()}
        found = sorted((serial[producer], serial[consumer]) for consumer, producer in trace.arrows)
        self.assertEqual(found, sorted((row.value, row.task) for row in self.records if row.kind == "flow"))

    def test_an_unfinished_run(self) -> None:
        """Tasks that did not end are flushed at the end."""
        path = self.work / "cut"
        run = ("run", GEMM, "--mode", "timing", "--quiet", "--max-cycles", "20000", "--konata", path)
        self.assertEqual(kpusim(*run).returncode, 2)
        rows = Konata(path).rows.values()
        flushed = [row for row in rows if row["retired"][1] == 1]
        self.assertTrue(flushed)
        self.assertEqual({row["retired"][0] for row in flushed}, {20000})


if __name__ == "__main__":
    unittest.main()
