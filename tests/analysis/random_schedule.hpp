#pragma once
// Random schedules over small buffers: nested loops with windows, tokens from every scope, waits, .sync,
// slots by mod, strided regions. Most have races; all pass the verifier.

#include <fmt/format.h>

#include "base/random.hpp"
#include "isa/builder.hpp"

namespace kpu::analysis::test {

struct RandomShape {
    bool constant_bounds = true;  ///< else bounds of inner loops may follow outer variables
    int statements = 8;
    int max_depth = 3;
    bool carries = false;  ///< tasks also need tokens of earlier iterations
};

class RandomSchedule {
  public:
    RandomSchedule(uint64_t seed, const RandomShape& shape)
        : random_(seed), shape_(shape), program_("random") {
        for (int b = 0; b < 2; ++b) {
            small_.push_back(program_.buffer(fmt::format("S{}", b), Level::l2, small_bytes));
            source_.push_back(program_.buffer(fmt::format("X{}", b), Level::ddr, small_bytes));
        }
    }

    Module build() {
        block({}, shape_.statements);
        return program_.build();
    }

  private:
    using Expr = builder::Expr;
    static constexpr int64_t small_bytes = 256;
    static constexpr int64_t row = 8;

    uint64_t below(uint64_t n) { return random_.next() % n; }

    void block(const std::vector<Expr>& loops, int budget) {
        for (int i = 0; i < budget; ++i) {
            const uint64_t kind = below(10);
            if (kind < 2 && static_cast<int>(loops.size()) < shape_.max_depth && budget > 2) {
                const Expr last = !shape_.constant_bounds && !loops.empty() && below(2) == 0
                                      ? loops.back() + Expr(-1)
                                      : Expr(static_cast<int64_t>(below(4)));
                const auto window = static_cast<int64_t>(1 + below(3));
                program_.loop(fmt::format("i{}_{}", loops.size(), names_++), 0, last, window,
                              [&](const Expr& v) {
                                  std::vector<Expr> inner = loops;
                                  inner.push_back(v);
                                  const size_t first = tokens_.size();
                                  block(inner, budget / 2);
                                  if (shape_.carries) carry(first, v);
                              });
            } else if (kind == 2 && !tokens_.empty()) {
                program_.wait({tokens_[below(tokens_.size())]});
            } else {
                task(loops);
            }
        }
    }

    /// Tokens of earlier iterations of a loop between its tasks, which start at `first`.
    void carry(size_t first, const Expr& loop) {
        const uint64_t inside = tokens_.size() - first;
        for (uint64_t n = inside == 0 ? 0 : below(4); n > 0; --n) {
            tokens_[first + below(inside)].after_previous(tokens_[first + below(inside)], loop,
                                                          static_cast<uint32_t>(1 + below(3)));
        }
    }

    void task(const std::vector<Expr>& loops) {
        const int64_t rows = 1 + static_cast<int64_t>(below(3));
        builder::TensorType type = builder::tensor(ElemType::i8, {rows, row});
        const int64_t pitch = below(2) == 0 ? row : 2 * row;
        type = type.strides({pitch, 1});
        const builder::Buffer dst = small_[below(small_.size())];
        const builder::Buffer src = below(2) == 0 ? source_[below(source_.size())] : small_[0];
        if (dst.index == src.index) return;
        const std::string name = fmt::format("t{}", names_++);
        builder::Task made = program_.transfer(name, program_.region(name + "d", dst, offset(loops), type),
                                               program_.region(name + "s", src, offset(loops), type));
        for (int d = static_cast<int>(below(3)); d > 0 && !tokens_.empty(); --d)
            made.after({tokens_[below(tokens_.size())]});
        if (below(8) == 0) made.sync();
        tokens_.push_back(made);
    }

    /// Returns an offset of at most 6 rows: a region of 3 rows with a pitch of two rows ends within 256
    /// bytes.
    Expr offset(const std::vector<Expr>& loops) {
        Expr result = static_cast<int64_t>(below(4)) * row;
        if (loops.empty()) return result;
        const Expr& v = loops[below(loops.size())];
        switch (below(4)) {
            case 0:
                return result + v * row;
            case 1:
                return result + v % static_cast<int64_t>(2 + below(2)) * (2 * row);
            case 2:
                return result + v / 2 * row + v % 2 * (3 * row);
            default:
                return result;
        }
    }

    SplitMix64 random_;
    const RandomShape shape_;
    builder::Program program_;
    std::vector<builder::Buffer> small_, source_;
    std::vector<builder::Task> tokens_;  ///< visible after their loop too: they stand for all its iterations
    int names_ = 0;
};

}  // namespace kpu::analysis::test
