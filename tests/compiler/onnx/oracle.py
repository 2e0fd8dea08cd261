"""Results of other runtimes for a model: ONNX Runtime in its types, NumPy in binary64."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
from graph_run import Array, Case
from onnx import AttributeProto, GraphProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)


def by_runtime(case: Case) -> dict[str, Array]:
    """Outputs by ONNX Runtime; those whose length depends on data with -1 up to the most that it can be."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in case.model.graph.output]
    outputs = dict(zip(names, session.run(names, dict(case.inputs)), strict=True))
    for name, (most, axis) in case.bounds.items():
        found = outputs[name]
        rest = [(0, most - size if d == axis else 0) for d, size in enumerate(found.shape)]
        outputs[name] = np.pad(found, rest, constant_values=-1)
    return outputs


def widen(graph: GraphProto) -> None:
    """Makes every float a double."""

    def wide(tensor: TensorProto) -> None:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    for info in [*graph.input, *graph.output, *graph.value_info]:
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        wide(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                wide(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                widen(attribute.g)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def by_numpy(case: Case) -> dict[str, Array] | None:
    """Outputs by the reference of the ONNX package, in binary64; None where it cannot."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    widen(model.graph)
    inputs = {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in case.inputs.items()}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, inputs)
    except Exception:  # operators and versions that it lacks
        return None
    return dict(zip([output.name for output in model.graph.output], results, strict=True))


def range_of(array: Array) -> float:
    """Return the distance of the extremes from 0, without infinities."""
    finite = array[np.isfinite(array)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def error_of(got: Array, wanted: Array) -> float:
    """Return the largest error; infinite where one is finite and the other not."""
    with np.errstate(all="ignore"):
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        error = np.where(same, 0.0, np.abs(got - wanted))
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))


def problem(case: Case, runtime: Mapping[str, Array], numpy: Mapping[str, Array] | None) -> str:
    """Say what is wrong with the outputs of a case; empty: nothing.

    Integers are those of ONNX Runtime, but for the steps that the case allows. Floats lie as near to it as
    two ways of summing do, and their error against binary64 is at most 1e-5 of the range, or four times
    that of ONNX Runtime.
    """
    for name, wanted in runtime.items():
        got = case.outputs[name]
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return f"{name}: {got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
        if got.dtype.kind != "f":
            apart = np.abs(got.astype(np.int64) - wanted.astype(np.int64)).max(initial=0)
            if apart > case.steps:
                return f"{name}: {np.count_nonzero(got != wanted)} of {got.size} differ"
            continue
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        limit = max(range_of(b), 1e-6)
        if (error := error_of(a, b)) > 1e-4 * limit:
            return f"{name}: differs by {error} of {limit} from ONNX Runtime"
        if numpy is None or numpy[name] is None or np.shape(numpy[name]) != a.shape:
            continue
        exact = np.asarray(numpy[name], dtype=np.float64)
        if (error := error_of(a, exact)) > max(1e-5 * limit, 4 * error_of(b, exact)):
            return f"{name}: error {error} of {limit}, ONNX Runtime's is {error_of(b, exact)}"
    return ""
