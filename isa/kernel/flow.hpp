#pragma once

#include "isa/kernel/code.hpp"

namespace kpu::kernel {

/// Returns the first statement with an atomic whose outcome depends on the order of workgroups: its old value
/// is used, it exchanges, or its buffer has atomics of several kinds. Nothing: atomics give the same whatever
/// the order.
std::optional<uint32_t> first_order_dependence(const Code& code);

}  // namespace kpu::kernel
