"""Types of a model's numbers: weights, activations, cache."""

from __future__ import annotations

from dataclasses import dataclass

from kpusim.errors import UserError

#: ONNX's name of the float type in which a model of a precision computes what it does not quantize.
FLOATS = {"f32": "FLOAT", "fp16": "FLOAT16", "bf16": "BFLOAT16", "int8": "FLOAT16", "int4": "FLOAT16"}
#: The same as a precision.
FLOAT_PRECISIONS = {"f32": "f32", "fp16": "fp16", "bf16": "bf16", "int8": "fp16", "int4": "fp16"}
BYTES = {"FLOAT": 4, "FLOAT16": 2, "BFLOAT16": 2}
BLOCK = 32  #: inputs of a weight of four bits that have one scale


@dataclass(frozen=True)
class Formats:
    """Types of a model's numbers.

    Attributes
    ----------
    precision : str
        Of the weights. With int8 and int4, the operands of their products are int8.
    cache : str
        Of keys and values: int8, else the float type.
    """

    precision: str
    cache: str

    @classmethod
    def of(cls, precision: str, cache: str | None) -> Formats:
        """Types by name; without a name of its own, the cache has the float type.

        Raises
        ------
        UserError
            For a type that there is not.
        """
        if precision not in FLOATS:
            raise UserError(f"precision `{precision}` is not valid. Fix: give one of {', '.join(FLOATS)}.")
        floats = FLOAT_PRECISIONS[precision]
        if cache not in (None, "int8", floats):
            raise UserError(
                f"a cache of {cache} with weights of {precision} is not valid. Fix: make it int8 or {floats}."
            )
        return cls(precision, cache or floats)

    @property
    def floats(self) -> str:
        """ONNX's name of the float type."""
        return FLOATS[self.precision]

    @property
    def float_bytes(self) -> int:
        """Bytes of a float."""
        return BYTES[self.floats]

    @property
    def quantized(self) -> bool:
        """Return whether products with weights are of integers."""
        return self.precision in ("int8", "int4")

    @property
    def quantized_cache(self) -> bool:
        """Return whether products of the attention are of integers."""
        return self.cache == "int8"

    @property
    def cache_bytes(self) -> int:
        """Bytes of a number of the cache."""
        return 1 if self.quantized_cache else self.float_bytes

    def compiled(self, has_steps: bool) -> str:
        """Return the compiler's ``precision`` of a model, with or without quantized values."""
        if has_steps:
            return "int4" if self.precision == "int4" else "int8"
        return FLOAT_PRECISIONS[self.precision]

    def weight_bytes(self, inputs: int, outputs: int) -> float:
        """Return the bytes of a weight as it lies in DRAM, scales of blocks included."""
        if self.precision == "int4":
            return inputs * outputs / 2 + -(-inputs // BLOCK) * outputs * self.float_bytes
        return inputs * outputs * (1 if self.precision == "int8" else self.float_bytes)
