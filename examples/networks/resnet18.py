"""ResNet-18 (He et al., 2015, the 224x224 form) as an ONNX model with random, well-scaled weights.

usage: resnet18.py OUT.onnx

Needs NumPy, onnx and onnxruntime. Weights are He-normal from a fixed seed; the statistics of each batch norm
are measured on random images, layer after layer, so that activations keep the scale of a trained network.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CLASSES = 1000


class Builder:
    """Nodes and weights of a model, and the values that some images have so far."""

    def __init__(self, images: np.ndarray) -> None:
        self.rng = np.random.default_rng(18)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.values = {"image": images}

    def add(self, kind: str, name: str, inputs: list[str], **attributes: object) -> str:
        """One node, executed at once."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        known = [i for i in inputs if i in self.values]
        graph = helper.make_graph(
            [self.nodes[-1]],
            "one",
            [helper.make_tensor_value_info(i, TensorProto.FLOAT, self.values[i].shape) for i in known],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(self.weights[i], i) for i in inputs if i in self.weights],
        )
        one = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"])
        self.values[name] = session.run(None, {i: self.values[i] for i in known})[0]
        return name

    def conv_bn(self, name: str, x: str, out: int, kernel: int, stride: int, relu: bool = True) -> str:
        """Convolution without bias, batch norm, ReLU."""
        channels = self.values[x].shape[1]
        scale = np.sqrt(2 / (channels * kernel * kernel))
        self.weights[f"{name}.weight"] = self.rng.normal(0, scale, (out, channels, kernel, kernel)).astype(
            np.float32
        )
        pad = [kernel // 2] * 4
        y = self.add("Conv", f"{name}.conv", [x, f"{name}.weight"], strides=[stride, stride], pads=pad)
        value = self.values[y]
        parts = {
            "gamma": self.rng.uniform(0.8, 1.2, out),
            "beta": self.rng.normal(0, 0.1, out),
            "mean": value.mean(axis=(0, 2, 3)),
            "var": value.var(axis=(0, 2, 3)),
        }
        for part, array in parts.items():
            self.weights[f"{name}.{part}"] = array.astype(np.float32)
        y = self.add("BatchNormalization", f"{name}.bn", [y, *(f"{name}.{part}" for part in parts)])
        return self.add("Relu", f"{name}.relu", [y]) if relu else y

    def block(self, name: str, x: str, out: int, stride: int) -> str:
        """Two 3x3 convolutions and a shortcut."""
        y = self.conv_bn(f"{name}.1", x, out, 3, stride)
        y = self.conv_bn(f"{name}.2", y, out, 3, 1, relu=False)
        if stride != 1 or self.values[x].shape[1] != out:
            x = self.conv_bn(f"{name}.down", x, out, 1, stride, relu=False)
        y = self.add("Add", f"{name}.add", [y, x])
        return self.add("Relu", f"{name}.relu", [y])


def build() -> onnx.ModelProto:
    """The whole network."""
    b = Builder(np.random.default_rng(0).normal(0, 1, (4, 3, 224, 224)).astype(np.float32))
    x = b.conv_bn("stem", "image", 64, 7, 2)
    x = b.add("MaxPool", "stem.pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, channels in enumerate((64, 128, 256, 512), start=1):
        for block in (1, 2):
            x = b.block(f"layer{stage}.{block}", x, channels, 2 if stage > 1 and block == 1 else 1)
    x = b.add("GlobalAveragePool", "pool", [x])
    x = b.add("Flatten", "flatten", [x])
    b.weights["fc.weight"] = b.rng.normal(0, 1 / np.sqrt(512), (CLASSES, 512)).astype(np.float32)
    b.weights["fc.bias"] = np.zeros(CLASSES, np.float32)
    b.add("Gemm", "logits", [x, "fc.weight", "fc.bias"], transB=1)
    graph = helper.make_graph(
        b.nodes,
        "resnet18",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(array, name) for name, array in b.weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def main() -> None:
    """Build and write."""
    onnx.save(build(), sys.argv[1])


if __name__ == "__main__":
    main()
