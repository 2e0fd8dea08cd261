"""Each fix that errors of kpusim.kpu advise works: a case makes a mistake, and follows the fix."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import pytest
from fixes import Case, check_complete, play
from kpusim import kpu
from kpusim.kpu.target import TARGETS
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "networks" / "digits_cnn.onnx"
SAMPLES = [np.load(path) for path in sorted((MODEL.parent / "calibration").glob("*.npy"))[:4]]
IMAGE = {"image": np.load(ROOT / "examples" / "networks" / "images.npy")[:1]}
SHAPE = (1, 1, 8, 8)
FILES = ("0.png", "1.jpg", "2.png", "3.jpg")
COLOUR = (1, 3, 8, 8)


def compiled(config: kpu.KPUConfig | None = None, **options: Any) -> kpu.KPUProgram:  # noqa: ANN401
    """Return the digits network."""
    return kpu.KPUCompiler().compile(MODEL, config, **options)


@cache
def digits() -> kpu.KPUProgram:
    """Return the same in fp16."""
    return compiled()


def changed(change: Callable[[kpu.KPUProgram], object]) -> kpu.KPUProgram:
    """Return a program with a change."""
    program = copy.deepcopy(digits())
    change(program)
    return program


def executed(program: kpu.KPUProgram, inputs: object = IMAGE, **options: Any) -> kpu.KPUExecutionResult:  # noqa: ANN401
    """Return the result of an execution; what it tells as its error is raised."""
    runtime = kpu.KPURuntime(program.target_config)
    runtime.load_program(program)
    result = runtime.execute(inputs, **options)  # type: ignore[arg-type]
    if not result.success:
        raise AssertionError(result.error_message)
    return result


def config(name: str = "swkpu-v1", **fields: object) -> kpu.KPUConfig:
    """Return a configuration with changed fields, of whatever part has them."""
    made = kpu.KPUConfig(name)
    for field, value in fields.items():
        part = next(part for part in (made.memory, made.compute, made) if hasattr(part, field))
        setattr(part, field, value)
    return made


def wide() -> kpu.KPUConfig:
    """Twice the rows, with the TOPS that array and clock give."""
    return config(systolic_rows=32, tops_int8=0.512)


def with_file(path: str, content: bytes) -> str:
    """Return a file of the working folder."""
    Path(path).write_bytes(content)
    return path


def detached(content: bytes | None) -> kpu.KPUProgram:
    """Return a program whose weights are in a side file, which then gets other content, or goes."""
    program = changed(lambda program: None)
    kpu.detach_weights(program, "weights.bin")
    if content is None:
        Path("weights.bin").rename("elsewhere.bin")
    else:
        Path("weights.bin").write_bytes(content)
    return program


def put_there(content: bytes | None) -> kpu.KPUExecutionResult:
    """The weights of the program come back to their place."""
    program = detached(content)
    Path("weights.bin").write_bytes(digits().weights_blob or b"")
    return executed(program)


def pictures(names: tuple[str, ...] = ()) -> str:
    """Return a folder with pictures."""
    Path("pictures").mkdir(exist_ok=True)
    for name in names:
        Image.new("RGB", (8, 8), (10, 200, 30)).save(Path("pictures") / name)
    return "pictures"


def damaged_picture() -> str:
    """Return a folder with a file that is none."""
    Path("damaged").mkdir()
    Path("damaged/0.png").write_bytes(b"no picture")
    return "damaged"


def colours() -> str:
    """Return a model that takes pictures."""
    value = onnx.helper.make_tensor_value_info
    weights = onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph(
        [node], "g", [value("x", 1, COLOUR)], [value("y", 1, (1, 4, 6, 6))], [weights]
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), "colours.onnx")
    return "colours.onnx"


def counted() -> str:
    """Return a model whose time depends on values."""
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("NonZero", ["x"], ["v"])
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [4, 5])], [value("v", 7, None)])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), "counted.onnx")
    return "counted.onnx"


def with_real_inputs() -> kpu.KPUExecutionResult:
    """The program is made, with its warning, and executed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = kpu.KPUCompiler().compile(counted())
    return executed(program, {"x": np.ones((4, 5), np.float32)})


def deployed(calibration: object, model: object = MODEL, shape: tuple[int, ...] = SHAPE) -> object:
    """In int8."""
    return kpu.StillwaterKPUTarget().deploy(model, "int8", "out", shape, calibration)


