#include "compiler/scale_sim/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "isa/builder.hpp"

namespace kpu::compiler {
namespace {

constexpr uint64_t largest_size = uint64_t{1} << 24;    ///< limit of one column
constexpr uint64_t largest_matrix = uint64_t{1} << 38;  ///< elements of one operand
constexpr uint64_t most_copies = 1u << 16;              ///< limit of a layer: channels or products of a batch
constexpr int64_t align = 4096, burst_align = 1 << 20;
constexpr size_t gemm_fields = 4, conv_fields = 8;

/// Returns the fields between the commas; the last one is what follows the last comma.
std::vector<std::string_view> fields_of(std::string_view line) {
    std::vector<std::string_view> fields;
    for (;;) {
        const size_t comma = line.find(',');
        fields.push_back(trimmed(line.substr(0, comma)));
        if (comma == std::string_view::npos) break;
        line.remove_prefix(comma + 1);
    }
    return fields;
}

bool is_number(std::string_view text) {
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// True for a share of non-zero weights: 2:4.
bool is_sparsity(std::string_view text) {
    const size_t colon = text.find(':');
    return colon != std::string_view::npos && is_number(text.substr(0, colon)) &&
           is_number(text.substr(colon + 1));
}

/// True for a column's name, in capitals or not.
bool names_batch(std::string_view column) {
    constexpr std::string_view batch = "batch";
    const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
    return std::search(column.begin(), column.end(), batch.begin(), batch.end(), same) != column.end();
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
            if (!first || !read_header(fields)) read_layer(fields);
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

    /// Reads the header. False when the first line is a layer. A column called Batch is one wherever it
    /// stands.
    bool read_header(const std::vector<std::string_view>& fields) {
        if (fields.size() >= 2 && is_number(fields[1])) {
            note("the first line is not a header: it is read as a layer.");
            return false;
        }
        for (size_t i = 0; i < fields.size(); ++i)
            if (names_batch(fields[i])) batch_column_ = i;
        return true;
    }

    void note(std::string message) { diagnostics_.info({origin_, line_, 1}, std::move(message)); }

    /// Drops what follows the last comma, which is no field unless the line is too short without it.
    void drop_tail(std::vector<std::string_view>& fields) {
        if (fields.size() < 2) return;
        const size_t rest = fields.size() - 1;
        if (fields.back().empty()) {
            fields.pop_back();
        } else if (rest == gemm_fields || rest >= conv_fields) {
            note(fmt::format("`{}` after the last comma is ignored.", fields.back()));
            fields.pop_back();
        }
    }

    void read_layer(std::vector<std::string_view> fields) {
        drop_tail(fields);
        std::optional<uint64_t> batch = 1, stride_of_columns;
        const size_t known = fields.size() >= conv_fields ? conv_fields : gemm_fields;
        for (size_t i = known; i < fields.size(); ++i) {
            const std::string_view field = fields[i];
            if (field.empty()) continue;
            if (is_sparsity(field)) {
                note(fmt::format("sparsity {} of layer `{}` is not modelled: it is computed dense.", field,
                                 fields.front()));
            } else if (i == batch_column_ || known == gemm_fields) {
                batch = size_of(field, "batch");
            } else if (i == conv_fields) {
                stride_of_columns = size_of(field, "stride of columns");
                if (!stride_of_columns) return;
            } else {
                return wrong_count(fields.size());
            }
        }
        if (fields.size() < gemm_fields || (known == gemm_fields && fields.size() > gemm_fields + 2))
            return wrong_count(fields.size());
        fields.resize(known);
        std::vector<uint64_t> sizes;
        for (size_t i = 1; i < known; ++i) {
            const auto size = size_of(fields[i], column_name(i, known));
            if (!size) return;
            sizes.push_back(*size);
        }
        if (!batch) return;
        if (stride_of_columns) sizes.push_back(*stride_of_columns);
        add_all(std::string(fields[0]), sizes, *batch);
    }

    void wrong_count(size_t count) {
        error(
            fmt::format("a layer of {} fields. Fix: a product has 4 (name, M, N, K), a convolution 8 (name, "
                        "input height, width, filter height, width, channels, filters, stride), or 9 with a "
                        "stride of columns; a batch has a column of its own, called so in the header.",
                        count));
    }

    /// A layer whose name holds DP is depthwise: each channel is a layer. The products of a batch are layers,
    /// too, each with weights of its own; the images of a batch are rows of one product.
    void add_all(const std::string& name, std::vector<uint64_t> sizes, uint64_t batch) {
        const bool convolution = sizes.size() > 3;
        const bool depthwise = convolution && name.find("DP") != std::string::npos;
        const uint64_t copies = depthwise ? sizes[4] : convolution ? 1 : batch;
        if (copies > most_copies)
            return error(fmt::format("layer `{}` is {} layers; at most {} are taken. Fix: split it.", name,
                                     copies, most_copies));
        if (depthwise) sizes[4] = 1;
        for (uint64_t copy = 0; copy < copies && !diagnostics_.has_errors(); ++copy) {
            const std::string own = depthwise     ? fmt::format("{}Channel_{}", name, copy)
                                    : copies == 1 ? name
                                                  : fmt::format("{}.batch_{}", name, copy);
            add(own, sizes, convolution ? batch : 1);
        }
    }

    static std::string_view column_name(size_t column, size_t count) {
        static constexpr std::string_view gemm[] = {"name", "M", "N", "K"};
        static constexpr std::string_view conv[] = {"name",          "input height", "input width",
                                                    "filter height", "filter width", "channels",
                                                    "filters",       "stride"};
        return count == gemm_fields ? gemm[column] : conv[column];
    }

    std::optional<uint64_t> size_of(std::string_view text, std::string_view name) {
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

    void add(std::string name, const std::vector<uint64_t>& s, uint64_t batch) {
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
            if (layer.m > largest_matrix / batch) return too_large(name);
            layer.m *= batch;
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

    /// Makes a name unique: operations need names of their own; files repeat them.
    std::string unique(const std::string& name) {
        std::string own = name;
        for (int copy = 2; !names_.insert(own).second; ++copy) own = fmt::format("{}.{}", name, copy);
        return own;
    }

    std::string origin_;
    Diagnostics& diagnostics_;
    uint32_t line_ = 0;
    std::optional<size_t> batch_column_;
    std::vector<Layer> layers_;
    std::set<std::string> names_;
};

/// Places of the operands and results of the largest layers; layers share them. The array reads and writes in
/// bursts that end at multiples of 1 MiB: a smaller place crosses none of them and a larger one begins with
/// one, so that how a layer is cut does not depend on the others.
struct Places {
    struct Place {
        int64_t bytes = 0;
        int64_t alignment() const {
            int64_t power = align;
            while (power < bytes && power < burst_align) power *= 2;
            return power;
        }
    };
    Place a, b, y;
    explicit Places(const std::vector<Layer>& layers) {
        const auto grow = [](Place& place, uint64_t bytes) {
            place.bytes = std::max(place.bytes, (static_cast<int64_t>(bytes) + align - 1) / align * align);
        };
        for (const Layer& layer : layers) {
            grow(a, layer.m * layer.k);
            grow(b, layer.k * layer.n);
            grow(y, 4 * layer.m * layer.n);
        }
    }
    /// Returns the end of the places, one after the other.
    int64_t total() const {
        int64_t end = 0;
        for (const Place* place : {&a, &b, &y})
            end = (end + place->alignment() - 1) / place->alignment() * place->alignment() + place->bytes;
        return end;
    }
};

}  // namespace

std::vector<Layer> parse_topology(std::string_view text, const std::string& origin,
                                  Diagnostics& diagnostics) {
    return Reader(origin, diagnostics).read(text);
}

uint64_t topology_l1_bytes(const std::vector<Layer>& layers) {
    return static_cast<uint64_t>(Places(layers).total());
}

Module topology_program(const std::vector<Layer>& layers, const std::string& name) {
    using namespace builder;
    Program program(name);
    const Places places(layers);
    const auto buffer = [&](const char* role, const Places::Place& place) {
        return program.l1_buffer(role, 0, place.bytes, place.alignment());
    };
    const Buffer a = buffer("A", places.a), b = buffer("B", places.b), y = buffer("Y", places.y);
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
    return std::move(program).build();
}

}  // namespace kpu::compiler
