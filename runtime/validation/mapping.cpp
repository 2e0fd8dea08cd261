#include "runtime/validation/mapping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/diagnostics.hpp"
#include "base/text.hpp"
#include "isa/builder.hpp"
#include "runtime/validation/movers.hpp"
#include "runtime/validation/span.hpp"

namespace kpu::validation {
namespace {

using namespace kpu::builder;

constexpr std::string_view dim_names = "CKPQRS";
constexpr int64_t slice_bytes = 64;  ///< channels of one load: the largest request
constexpr int64_t most_passes = 5000;

/// A factor: one of "K16", "C16X", "N1"; no dimension for N, the batch, which is 1.
struct Factor {
    std::optional<Dim> dim;
    int64_t count = 1;
    bool spatial = false;
};

Factor factor_of(std::string_view word) {
    const auto wrong = [&](const std::string& why) {
        return UserError(
            fmt::format("mapping: `{}` {}. Fix: write a dimension of NCKPQRS, its factor, and X if it "
                        "is spatial: K16X.",
                        word, why));
    };
    Factor factor;
    std::string_view digits = word;
    const size_t dim = dim_names.find(digits.front());
    if (dim == std::string_view::npos && digits.front() != 'N') throw wrong("names no dimension");
    if (dim != std::string_view::npos) factor.dim = static_cast<Dim>(dim);
    digits.remove_prefix(1);
    if (!digits.empty() && digits.back() == 'X') factor.spatial = true, digits.remove_suffix(1);
    constexpr int64_t largest = int64_t{1} << 20;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), factor.count);
    if (error != std::errc() || end != digits.data() + digits.size() || factor.count < 1 ||
        factor.count > largest)
        throw wrong("has no factor");
    if (!factor.dim && factor.count != 1) throw wrong("is a batch of more than 1, which is not simulated");
    if (factor.spatial && factor.dim != Dim::c && factor.dim != Dim::k)
        throw wrong("is spatial, and the array's sides are C and K");
    return factor;
}

std::vector<std::string_view> words_of(std::string_view text, std::string_view separator) {
    std::vector<std::string_view> words;
    for (;;) {
        const size_t end = text.find(separator);
        const std::string_view word = trimmed(text.substr(0, end));
        if (!word.empty()) words.push_back(word);
        if (end == std::string_view::npos) return words;
        text.remove_prefix(end + separator.size());
    }
}

void check_product(const Mapped& mapped, const Extents& made) {
    for (size_t d = 0; d < dim_count; ++d) {
        if (made.at(d) == mapped.extents.at(d)) continue;
        throw UserError(
            fmt::format("mapping: factors of {} make {}, the layer has {}. Fix: give the mapping of this "
                        "layer.",
                        dim_names[d], made.at(d), mapped.extents.at(d)));
    }
}

/// Passes of L3 as tiles, loads and products.
class MappedLayer {
  public:
    MappedLayer(const Mapped& mapped, const platforms::Platform& platform)
        : m_(mapped), program_("mapping"), movers_(program_, platform) {
        const auto engines = platforms::engines_of(platform);
        const auto l1 = static_cast<int64_t>(engines.at(0).get().l1().size_bytes());
        height_ = m_.at(Dim::p) * m_.stride, width_ = m_.at(Dim::q) * m_.stride;
        channels_ = m_.at(Dim::c), filters_ = m_.at(Dim::k);
        const int64_t inputs = height_ * width_ * channels_;
        const int64_t weights = m_.at(Dim::r) * m_.at(Dim::s) * channels_ * filters_;
        const int64_t tile_rows = (m_.tile_at(Dim::p) - 1) * m_.stride + m_.tile_at(Dim::r),
                      tile_columns = (m_.tile_at(Dim::q) - 1) * m_.stride + m_.tile_at(Dim::s);
        input_bytes_ = tile_rows * tile_columns * m_.tile_at(Dim::c);
        weight_bytes_ = m_.tile_at(Dim::r) * m_.tile_at(Dim::s) * m_.tile_at(Dim::c) * m_.tile_at(Dim::k);
        sums_of_tile_ = m_.tile_at(Dim::p) * m_.tile_at(Dim::q) * m_.tile_at(Dim::k) * sum_bytes;
        slots_ = sums_stay_whole() ? 2 : output_tiles();
        const int64_t needed = 2 * (input_bytes_ + weight_bytes_) + slots_ * sums_of_tile_;
        if (needed > l1)
            throw UserError(
                fmt::format("mapping: its tiles take {} bytes of L1, {} has {}. Fix: set "
                            "engine.l1.size_bytes, or leave the row out.",
                            needed, platform.name(), l1));
        const auto l2 = static_cast<int64_t>(platform.l2().size_bytes());
        held_ = inputs + weights <= l2;
        x_ = program_.buffer("X", Level::ddr, inputs, 64), w_ = program_.buffer("W", Level::ddr, weights, 64);
        if (held_) {
            x_held_ = program_.buffer("X_L2", Level::l2, inputs, 64);
            w_held_ = program_.buffer("W_L2", Level::l2, weights, 64);
        }
        y_ = program_.buffer("Y", Level::ddr, m_.at(Dim::p) * m_.at(Dim::q) * filters_, 64);
        operands_ = program_.l1_buffer("operands", 0, 2 * (input_bytes_ + weight_bytes_), 64);
        sums_ = program_.l1_buffer("sums", 0, slots_ * sums_of_tile_, 64);
        stored_.resize(static_cast<size_t>(slots_));
    }

