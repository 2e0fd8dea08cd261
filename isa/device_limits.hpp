#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "isa/unit_kind.hpp"

namespace kpu {

/// A type variant of a family with its types filled in, e.g. gemm.int8<i8>.with_bias.
struct TypeVariant {
    enum class QuantRule : uint8_t { free, required, absent };
    struct Binding {
        std::string operand;             ///< A B C Y X W src dst scale ...
        ElemType type = ElemType::none;  ///< meaningless when absent or any
        bool absent = false;             ///< the operand must not be given
        bool any = false;                ///< any element type
    };
    std::string name;    ///< as written: gemm.int8<i8>.with_bias
    std::string family;  ///< gemm.int8
    std::string opcode;  ///< opcode prefix the family serves: gemm, conv2d, eltwise, gemm.acc
    std::vector<Binding> bindings;
    ElemType accum = ElemType::none;  ///< required accum_type, none = the attribute is not constrained
    QuantRule quant = QuantRule::free;
    std::string
        quant_on;  ///< operand that must carry quant (dst, src); empty = the family's default operands
};

/// Properties of a device that the verifier and the control engine need; platforms fill it.
struct DeviceLimits {
    std::string name;      ///< empty: device-agnostic
    bool agnostic = true;  ///< no device known: capacities and counts are not checked
    uint32_t num_engines = 1;
    uint64_t l1_bytes = 16ull << 20;  ///< per engine
    uint64_t l2_bytes = 64ull << 20;
    uint64_t ddr_bytes = 256ull << 20;
    /// Number of units, indexed by UnitKind; for kinds that engines have, the number that every engine has.
    std::array<uint32_t, max_unit_kinds> units{};
    uint32_t count(UnitKind kind) const { return units[static_cast<size_t>(kind)]; }
    uint32_t& count(UnitKind kind) { return units[static_cast<size_t>(kind)]; }
    uint32_t max_active_tokens = 0;     ///< per engine; 0 = unlimited
    bool store_on_dma = false;          ///< a store occupies a DMA instead of a CSTL
    std::vector<TypeVariant> variants;  ///< effective set: mandatory and extended
    std::vector<std::string> arrays;    ///< shape of each engine's systolic arrays, as "16x16"
};

/// Returns an SHA-256 (hex) over all that decides whether a program is legal on the device: units,
/// capacities, variants, shapes of the arrays. Rates, latencies and energy do not count, nor the name; nor
/// the size of DDR, which no tile depends on and which every program is checked against by itself. What a
/// compiled program keeps as its target_hash.
std::string legality_hash(const DeviceLimits& limits);

}  // namespace kpu
