#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kpu::compare {

/// Identity of an operation of a program.
struct Operation {
    std::string id;
    std::string place;  ///< in the source that both programs were made of; empty: unknown
};

/// Operations of two programs that are the same one, by index; nothing: the other program does not have it.
struct OperationPair {
    std::optional<size_t> a, b;
};

/// Matches operations by id; what is left, by place, where each side has one operation of that place. Pairs
/// are in the order of A, then those that only B has.
std::vector<OperationPair> match_operations(const std::vector<Operation>& a, const std::vector<Operation>& b);

}  // namespace kpu::compare