def named(name: str, known: list[str]) -> object:
    """Return a target by its name, where these are known."""
    TARGETS.clear()
    for one in known:
        kpu.register_target(one, kpu.StillwaterKPUTarget())
    return kpu.get_target(name)


def deployed_again() -> kpu.KPUProgram:
    """Return a program file as it is written."""
    return kpu.load_pickle(kpu.StillwaterKPUTarget().deploy(MODEL, "fp16", "again", SHAPE).path)


def stepped(**options: Any) -> object:  # noqa: ANN401
    """Power of a simulator that stepped."""
    simulator = kpu.KPUSimulator(digits(), IMAGE)
    simulator.step(200)
    return simulator.get_power_trace(**options)


def load_and(use: Callable[[Any], object], made: Any) -> object:  # noqa: ANN401
    """Call load_program first, then use it."""
    made.load_program(digits())
    return use(made)


CASES = [
    Case("kpu/compiler.py", "Fix: give one of them.", lambda: kpu.KPUCompiler().compile(),
         [lambda: kpu.KPUCompiler().compile(model_path=MODEL),
          lambda: kpu.KPUCompiler().compile(onnx_path=MODEL)]),
    Case("kpu/compiler.py", "Fix: add them to native_ops if that is wanted.",
         lambda: compiled(config(native_ops=["relu"])),
         [lambda: compiled(config(native_ops=["Add", "Conv", "Flatten", "Gemm", "MaxPool", "Relu"]))]),
    Case("kpu/compiler.py", "Fix: give arrays, or mappings of names to arrays.",
         lambda: compiled(precision="int8", calibration_data=5),
         [lambda: compiled(precision="int8", calibration_data=SAMPLES),
          lambda: compiled(precision="int8", calibration_data=[{"image": x} for x in SAMPLES])]),
    Case("kpu/compiler.py", "Fix: give more in calibration_data.",
         lambda: compiled(precision="int8", calibration_data=SAMPLES[:3]),
         [lambda: compiled(precision="int8", calibration_data=SAMPLES)]),
    Case("kpu/compiler.py", "Fix: one of {}.", lambda: compiled(precision="fp17"),
         [lambda: compiled(precision="fp16"), lambda: compiled(config("tile32"), precision="bf16")]),
    Case("kpu/compiler.py", "Fix: execute with real inputs for the time of these.",
         lambda: kpu.KPUCompiler().compile(counted()),
         [with_real_inputs]),
    Case("kpu/compiler.py", "Fix: leave it out, or make the compiler without platform.",
         lambda: kpu.KPUCompiler(platform="tile32").compile(MODEL, wide()),
         [lambda: kpu.KPUCompiler(platform="tile32").compile(MODEL),
          lambda: kpu.KPUCompiler().compile(MODEL, wide())]),
    Case("kpu/compiler.py", "Fix: check the path.", lambda: kpu.KPUCompiler().compile("absent.onnx"),
         [lambda: kpu.KPUCompiler().compile(MODEL)]),
    Case("kpu/device.py", "Fix: the array and the clock rule; change one of them.",
         lambda: compiled(config(systolic_rows=32)),
         [lambda: compiled(wide()), lambda: compiled(config(systolic_rows=64, systolic_cols=64))]),
    Case("kpu/device.py", "Fix: leave it at its default.", lambda: compiled(config(l1_associativity=2)),
         [lambda: compiled(config(l1_associativity=4))]),
    Case("kpu/device.py", "Fix: one of {}", lambda: compiled(config(supported_precisions=["fp17"])),
         [lambda: compiled(config(supported_precisions=["fp16", "int8"]))]),
    Case("kpu/device.py", "Fix: leave them out of supported_precisions, or take another name, such as {}",
         lambda: compiled(config("tile32", supported_precisions=["posit8", "fp16"])),
         [lambda: compiled(config("tile32", supported_precisions=["fp16"])),
          lambda: compiled(config("npm_wide", supported_precisions=["posit8", "fp16"]))]),
    Case("kpu/device.py", "Fix: give a kpusim.kpu.KPUConfig.",
         lambda: compiled(5), [lambda: compiled(kpu.KPUConfig())]),
    Case("kpu/device.py", "Fix: give {}, {} or more", lambda: compiled(config(sram_l1_bytes=0)),
         [lambda: compiled(config(sram_l1_bytes=2**18))]),
    Case("kpu/runtime.py", "no {}. Fix: compile it again.",
         lambda: executed(changed(lambda it: vars(it).pop("ops"))),
         [lambda: executed(compiled())]),
    Case("kpu/runtime.py", "program: {}. Fix: compile it again.",
         lambda: executed(changed(lambda it: it.output_ids.append("z"))),
         [lambda: executed(compiled())]),
    Case("kpu/runtime.py", "Fix: compile it for this one.",
         lambda: kpu.KPURuntime(wide()).load_program(digits()),
         [lambda: kpu.KPURuntime(wide()).load_program(compiled(wide()))]),
    Case("kpu/runtime.py", "weights. Fix: compile it again.",
         lambda: executed(changed(lambda it: setattr(it, "weights_blob", None))),
         [lambda: executed(compiled())]),
    Case("kpu/runtime.py", "Fix: put it there, or compile again.", lambda: executed(detached(None)),
         [lambda: put_there(None), lambda: executed(compiled())]),
    Case("kpu/runtime.py", "Fix: put that one there, or compile again.", lambda: executed(detached(b"other")),
         [lambda: put_there(b"other"), lambda: executed(compiled())]),
    Case("kpu/runtime.py", "Fix: call load_program first.", lambda: kpu.KPURuntime().get_input_specs(),
         [lambda: load_and(kpu.KPURuntime.get_input_specs, kpu.KPURuntime())]),
    Case("kpu/runtime.py", "Fix: give a mapping of names to arrays.",
         lambda: executed(digits(), 5), [lambda: executed(digits())]),
    Case("kpu/runtime.py", "Fix: give one of {}.", lambda: executed(digits(), mode="fast"),
         [lambda: [executed(digits(), mode=mode.value) for mode in kpu.SimulationMode]]),
    Case("kpu/runtime.py", "Fix: check the path.",
         lambda: kpu.detach_weights(changed(id), "absent/weights"),
         [lambda: kpu.detach_weights(changed(id), "weights")]),
    Case("kpu/runtime.py", "Fix: give it beside the others.", lambda: executed(digits(), {}),
         [lambda: executed(digits(), IMAGE)]),
    Case("kpu/runtime.py", "Fix: the program has {}.",
         lambda: executed(digits(), {**IMAGE, "z": IMAGE["image"]}),
         [lambda: executed(digits(), IMAGE)]),
    Case("kpu/simulator.py", "Fix: give a positive number of nanoseconds.",
         lambda: stepped(bin_ns=0), [lambda: stepped(bin_ns=100)]),
    Case("kpu/simulator.py", "Fix: call load_program first.", lambda: kpu.KPUSimulator().step(),
         [lambda: load_and(kpu.KPUSimulator.step, kpu.KPUSimulator())]),
    Case("kpu/target.py", "{}. Fix: deploy again.",
         lambda: kpu.load_pickle(with_file("x.kpu", pickle.dumps(kpu.KPUConfig()))),
         [deployed_again]),
    Case("kpu/target.py", "Fix: give one with .png or .jpg files.",
         lambda: deployed("absent", colours(), COLOUR),
         [lambda: deployed(pictures(FILES), colours(), COLOUR)]),
    Case("kpu/target.py", "Fix: put .png or .jpg files there.",
         lambda: deployed(pictures(), colours(), COLOUR),
         [lambda: deployed(pictures(FILES), colours(), COLOUR)]),
    Case("kpu/target.py", "Fix: give another one.",
         lambda: deployed(damaged_picture(), colours(), COLOUR),
         [lambda: deployed(pictures(FILES), colours(), COLOUR)]),
    Case("kpu/target.py", "Fix: {}.", lambda: named("mine", known=[]),
         [lambda: named("mine", known=["mine"])]),
    Case("kpu/target.py", "Fix: {}.", lambda: named("mine", known=["other"]),
         [lambda: named("other", known=["other"])]),
    Case("kpu/target.py", "Fix: give calibration.", lambda: deployed(None), [lambda: deployed(SAMPLES)]),
    Case("kpu/target.py", "Fix: check the path.", lambda: kpu.load_pickle("absent.kpu"), [deployed_again]),
    Case("kpu/target.py", "({}). Fix: deploy again.",
         lambda: kpu.load_pickle(with_file("x.kpu", b"no pickle")),
         [deployed_again]),
    Case("kpu/target.py", "Fix: give arrays, or a folder of pictures.", lambda: deployed(5),
         [lambda: deployed(SAMPLES), lambda: deployed(pictures(FILES), colours(), COLOUR)]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fix(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    monkeypatch.chdir(tmp_path)
    play(case)


def test_every_fix_is_played() -> None:
    """All can be."""
    check_complete("kpu/", CASES, {})
