"""The digits network as an ONNX model: trained for real on scikit-learn's digits, in floats.

usage: digits_cnn.py [FOLDER]

Needs NumPy, scikit-learn (for the data set) and onnx. Writes `digits_cnn.onnx`, `images.npy` (the held-back
images, f32[320,1,8,8]), `labels.npy` and `calibration/*.npy` (32 training images) to FOLDER, this one if not
given. The training is that of `examples/digits/train.py`. The tracked files were made by it, so nobody has to
train again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "digits"))
from train import HELD_BACK, train

HERE = Path(__file__).parent


def model(p: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Conv, ReLU, maxpool, conv, ReLU, maxpool, fully connected, softmax; NCHW as ONNX has it."""
    # the rows of w1 and w2 are (kh, kw, c); those of w3 (h, w, c)
    w1 = p["w1"].reshape(3, 3, 1, 16).transpose(3, 2, 0, 1)
    w2 = p["w2"].reshape(3, 3, 16, 32).transpose(3, 2, 0, 1)
    w3 = p["w3"].reshape(2, 2, 32, 10).transpose(3, 2, 0, 1).reshape(10, 128)
    arrays = {"w1": w1, "b1": p["b1"], "w2": w2, "b2": p["b2"], "w3": w3, "b3": p["b3"]}
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["z1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["z1"], ["a1"], "relu1"),
        helper.make_node("MaxPool", ["a1"], ["p1"], "pool1", **pool),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["z2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["z2"], ["a2"], "relu2"),
        helper.make_node("MaxPool", ["a2"], ["p2"], "pool2", **pool),
        helper.make_node("Flatten", ["p2"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["logits"], "classify", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits_cnn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()],
    )
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(result)
    return result


def main() -> None:
    """Train and write."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    data = load_digits()
    order = np.random.default_rng(7).permutation(len(data.images))
    held, kept = order[:HELD_BACK], order[HELD_BACK:]
    images = (data.images[:, None] / 8).astype(np.float32)  # pixels 0..16 as 0..2
    onnx.save(
        model(train(images[kept, 0, :, :, None].astype(np.float64), data.target[kept])),
        out / "digits_cnn.onnx",
    )
    np.save(out / "images.npy", images[held])
    np.save(out / "labels.npy", data.target[held].astype(np.uint8))
    (out / "calibration").mkdir(exist_ok=True)
    for i in range(32):
        np.save(out / "calibration" / f"{i:02}.npy", images[kept[i]][None])


if __name__ == "__main__":
    main()
