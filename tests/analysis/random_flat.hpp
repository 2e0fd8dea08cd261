#pragma once
// Random programs without loops: tasks over a few buffers in windows with and without gaps, and the dependencies that
// they need, all of them or all but a few; waits and .sync; tasks that nobody waits for.

#include <fmt/format.h>

#include <optional>
#include <set>

#include "base/random.hpp"
#include "isa/builder.hpp"

namespace kpu::analysis::test {

class RandomFlat {
  public:
    explicit RandomFlat(uint64_t seed) : random_(seed), program_("flat") {
        tasks_ = 4 + below(60);
        missing_ = below(3) == 0 ? 0 : 1 + below(8);
        buffers_ = 1 + below(3);
        narrow_ = below(2) == 0;
        if (below(4) == 0) {  // many that read the same bytes, and write bytes of their own
            tasks_ = 200;
            own_ = program_.buffer("D", Level::l2, static_cast<int64_t>(tasks_) * bytes);
        }
        for (uint64_t b = 0; b < buffers_; ++b)
            buffer_.push_back(program_.buffer(fmt::format("S{}", b), Level::l2, bytes));
        source_ = program_.buffer("X", Level::ddr, bytes);
        touched_.resize(buffers_ * bytes);
    }

    Module build() {
        for (uint64_t t = 0; t < tasks_; ++t) {
            const uint64_t kind = below(24);
            if (kind == 0 && !tokens_.empty()) {
                program_.wait({tokens_[below(tokens_.size())]});
            } else {
                task();
            }
        }
        return program_.build();
    }

  private:
    static constexpr int64_t bytes = 1024;
    struct Window {
        int64_t offset = 0, rows = 1, row = 8, pitch = 8;
    };
    struct Touched {
        std::vector<uint32_t> writers, readers;  ///< tokens
    };

    uint64_t below(uint64_t n) { return random_.next() % n; }

    Window window() {
        Window w;
        switch (below(narrow_ ? 3 : 5)) {
            case 0:  // a slot
                w = {static_cast<int64_t>(below(4)) * 64, 1, 64, 64};
                break;
            case 1:  // a tile of a matrix
                w = {static_cast<int64_t>(below(4)) * 8 + static_cast<int64_t>(below(3)) * 64,
                     static_cast<int64_t>(1 + below(6)), 8, 32};
                break;
            case 2:
                w = {static_cast<int64_t>(below(256)), 1, static_cast<int64_t>(1 + below(128)), 0};
                break;
            case 3:  // more runs than are followed one by one
                w = {static_cast<int64_t>(below(4)), 257 + static_cast<int64_t>(below(40)), 1, 3};
                break;
            default:
                w = {static_cast<int64_t>(below(2)), 300, 1, 2};
        }
        w.pitch = std::max(w.pitch, w.row);
        return w;
    }

    builder::Region region(builder::Buffer buffer, const Window& w) {
        const builder::TensorType type = builder::tensor(ElemType::i8, {w.rows, w.row}).strides({w.pitch, 1});
        return program_.region(fmt::format("r{}", names_++), buffer, w.offset, type);
    }

    template <class Visit>
    void each_byte(uint64_t buffer, const Window& w, Visit visit) {
        for (int64_t r = 0; r < w.rows; ++r)
            for (int64_t x = 0; x < w.row; ++x)
                visit(touched_[buffer * bytes + static_cast<uint64_t>(w.offset + r * w.pitch + x)]);
    }

    void task() {
        const bool own = own_ && below(16) != 0;
        const uint64_t to = own ? buffers_ : below(buffers_), from = own ? 0 : below(buffers_ + 1);
        const Window out = window();
        const Window in{below(2) == 0 ? out.offset : 0, out.rows, out.row, out.pitch};
        const bool reads = from < buffers_ && from != to;
        Window target = out;
        if (own) target.offset = static_cast<int64_t>(tokens_.size()) * bytes;
        builder::Task made = program_.transfer(
            fmt::format("t{}", names_++), region(own ? *own_ : buffer_[to], target),
            reads ? region(buffer_[from], in) : region(source_, {0, out.rows, out.row, out.row}));
        const auto token = static_cast<uint32_t>(tokens_.size());
        std::set<uint32_t> needs;
        if (reads)
            each_byte(from, in, [&](Touched& byte) {
                needs.insert(byte.writers.begin(), byte.writers.end());
                byte.readers.push_back(token);
            });
        if (!own)
            each_byte(to, out, [&](Touched& byte) {
                needs.insert(byte.writers.begin(), byte.writers.end());
                needs.insert(byte.readers.begin(), byte.readers.end());
                byte = {{token}, {}};
            });
        needs.erase(token);
        if (missing_ > 0 && below(12) == 0) needs.clear();
        for (const uint32_t need : needs)
            if (missing_ == 0 || below(32) >= missing_) made.after({tokens_[need]});
        if (below(20) == 0) made.sync();
        tokens_.push_back(made);
    }

    SplitMix64 random_;
    builder::Program program_;
    uint64_t tasks_ = 0, missing_ = 0, buffers_ = 1;  ///< missing: of 32 dependencies
    bool narrow_ = false;
    std::vector<builder::Buffer> buffer_;
    builder::Buffer source_;
    std::optional<builder::Buffer> own_;
    std::vector<Touched> touched_;  ///< indexed by byte
    std::vector<builder::Task> tokens_;
    int names_ = 0;
};

}  // namespace kpu::analysis::test
