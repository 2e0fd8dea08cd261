#include "compiler/scale_sim/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "isa/builder.hpp"

namespace kpu::compiler {
namespace {

constexpr uint64_t largest_size = uint64_t{1} << 24;    ///< of one column
constexpr uint64_t largest_matrix = uint64_t{1} << 38;  ///< elements of one operand
constexpr int64_t align = 4096;
constexpr size_t gemm_fields = 4, conv_fields = 8, conv_two_strides = 9;

/// Without the empty field that a comma at the end makes.
std::vector<std::string_view> fields_of(std::string_view line) {
    std::vector<std::string_view> fields;
    for (;;) {
        const size_t comma = line.find(',');
        fields.push_back(trimmed(line.substr(0, comma)));
        if (comma == std::string_view::npos) break;
        line.remove_prefix(comma + 1);
    }
    if (fields.size() > 1 && fields.back().empty()) fields.pop_back();
    return fields;
}

bool is_number(std::string_view text) {
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// A share of non-zero weights: 2:4.
bool is_sparsity(std::string_view text) {
    const size_t colon = text.find(':');
    return colon != std::string_view::npos && is_number(text.substr(0, colon)) &&
           is_number(text.substr(colon + 1));
}

class Reader {
  public:
    Reader(std::string origin, Diagnostics& diagnostics)
        : origin_(std::move(origin)), diagnostics_(diagnostics) {}

    std::vector<Layer> read(std::string_view text) {
        if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
        bool first = true;
        while (!text.empty()) {
            const std::string_view line = take_line(text);
            ++line_;
            if (line.empty()) continue;
            const auto fields = fields_of(line);
            if (!first || !is_header(fields)) read_layer(fields);
            first = false;
        }
        if (layers_.empty() && !diagnostics_.has_errors()) {
            line_ = 0;
            error("no layer. Fix: write a header line, then a line for each layer.");
        }
        return diagnostics_.has_errors() ? std::vector<Layer>{} : std::move(layers_);
    }

  private:
    void error(std::string message) { diagnostics_.error({origin_, line_, 1}, std::move(message)); }

    bool is_header(const std::vector<std::string_view>& fields) {
        if (fields.size() < 2 || !is_number(fields[1])) return true;
        diagnostics_.info({origin_, line_, 1}, "the first line is no header: it is read as a layer.");
        return false;
    }

    void read_layer(std::vector<std::string_view> fields) {
        if (fields.size() > 1 && is_sparsity(fields.back())) {
            diagnostics_.info({origin_, line_, 1},
                              fmt::format("sparsity {} of layer `{}` is not modelled: it is computed dense.",
                                          fields.back(), fields.front()));
            fields.pop_back();
        }
        const size_t count = fields.size();
        if (count != gemm_fields && count != conv_fields && count != conv_two_strides) {
            return error(fmt::format(
                "a layer of {} fields. Fix: a product has 4 (name, M, N, K), a convolution 8 (name, "
                "input height, width, filter height, width, channels, filters, stride), or 9 with a "
                "stride of columns.",
                count));
        }
        std::vector<uint64_t> sizes;
        for (size_t i = 1; i < count; ++i) {
            const auto size = size_of(fields[i], i, count);
            if (!size) return;
            sizes.push_back(*size);
        }
        add(std::string(fields[0]), sizes);
    }

    static std::string_view column_name(size_t column, size_t count) {
        static constexpr std::string_view gemm[] = {"name", "M", "N", "K"};
        static constexpr std::string_view conv[] = {"name",          "input height", "input width",
                                                    "filter height", "filter width", "channels",
                                                    "filters",       "stride",       "stride of columns"};
        return count == gemm_fields ? gemm[column] : conv[column];
    }

    std::optional<uint64_t> size_of(std::string_view text, size_t column, size_t count) {
        const std::string_view name = column_name(column, count);
        int64_t value = 0;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (!is_number(text) || failed != std::errc() || end != text.data() + text.size()) {
            error(fmt::format("{} is `{}`. Fix: give a whole number.", name, text));
        } else if (value <= 0) {
            error(fmt::format("{} is {}. Fix: give a number above 0.", name, value));
        } else if (static_cast<uint64_t>(value) > largest_size) {
            error(fmt::format("{} is {}; at most {} is taken. Fix: split the layer.", name, value,
                              largest_size));
        } else {
            return static_cast<uint64_t>(value);
        }
        return std::nullopt;
    }

    void add(std::string name, const std::vector<uint64_t>& s) {
        Layer layer;
        layer.convolution = s.size() > 3;
        if (!layer.convolution) {
            layer.m = s[0];
            layer.n = s[1];
            layer.k = s[2];
        } else {
            const uint64_t stride_h = s[6], stride_w = s.size() > 7 ? s[7] : stride_h;
            if (s[2] > s[0] || s[3] > s[1]) {
                return error(
                    fmt::format("the filter ({}x{}) of layer `{}` is larger than its input ({}x{}). Fix: "
                                "give the input with its padding.",
                                s[2], s[3], name, s[0], s[1]));
            }
            // a window that begins inside the input counts, even if its end lies outside
            const auto outputs = [](uint64_t in, uint64_t filter, uint64_t stride) {
                return (in - filter + stride + stride - 1) / stride;
            };
            layer.m = outputs(s[0], s[2], stride_h) * outputs(s[1], s[3], stride_w);
            layer.n = s[5];
            layer.k = s[2] * s[3];
            if (layer.k > largest_matrix / s[4]) return too_large(name);
            layer.k *= s[4];
        }
        const auto fits = [](uint64_t a, uint64_t b) { return a <= largest_matrix / b; };
        if (!fits(layer.m, layer.k) || !fits(layer.k, layer.n) || !fits(layer.m, layer.n))
            return too_large(name);
        layer.name = unique(name.empty() ? fmt::format("layer{}", layers_.size() + 1) : std::move(name));
        layers_.push_back(std::move(layer));
    }

    void too_large(const std::string& name) {
        error(fmt::format("layer `{}` has a matrix of more than {} elements. Fix: split the layer.", name,
                          largest_matrix));
    }

    /// Operations need names of their own; files repeat them.
    std::string unique(const std::string& name) {
        std::string own = name;
        for (int copy = 2; !names_.insert(own).second; ++copy) own = fmt::format("{}.{}", name, copy);
        return own;
    }

    std::string origin_;
    Diagnostics& diagnostics_;
    uint32_t line_ = 0;
    std::vector<Layer> layers_;
    std::set<std::string> names_;
};

/// Bytes of the operands and results of the largest layers; layers share their places.
struct Places {
    int64_t a = 0, b = 0, y = 0;
    explicit Places(const std::vector<Layer>& layers) {
        const auto grow = [](int64_t& place, uint64_t bytes) {
            place = std::max(place, (static_cast<int64_t>(bytes) + align - 1) / align * align);
        };
        for (const Layer& layer : layers) {
            grow(a, layer.m * layer.k);
            grow(b, layer.k * layer.n);
            grow(y, 4 * layer.m * layer.n);
        }
    }
};

}  // namespace

std::vector<Layer> parse_topology(std::string_view text, const std::string& origin,
                                  Diagnostics& diagnostics) {
    return Reader(origin, diagnostics).read(text);
}

uint64_t topology_l1_bytes(const std::vector<Layer>& layers) {
    const Places places(layers);
    return static_cast<uint64_t>(places.a + places.b + places.y);
}

Module topology_program(const std::vector<Layer>& layers, const std::string& name) {
    using namespace builder;
    Program program(name);
    const Places places(layers);
    const Buffer a = program.l1_buffer("A", 0, places.a, align),
                 b = program.l1_buffer("B", 0, places.b, align),
                 y = program.l1_buffer("Y", 0, places.y, align);
    std::vector<Task> before;
    for (const Layer& layer : layers) {
        const auto m = static_cast<int64_t>(layer.m), n = static_cast<int64_t>(layer.n),
                   k = static_cast<int64_t>(layer.k);
        const Region inputs = program.region("", a, 0, tensor(ElemType::i8, {m, k}));
        const Region weights = program.region("", b, 0, tensor(ElemType::i8, {k, n}));
        const Region result = program.region("", y, 0, tensor(ElemType::i32, {m, n}));
        Task task = program.compute("gemm.acc", {inputs, weights}, {result});
        task.attr("accum_type", ElemType::i32)
            .after(before)
            .op(program.op(layer.name, layer.convolution ? "conv2d" : "gemm"));
        before = {task};
    }
    return program.build();
}

}  // namespace kpu::compiler