    Module build() {
        std::vector<int64_t> counter(m_.outer.size(), 0);
        std::optional<Pass> before;
        for (bool more = true; more; more = advance(counter)) {
            Pass pass = load(counter);
            if (before) compute(*before);
            before = std::move(pass);
        }
        compute(*before);
        return std::move(program_).build();
    }

  private:
    struct Pass {
        Extents at{};  ///< first index of each dimension
        bool last = false;
        int64_t place = 0, sums = 0;
        size_t slot = 0;
        Span in_rows, in_columns;
        std::vector<Task> loads;
    };

    static bool reduces(Dim dim) { return dim == Dim::c || dim == Dim::r || dim == Dim::s; }
    bool sums_stay_whole() const {
        bool inside =
            false;  // a loop of a sum stands before one of the result: sums of several tiles are open
        for (const Mapped::Loop& loop : m_.outer) {
            if (reduces(loop.dim))
                inside = true;
            else if (inside)
                return false;
        }
        return true;
    }
    int64_t output_tiles() const {
        int64_t tiles = 1;
        for (const Mapped::Loop& loop : m_.outer)
            if (!reduces(loop.dim)) tiles *= loop.count;
        return tiles;
    }
    bool advance(std::vector<int64_t>& counter) const {
        for (size_t i = counter.size(); i-- > 0;) {
            if (++counter[i] < m_.outer[i].count) return true;
            counter[i] = 0;
        }
        return false;
    }

    Pass load(const std::vector<int64_t>& counter) {
        Pass pass;
        Extents step = m_.tile;
        pass.last = true;
        int64_t tile = 0, weight = 1;
        for (size_t i = m_.outer.size(); i-- > 0;) {
            const auto dim = static_cast<size_t>(m_.outer[i].dim);
            pass.at.at(dim) += counter[i] * step.at(dim);
            step.at(dim) *= m_.outer[i].count;
            if (reduces(m_.outer[i].dim)) {
                pass.last = pass.last && counter[i] + 1 == m_.outer[i].count;
            } else {
                tile += counter[i] * weight, weight *= m_.outer[i].count;
            }
        }
        pass.slot = static_cast<size_t>(slots_ == 2 && sums_stay_whole() ? tile % 2 : tile);
        pass.sums = static_cast<int64_t>(pass.slot) * sums_of_tile_;
        pass.place = static_cast<int64_t>(number_ % 2) * (input_bytes_ + weight_bytes_);
        pass.in_rows = part(pass, Dim::p, Dim::r, height_),
        pass.in_columns = part(pass, Dim::q, Dim::s, width_);
        std::vector<Task> free;
        if (last_product_.at(number_ % 2)) free.push_back(*last_product_.at(number_ % 2));
        ++number_;
        load_operands(pass, free);
        return pass;
    }
    /// Returns the input pixels of a pass along one axis, without the padding.
    Span part(const Pass& pass, Dim out, Dim window, int64_t extent) const {
        const Span span{pass.at.at(static_cast<size_t>(out)), m_.tile_at(out)};
        const int64_t at = pass.at.at(static_cast<size_t>(window));
        const int64_t first = std::max<int64_t>(0, span.first * m_.stride + at - m_.pad());
        const int64_t end =
            std::min(extent, (span.end() - 1) * m_.stride + at - m_.pad() + m_.tile_at(window));
        return {first, std::max<int64_t>(0, end - first)};
    }
    /// True if it was read before, and is in L2 since then.
    bool again(char tensor, const Extents& at, std::initializer_list<Dim> dims) {
        std::vector<int64_t> key{tensor};
        for (const Dim dim : dims) key.push_back(at.at(static_cast<size_t>(dim)));
        return !seen_.insert(key).second && held_;
    }
    static TensorType bytes_type(std::vector<Expr> shape) {
        return tensor(ElemType::i8, std::move(shape)).quant(per_tensor(1.0 / 64));
    }

