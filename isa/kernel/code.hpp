#pragma once
// A kernel with every name, type and block resolved: what interpreters execute.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isa/kernel/operations.hpp"
#include "isa/kernel/text.hpp"

namespace kpu::kernel {

using Access = proto::KernelBuffer::Access;

constexpr uint64_t max_workgroup_bytes = 67108864;  ///< limit of rule set gpu
/// Limit of rule set xla; a device's L1 is the nearer limit.
constexpr uint64_t max_tile_bytes = uint64_t{1} << 30;
/// Alignments of workgroup buffers of rule set xla, bytes: a word of memory at least, at most a burst of the
/// shipped platforms.
constexpr uint64_t least_tile_alignment = 64, tile_alignment = 512;
constexpr uint64_t max_workgroup_invocations = 65536;
constexpr uint32_t subgroup_lanes = 32;
constexpr uint64_t max_copy_bytes = uint64_t{1} << 40;  ///< no memory of a device is larger

struct CodeBuffer {
    std::string name;
    Access access = proto::KernelBuffer::READ;
    Type type = Type::none;
    uint32_t count = 0;  ///< declared; 0: as many as are bound
    uint64_t range_begin = 0, range_end = 0;
    bool direct = false;  ///< loaded from, stored to, or updated; not only copied

    bool is_workgroup() const { return access == proto::KernelBuffer::WORKGROUP; }
    bool writable() const {
        return access != proto::KernelBuffer::READ && access != proto::KernelBuffer::UNIFORM;
    }
    /// Starts as zeros: nothing is read from what is bound.
    bool starts_zero() const {
        return access == proto::KernelBuffer::WRITE || access == proto::KernelBuffer::OUTPUT;
    }
    uint64_t declared_bytes() const { return (uint64_t{count} * storage_bits(type) + 7) / 8; }
    uint64_t elements_in(uint64_t bytes) const { return bytes * 8 / storage_bits(type); }
};

struct Variable {
    std::string name;
    Type type = Type::none;
    enum class Kind : uint8_t { let, loop, scalar } kind = Kind::let;
    bool uniform = true;  ///< has the same value in all invocations of a workgroup, as far as its values say
    bool from_data = false;  ///< may depend on what buffers hold
};

using ExprIndex = uint32_t;
constexpr ExprIndex no_expr = ~ExprIndex{0};

/// Operands stand before the operation that takes them.
struct CodeExpr {
    Op op = Op::literal_u32;
    Type type = Type::none;  ///< type of the result
    uint8_t arity = 0;
    uint32_t place = 0;  ///< variable, buffer or axis
    std::array<ExprIndex, 3> operand{no_expr, no_expr, no_expr};
    uint64_t bits = 0;  ///< bits of a literal
};

struct CodeStatement {
    Kind kind = Kind::let;
    uint32_t variable = 0, buffer = 0, other = 0, tag = 0;
    std::array<ExprIndex, 2> expr{no_expr, no_expr};
    uint32_t else_begin = 0, body_end = 0;  ///< ends of a block; without else, else_begin is body_end
    bool collective = false;                ///< an expression of it exchanges values between lanes
    bool holds_barrier = false;             ///< some statement of its block is a barrier
};

struct TileCode;

struct Code {
    std::shared_ptr<const proto::KernelBody> body;  ///< the source's own
    std::string path;                               ///< path of its text, for messages
    std::vector<Place> places;                      ///< places of the statements; may be empty
    std::array<uint32_t, 3> workgroup{1, 1, 1};
    std::vector<CodeBuffer> buffers;  ///< without the scalars
    std::vector<uint32_t> scalars;    ///< variables that the launch binds, in order
    std::vector<CodeStatement> statements;
    std::vector<CodeExpr> exprs;
    std::vector<Variable> variables;
    std::vector<std::string> tags;
    bool has_atomics = false;
    std::shared_ptr<const TileCode>
        tiles;  ///< rule set xla: what its statements compute with (tile_code.hpp)

    uint32_t invocations() const { return workgroup[0] * workgroup[1] * workgroup[2]; }
    uint64_t workgroup_bytes() const;
    /// Returns the first byte of a workgroup buffer, those before it ending at `used`: a buffer of rule set
    /// xla begins where its bursts are whole.
    uint64_t begin_of(const CodeBuffer& buffer, uint64_t used) const;
    const std::string& name() const { return body->name(); }
    /// Returns "kernel `k`, line 3, `y[i] = x[i]`": a statement in messages; with a `line`, that comes first
    /// instead.
    std::string where(uint32_t statement) const;
    /// Returns the names of the regions around a statement, outermost first, joined by /; empty: none.
    std::string region_of(uint32_t statement) const;
    /// Returns the text of the last `line` before a statement; empty if there is none.
    std::string line_of(uint32_t statement) const;
};

/// Resolves a kernel and checks what can be known before it runs; mistakes and warnings go to `diagnostics`.
/// Null after a mistake.
std::shared_ptr<const Code> analyse(const Source& source, Diagnostics& diagnostics);

/// Returns the first statement whose control flow or addresses depend on what buffers hold; nothing: time is
/// the same for all values, but for where in DRAM copies of a fixed size begin.
std::optional<uint32_t> first_data_dependence(const Code& code);

}  // namespace kpu::kernel
