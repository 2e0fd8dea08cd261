#include "runtime/compare/operations.hpp"

#include <string_view>
#include <unordered_map>

namespace kpu::compare {
namespace {

using Key = std::string Operation::*;

/// Pairs what has the same key and no partner yet. A key that stands twice on a side pairs nothing there.
void pair_by(Key key, const std::vector<Operation>& a, const std::vector<Operation>& b,
             std::vector<OperationPair>& pairs, std::vector<bool>& taken) {
    struct Seen {
        size_t a = 0, b = 0, index = 0;
    };
    std::unordered_map<std::string_view, Seen> seen;
    for (size_t i = 0; i < a.size(); ++i)
        if (!pairs[i].b && !(a[i].*key).empty()) ++seen[a[i].*key].a;
    for (size_t j = 0; j < b.size(); ++j) {
        if (taken[j]) continue;
        const auto found = seen.find(b[j].*key);
        if (found == seen.end()) continue;
        ++found->second.b;
        found->second.index = j;
    }
    for (size_t i = 0; i < a.size(); ++i) {
        const auto found = pairs[i].b ? seen.end() : seen.find(a[i].*key);
        if (found == seen.end() || found->second.a != 1 || found->second.b != 1) continue;
        pairs[i].b = found->second.index;
        taken[found->second.index] = true;
    }
}

}  // namespace

std::vector<OperationPair> match_operations(const std::vector<Operation>& a,
                                            const std::vector<Operation>& b) {
    std::vector<OperationPair> pairs(a.size());
    std::vector<bool> taken(b.size(), false);
    for (size_t i = 0; i < a.size(); ++i) pairs[i].a = i;
    pair_by(&Operation::id, a, b, pairs, taken);
    pair_by(&Operation::place, a, b, pairs, taken);
    for (size_t j = 0; j < b.size(); ++j)
        if (!taken[j]) pairs.push_back({std::nullopt, j});
    return pairs;
}

}  // namespace kpu::compare