    void load_operands(Pass& pass, const std::vector<Task>& free) {
        const auto at = [&](Dim dim) { return pass.at.at(static_cast<size_t>(dim)); };
        const bool x_again = again('x', pass.at, {Dim::p, Dim::q, Dim::r, Dim::s, Dim::c}),
                   w_again = again('w', pass.at, {Dim::r, Dim::s, Dim::c, Dim::k});
        const int64_t tile_c = m_.tile_at(Dim::c), tile_k = m_.tile_at(Dim::k);
        const int64_t in_pixels = pass.in_rows.size * pass.in_columns.size;
        if (in_pixels > 0) {
            for (const Span slice : cut(tile_c, slice_bytes)) {
                const std::vector<Expr> shape{pass.in_rows.size, pass.in_columns.size, slice.size};
                const int64_t from = (pass.in_rows.first * width_ + pass.in_columns.first) * channels_ +
                                     at(Dim::c) + slice.first;
                pass.loads.push_back(movers_.load(
                    program_.region("", operands_, pass.place + slice.first,
                                    bytes_type(shape).strides({pass.in_columns.size * tile_c, tile_c, 1})),
                    program_.region("", x_again ? x_held_ : x_, from,
                                    bytes_type(shape).strides({width_ * channels_, channels_, 1})),
                    free));
            }
        }
        const int64_t window_row = m_.at(Dim::s) * channels_ * filters_;
        for (int64_t r = 0; r < m_.tile_at(Dim::r); ++r) {
            const std::vector<Expr> shape{m_.tile_at(Dim::s), tile_c, tile_k};
            const int64_t from =
                (at(Dim::r) + r) * window_row + (at(Dim::s) * channels_ + at(Dim::c)) * filters_ + at(Dim::k);
            const int64_t to = pass.place + input_bytes_ + r * m_.tile_at(Dim::s) * tile_c * tile_k;
            pass.loads.push_back(
                movers_.load(program_.region("", operands_, to, bytes_type(shape)),
                             program_.region("", w_again ? w_held_ : w_, from,
                                             bytes_type(shape).strides({channels_ * filters_, filters_, 1})),
                             free));
        }
    }

    void compute(const Pass& pass) {
        std::vector<Task> wait = pass.loads;
        if (stored_.at(pass.slot)) wait.push_back(*stored_.at(pass.slot));
        std::optional<Task> last;
        const auto at = [&](Dim dim) { return pass.at.at(static_cast<size_t>(dim)); };
        const Span out_rows{at(Dim::p), m_.tile_at(Dim::p)}, out_columns{at(Dim::q), m_.tile_at(Dim::q)};
        for (int64_t r = 0; r < m_.tile_at(Dim::r); ++r) {
            for (int64_t s = 0; s < m_.tile_at(Dim::s); ++s) {
                const Span rows = touched(out_rows, at(Dim::r) + r, m_.stride, m_.pad(), height_);
                const Span columns = touched(out_columns, at(Dim::s) + s, m_.stride, m_.pad(), width_);
                if (rows.size == 0 || columns.size == 0) continue;
                last = product(pass, rows, columns, r, s, last ? std::vector<Task>{} : wait);
            }
        }
        if (last) last_product_.at(computed_ % 2) = last;
        ++computed_;
        if (!pass.last) return;
        const std::vector<Expr> shape{out_rows.size, out_columns.size, m_.tile_at(Dim::k)};
        const Region to = program_.region(
            "", y_, (out_rows.first * m_.at(Dim::q) + out_columns.first) * filters_ + at(Dim::k),
            bytes_type(shape).strides({m_.at(Dim::q) * filters_, filters_, 1}));
        const Region from = program_.region("", sums_, pass.sums, bytes_type(shape));
        // a pass may lie in the padding: then the store waits for its loads alone
        stored_.at(pass.slot) = movers_.store(to, from, last ? *last : pass.loads.back());
    }

    /// Computes the pixels of a tile at one position of the window, column by column: commands go along P.
    Task product(const Pass& pass, Span rows, Span columns, int64_t r, int64_t s,
                 const std::vector<Task>& wait) {
        const int64_t tile_c = m_.tile_at(Dim::c), tile_k = m_.tile_at(Dim::k), tile_q = m_.tile_at(Dim::q);
        const auto at = [&](Dim dim) { return pass.at.at(static_cast<size_t>(dim)); };
        const int64_t in_row = rows.first * m_.stride + at(Dim::r) + r - m_.pad() - pass.in_rows.first;
        const int64_t in_column =
            columns.first * m_.stride + at(Dim::s) + s - m_.pad() - pass.in_columns.first;
        const Region x = program_.region(
            "", operands_, pass.place + (in_row * pass.in_columns.size + in_column) * tile_c,
            bytes_type({1, columns.size, rows.size, tile_c})
                .strides({0, m_.stride * tile_c, m_.stride * pass.in_columns.size * tile_c, 1}));
        const Region w = program_.region(
            "", operands_, pass.place + input_bytes_ + (r * m_.tile_at(Dim::s) + s) * tile_c * tile_k,
            bytes_type({1, 1, tile_c, tile_k}));
        const int64_t y_at =
            ((rows.first - at(Dim::p)) * tile_q + columns.first - at(Dim::q)) * tile_k * sum_bytes;
        const Region y = program_.region("", sums_, pass.sums + y_at,
                                         tensor(ElemType::i32, {1, columns.size, rows.size, tile_k})
                                             .strides({0, tile_k, tile_q * tile_k, 1}));
        return program_.compute("conv2d.acc", {x, w, y}, {y})
            .attr("pads", {0, 0, 0, 0})
            .attr("strides", {1, 1})
            .attr("dilations", {1, 1})
            .attr("accum_type", ElemType::i32)
            .after(wait);
    }

