#pragma once

#include <array>
#include <stdexcept>

#include "values/kernel/memory.hpp"

namespace kpu::values::kernel {

/// A fault of a statement of one invocation; the caller adds where.
class Fault : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Ids {
    std::array<uint32_t, 3> gid{}, wgid{}, lid{};
};

/// An invocation as expressions see it.
class Lane {
  public:
    virtual ~Lane() = default;
    virtual uint64_t variable(uint32_t index) const = 0;
    /// Result of an operation that exchanges values between lanes, computed for all of them before.
    virtual uint64_t exchanged(ExprIndex expr) const = 0;
    /// An element that a load or an atomic asks for.
    virtual void touched(ExprIndex /*site*/, uint32_t /*buffer*/, uint32_t /*element*/) const {}
    Ids ids;
    uint32_t linear = 0;  ///< place in the workgroup, x fastest
};

/// Returns the value of an expression, as the bits of its type. Atomics happen here. Throws Fault.
uint64_t evaluate(const Code& code, Memory& memory, const Lane& lane, uint32_t statement, ExprIndex expr);
/// Throws Fault with the label of the copy's operand.
uint64_t byte_count(const Code& code, uint32_t statement, size_t operand, uint64_t bits);

Ids ids_of(const Code& code, const std::array<uint32_t, 3>& workgroup, uint32_t linear);
std::string ids_text(const std::array<uint32_t, 3>& ids);

/// Results of an exchange for the lanes that take part, from their operands. `lanes` ascend.
std::vector<uint64_t> exchange(const kpu::kernel::CodeExpr& expr, Type operand_type,
                               const std::vector<uint32_t>& lanes,
                               const std::array<std::vector<uint64_t>, 2>& operands);

}  // namespace kpu::values::kernel
