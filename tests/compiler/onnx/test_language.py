"""Operators of language models: options that are refused by name, and what random cases have not.

usage: test_language.py GRAPH_RUN
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable

import numpy as np
import onnx
from drafts import Const, Draft, Operand
from graph_run import Array, Case, run
from onnx import helper, numpy_helper
from operators_language import theirs
from oracle import by_runtime, error_of, range_of

TOOL = ""
HEADS, GROUPS, SIZE, MOST = 4, 2, 16, 9


def attention(d: Draft, rows: int, before: Array, more: dict[int, Operand], **attributes: object) -> Case:
    """GroupQueryAttention to a buffer of MOST rows, of which `before` count; `more` by number."""
    batch = len(before)
    kv = [batch, rows, GROUPS * SIZE]
    operands: list[Operand] = [
        *(d.floats([batch, rows, HEADS * SIZE]), d.floats(kv), d.floats(kv)),
        *(np.zeros([batch, GROUPS, MOST, SIZE], np.float32) for _ in range(2)),
        (before + rows - 1).astype(np.int32),
        Const(np.asarray([before.max() + rows], np.int32)),
        *[None] * 10,
    ]
    for number, operand in more.items():
        operands[number] = operand
    given = {"num_heads": HEADS, "kv_num_heads": GROUPS} | attributes
    return theirs("GroupQueryAttention", operands, 3, **given)


class Language(unittest.TestCase):
    """Cases of their own, from a seed."""

    def setUp(self) -> None:
        """The same numbers for each test."""
        self.d = Draft(20)

    def refused(self, case: Case, option: str) -> None:
        """The error names the node, the option and a fix."""
        run([case], TOOL)
        for text in (option, "Fix: ", f"`{case.model.graph.node[0].op_type}_0`"):
            self.assertIn(text, case.error)

    def test_options_of_group_query(self) -> None:
        """Each that no decomposition has."""
        one = np.ones(1, np.float32)
        for options in (
            {"k_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8},
            {"v_quant_type": "PER_CHANNEL", "kv_cache_bit_width": 4},
            {"sliding_window_cache": 1, "local_window_size": 4},
            {"qk_output": 1},
        ):
            self.refused(attention(self.d, 1, np.array([2]), {}, **options), next(iter(options)))
        self.refused(attention(self.d, 1, np.array([2]), {12: one}), "but k_quant_type is NONE")
        narrow = {"k_quant_type": "PER_TENSOR", "kv_cache_bit_width": 3}
        self.refused(attention(self.d, 1, np.array([2]), {12: one}, **narrow), "kv_cache_bit_width is 3")
        self.refused(attention(self.d, 1, np.array([2]), {}, do_rotary=1), "do_rotary")
        self.refused(
            attention(self.d, 1, np.array([2]), {}, causal=0, local_window_size=2), "local_window_size"
        )
        self.refused(attention(self.d, 1, np.array([2]), {}, kv_num_heads=3), "kv_num_heads 3")
        late = {6: Const(np.asarray([MOST + 5], np.int32))}
        self.refused(attention(self.d, 1, np.array([2]), late), "total_sequence_length is 14")

    def test_options_of_others(self) -> None:
        """Options of others are refused by their names."""
        d = self.d
        table = np.ones((8, 2), np.float32)
        turned = [d.floats([1, 2, 8]), np.zeros((1, 2), np.int64), table, table]
        self.refused(theirs("RotaryEmbedding", turned, scale=2.0), "scale")
        self.refused(theirs("RotaryEmbedding", turned, is_packed_batching=1), "is_packed_batching")
        weights = [Const(d.floats([2, 4, 4])), None, Const(d.floats([2, 4, 4]))]
        moe = [d.floats([3, 4]), d.floats([3, 2]), *weights]
        self.refused(theirs("MoE", moe, k=1, use_sparse_mixer=1), "use_sparse_mixer")
        self.refused(theirs("MoE", moe, k=3), "k is 3")
        self.refused(theirs("MoE", moe, activation_type="geglu"), "activation_type geglu")
        qmoe = [d.floats([3, 16]), d.floats([3, 2]), Const(d.ints([2, 16, 8], 0, 255, np.uint8))]
        self.refused(theirs("QMoE", qmoe, quant_type="fp8"), "quant_type fp8")
        floats = [
            *qmoe,
            Const(d.floats([2, 16])),
            None,
            Const(d.floats([2, 16, 8])),
            Const(d.floats([2, 16])),
        ]
        self.refused(theirs("QMoE", floats), "its weights are float, not bytes")
        bias = [d.floats([1, 2, 8]), *[d.floats([1, 2, 8])] * 2, np.float32(1)]
        self.refused(
            theirs("MultiHeadAttention", bias, num_heads=2), "[] is not the queries, keys and values"
        )
        q = d.floats([1, 2, 8])
        self.refused(theirs("LinearAttention", [q, q, q], 2, q_num_heads=2, kv_num_heads=2), "update_rule")
        linear = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear", "state_window": 2}
        self.refused(theirs("LinearAttention", [q, q, q], 2, **linear), "state_window")
        conv = [d.floats([1, 3, 5]), d.floats([3, 1, 2])]
        for option in ("state_window", "state_update_capacity"):
            self.refused(theirs("CausalConvWithState", conv, 2, **{option: 1}), option)
        beams = [q, q, q, *[None] * 6, np.zeros((1, 1, 4), np.int32)]
        self.refused(theirs("MultiHeadAttention", beams, num_heads=2), "cache_indirection")

    def test_packed_operands(self) -> None:
        """One packed tensor gives the same as three, which ONNX Runtime's CPU takes."""
        parts = [self.d.floats([2, 3, HEADS, SIZE]) for _ in range(3)]
        flat = [part.reshape(2, 3, HEADS * SIZE) for part in parts]
        wanted = by_runtime(theirs("MultiHeadAttention", flat, num_heads=HEADS))
        for operands in ([np.stack(parts, axis=3)], [flat[0], np.stack(parts[1:], axis=3)]):
            self.alike(theirs("MultiHeadAttention", [*operands], num_heads=HEADS), wanted)

    def test_shared_past_of_attention(self) -> None:
        """A shared past gives the same as one that grows, with rows after it that do not count."""
        width, past, most = HEADS * SIZE, 3, 7
        x, weights = self.d.floats([2, 2, 8]), Const(self.d.floats([8, 3 * width], -1, 1))
        given = self.d.floats([2, 2, HEADS, past, SIZE])
        buffer = np.concatenate([given, self.d.floats([2, 2, HEADS, most - past, SIZE])], axis=3)
        bias = Const(self.d.floats([3 * width]))
        common = {"num_heads": HEADS, "unidirectional": 1}
        wanted = by_runtime(theirs("Attention", [x, weights, bias, None, given], 2, **common))
        behind = buffer[..., past + 2 :, :]
        wanted["y1"] = np.concatenate([wanted["y1"], behind], axis=3)
        count = np.asarray([past], np.int32)
        for length in (count, Const(count)):
            operands: list[Operand] = [x, weights, bias, None, buffer, None, length]
            self.alike(theirs("Attention", operands, 2, past_present_share_buffer=1, **common), wanted)

    def test_norms_of_heads(self) -> None:
        """Norms of heads give the same as norms before them, which ONNX Runtime's CPU can compute."""
        d = self.d
        weights = {14: Const(d.floats([SIZE], 0.5, 2)), 15: Const(d.floats([SIZE], 0.5, 2))}
        ours = attention(d, 3, np.array([2]), weights, qk_norm_epsilon=1e-3)
        other = onnx.ModelProto()
        other.CopyFrom(ours.model)
        node = other.graph.node.pop()
        nodes = []
        for i, heads in enumerate((HEADS, GROUPS)):
            apart, back = ([0, 0, heads, SIZE], [0, 0, heads * SIZE])
            for name, shape in (("apart", apart), ("back", back)):
                other.graph.initializer.append(numpy_helper.from_array(np.array(shape), f"{name}{i}"))
            nodes += [
                helper.make_node("Reshape", [f"x{i}", f"apart{i}"], [f"heads{i}"]),
                helper.make_node(
                    "SimplifiedLayerNormalization",
                    [f"heads{i}", f"x{14 + i}"],
                    [f"norm{i}"],
                    axis=-1,
                    epsilon=1e-3,
                ),
                helper.make_node("Reshape", [f"norm{i}", f"back{i}"], [f"normed{i}"]),
            ]
            node.input[i] = f"normed{i}"
        del node.input[14:]
        del node.attribute[[a.name for a in node.attribute].index("qk_norm_epsilon")]
        other.graph.node.extend([*nodes, node])
        self.alike(ours, by_runtime(Case("norms", other, ours.inputs)))

    def test_prompts_of_unlike_lengths(self) -> None:
        """Padding may make anything: rows after the last of each batch are not compared."""
        for start in (Const, np.asarray):
            valid = np.array([4, 2, 3])
            more: dict[int, Operand] = {
                5: start((valid - 1).astype(np.int32)),
                6: Const(np.asarray([4], np.int32)),
            }
            ours = attention(self.d, 4, np.array([0, 0, 0]), more)
            wanted = by_runtime(ours)
            for array in wanted.values():
                for b, count in enumerate(valid):
                    rows = array[b].swapaxes(0, -2)  # of the output, and of a cache [heads, rows, size]
                    rows[count:] = 0
            self.alike(ours, wanted, valid)

    def test_the_length_of_a_buffer_may_be_computed(self) -> None:
        """Where it is an input, the cache is a shared one."""
        before = np.array([5, 3])
        more: dict[int, Operand] = {6: np.asarray([6], np.int32)}
        ours = attention(self.d, 1, before, more, local_window_size=3)
        self.alike(ours, by_runtime(ours))

    def test_past_without_rows(self) -> None:
        """The first prompt of a cache that grows has an empty one."""
        empty = np.zeros((2, GROUPS, 0, SIZE), np.float32)
        more: dict[int, Operand] = {3: empty, 4: empty, 6: Const(np.asarray([3], np.int32))}
        ours = attention(self.d, 3, np.array([0, 0]), more)
        self.alike(ours, by_runtime(ours))

    def alike(self, ours: Case, wanted: dict[str, Array], valid: Array | None = None) -> None:
        """Within 1e-5 of the range; of each batch only `valid` rows."""
        run([ours], TOOL)
        self.assertEqual(ours.error, "")
        for name, array in wanted.items():
            got = ours.outputs[name]
            if valid is not None:
                got = got.copy()
                for b, count in enumerate(valid):
                    got[b].swapaxes(0, -2)[count:] = 0
            self.assertEqual(got.shape, array.shape)
            self.assertLess(error_of(got, array), 1e-5 * range_of(array), name)


def main(arguments: list[str]) -> Callable[[], None]:
    """Takes the tool out of the arguments."""
    global TOOL
    TOOL = arguments.pop(1)
    return unittest.main


if __name__ == "__main__":
    main(sys.argv)()