    const Mapped& m_;
    Program program_;
    Movers movers_;
    int64_t height_ = 0, width_ = 0, channels_ = 0, filters_ = 0;
    int64_t input_bytes_ = 0, weight_bytes_ = 0, sums_of_tile_ = 0, slots_ = 0;
    bool held_ = false;
    Buffer x_, w_, x_held_, w_held_, y_, operands_, sums_;
    size_t number_ = 0, computed_ = 0;
    std::array<std::optional<Task>, 2> last_product_;
    std::vector<std::optional<Task>> stored_;
    std::set<std::vector<int64_t>> seen_;
};

}  // namespace

int64_t Mapped::passes() const {
    int64_t passes = 1;
    for (const Loop& loop : outer) passes = std::min(passes * loop.count, int64_t{1} << 40);
    return passes;
}

double Mapped::macs() const {
    double macs = 1;
    for (const int64_t extent : extents) macs *= double(extent);
    return macs;
}

std::string Mapped::text() const {
    std::string text = fmt::format("stride {}", stride);
    for (size_t d = 0; d < dim_count; ++d)
        text += fmt::format(" {}{}/{}/{}", dim_names[d], extents.at(d), tile.at(d), inmost.at(d));
    for (const Loop& loop : outer)
        text += fmt::format(" {}{}", dim_names[static_cast<size_t>(loop.dim)], loop.count);
    return text;
}

Mapped parse_mapping(std::string_view text, const Extents& extents, int64_t stride) {
    Mapped mapped;
    mapped.extents = extents, mapped.stride = stride;
    mapped.tile.fill(1), mapped.inmost.fill(1);
    Extents made;
    made.fill(1);
    const std::vector<std::string_view> levels = words_of(text, " - ");
    constexpr std::string_view level_names[] = {"L3[WIO]", "L2[WI]", "L1[O]", "L0[W]"};
    if (levels.size() != std::size(level_names))
        throw UserError(
            fmt::format("mapping: {} levels instead of 4. Fix: write L3[WIO] ... - L2[WI] ... - L1[O] ... "
                        "- L0[W] ....",
                        levels.size()));
    for (size_t level = 0; level < levels.size(); ++level) {
        const std::vector<std::string_view> words = words_of(levels[level], " ");
        if (words.front() != level_names[level])
            throw UserError(
                fmt::format("mapping: level `{}` instead of {}. Fix: write the levels from L3 to L0.",
                            words.front(), level_names[level]));
        for (size_t i = 1; i < words.size(); ++i) {
            const Factor factor = factor_of(words[i]);
            if (!factor.dim) continue;
            const auto dim = static_cast<size_t>(*factor.dim);
            const auto grow = [&](int64_t& product) {
                product = std::min(product * factor.count, int64_t{1} << 40);
            };
            grow(made.at(dim));
            if (factor.spatial) grow(factor.dim == Dim::c ? mapped.spatial_c : mapped.spatial_k);
            if (level == 0 && !factor.spatial)
                mapped.outer.push_back({*factor.dim, factor.count});
            else
                grow(mapped.tile.at(dim));
            if (level == 3) grow(mapped.inmost.at(dim));
        }
    }
    check_product(mapped, made);
    return mapped;
}

Module mapped_schedule(const Mapped& mapped, const platforms::Platform& platform) {
    constexpr double most_macs = 1e13;
    if (mapped.macs() > most_macs)
        throw UserError(
            fmt::format("mapping: {:.3g} multiply-adds, {:.0e} are simulated. Fix: leave the row out.",
                        mapped.macs(), most_macs));
    if (mapped.passes() > most_passes)
        throw UserError(fmt::format("mapping: {} passes over L3, {} are simulated. Fix: leave the row out.",
                                    mapped.passes(), most_passes));
    return MappedLayer(mapped, platform).build();
}

}  // namespace kpu::validation
