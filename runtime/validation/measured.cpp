#include "runtime/validation/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "base/diagnostics.hpp"
#include "base/read_file.hpp"
#include "base/text.hpp"

namespace kpu::validation {
namespace {

/// What a file of measured layers may have; those that must be there.
struct Column {
    std::string_view name;
    bool required;
};
constexpr Column known_columns[] = {{"net", true},
                                    {"kind", true},
                                    {"index", true},
                                    {"name", false},
                                    {"C", true},
                                    {"K", true},
                                    {"in_dim", true},
                                    {"out_dim", true},
                                    {"kernel", true},
                                    {"stride", true},
                                    {"pad", true},
                                    {"pool", false},
                                    {"pool_stride", false},
                                    {"a_load", true},
                                    {"b_load", false},
                                    {"d_load", false},
                                    {"a_rows", false},
                                    {"b_rows", false},
                                    {"inner_a_rows", false},
                                    {"inner_b_rows", false},
                                    {"outer_a", false},
                                    {"outer_b", false},
                                    {"tiles", false},
                                    {"ideal_compute_cycles_or_dram_rows", false},
                                    {"runs", false},
                                    {"cold", false},
                                    {"min", false},
                                    {"median", true},
                                    {"max", false},
                                    {"flag", false}};
/// Networks of the study whose layers could not be told apart for certain.
constexpr std::string_view unsure_networks[] = {"googlenet"};
constexpr int64_t row_bytes = 16;  ///< the unit of the file's columns of sizes and traffic
constexpr int64_t largest = int64_t{1} << 24;

std::string lower_case(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

std::vector<std::string> cells_of(std::string_view line) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : line) {
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            cells.emplace_back();
        else
            cells.back() += c;
    }
    return cells;
}

class Reader {
  public:
    explicit Reader(std::string path) : path_(std::move(path)) {}

    std::vector<MeasuredRow> read() {
        const std::string bytes = read_file(path_);
        std::string_view text = bytes;
        for (line_ = 1; !text.empty(); ++line_) {
            const std::string_view line = take_line(text);
            if (line.empty() || line.front() == '#') continue;
            if (places_.empty())
                read_header(line);
            else
                read_row(line);
            if (places_.empty()) break;  // without its columns nothing of the file can be read
        }
        if (places_.empty() && !found_.has_errors())
            fail("the file has no header", "give it a line of column names");
        if (!places_.empty() && rows_.empty() && !found_.has_errors())
            fail("the file has no rows", "give it a measured layer a line");
        if (found_.has_errors()) throw UserError(std::move(found_));
        return std::move(rows_);
    }

  private:
    void fail(const std::string& what, const std::string& fix) {
        SourcePos place;
        place.file = path_, place.line = static_cast<uint32_t>(line_), place.column = 1;
        found_.error(place, what + ". Fix: " + fix + ".");
    }

    void read_header(std::string_view line) {
        std::vector<std::string_view> names;
        for (const Column& column : known_columns) names.push_back(column.name);
        std::map<std::string, size_t> places;
        bool good = true;
        for (const std::string& name : cells_of(line)) {
            const size_t place = places.size();
            if (std::find(names.begin(), names.end(), name) == names.end()) {
                const std::string hint = nearest_name(name, names);
                fail(fmt::format("unknown column `{}`; cycles, bytes and pixels are the only units", name),
                     fmt::format("leave it out, or did you mean `{}`", hint));
                good = false;
            }
            if (!places.emplace(name, place).second) {
                fail(fmt::format("column `{}` stands there twice", name), "remove one");
                good = false;
            }
        }
        for (const Column& column : known_columns) {
            if (!column.required || places.count(std::string(column.name)) > 0) continue;
            fail(fmt::format("there is no column `{}`", column.name), "add it");
            good = false;
        }
        if (good) places_ = std::move(places);
    }

    std::string cell(const char* column) const {
        const auto place = places_.find(column);
        return place == places_.end() ? std::string() : cells_.at(place->second);
    }

    /// 0 where nothing stands.
    int64_t number(const char* column, int64_t least, int64_t most) {
        const std::string text = cell(column);
        if (text.empty()) return 0;
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
            fail(fmt::format("column `{}` has `{}`", column, text),
                 fmt::format("give a whole number from {} to {}, without a unit", least, most));
            return 0;
        }
        return value;
    }
    int64_t needed(const char* column, int64_t least, int64_t most = largest) {
        if (cell(column).empty())
            fail(fmt::format("column `{}` is empty", column), "give it, or leave the row out");
        return number(column, least, most);
    }

    /// Of the unit; nothing where nothing stands.
    std::optional<double> cycles(const char* column) {
        const std::string text = cell(column);
        if (text.empty()) return std::nullopt;
        double value = 0;
        constexpr double longest = 1e15;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= longest)
            return value;
        fail(fmt::format("column `{}` has `{}`", column, text),
             "give a number of cycles from 1 to 1e15, without a unit");
        return std::nullopt;
    }

    void read_row(std::string_view line) {
        cells_ = cells_of(line);
        if (cells_.size() != places_.size()) {
            fail(fmt::format("{} fields in a table of {} columns", cells_.size(), places_.size()),
                 "give each column one field");
            return;
        }
        MeasuredRow row;
        row.line = line_;
        row.network = cell("net"), row.kind = cell("kind"), row.index = cell("index");
        row.not_counted = cell("flag");
        for (const std::string_view network : unsure_networks)
            if (lower_case(row.network) == network && row.not_counted.empty())
                row.not_counted = "shapes of the network unsure";
        if (cell("median").empty()) fail("column `median` is empty", "give it, or leave the row out");
        row.cycles = cycles("median").value_or(1);
        row.least = cycles("min").value_or(row.cycles);
        row.most = cycles("max").value_or(row.cycles);
        if (row.least > row.cycles || row.most < row.cycles)
            fail("the median is not between `min` and `max`", "give the three of the same runs");
        if (row.kind == "conv" || row.kind == "matmul")
            read_layer(row);
        else if (row.kind == "resadd")
            read_sum(row);
        else if (row.kind.find("pool") != std::string::npos)
            row.layer_class = LayerClass::pooling;
        else
            fail(fmt::format("column `kind` has `{}`", row.kind),
                 "use conv, matmul, resadd, or a word with pool in it");
        if (row.work.kind == Work::Kind::unknown && row.not_counted.empty())
            row.not_counted = "the row gives no shape";
        rows_.push_back(std::move(row));
    }

    void read_layer(MeasuredRow& row) {
        Work& work = row.work;
        for (const char* column : {"C", "K", "in_dim", "out_dim", "kernel", "stride", "pad"})
            if (cell(column).empty() && !row.not_counted.empty()) return;  // printed without a time of ours
        work.in_channels = needed("C", 1), work.out_channels = needed("K", 1);
        work.in_height = work.in_width = needed("in_dim", 1);
        work.out_height = work.out_width = needed("out_dim", 1);
        work.kernel = needed("kernel", 1), work.stride = needed("stride", 1), work.pad = needed("pad", 0);
        work.pool = std::max<int64_t>(1, number("pool", 0, largest));
        work.pool_stride = std::max<int64_t>(1, number("pool_stride", 0, largest));
        if (found_.has_errors()) return;
        const int64_t derived = (work.in_height + 2 * work.pad - work.kernel) / work.stride + 1;
        // a side of the padding may be wider than the other by a pixel or two, not more
        if (work.pad >= work.kernel || std::llabs(derived - work.out_height) > 1 ||
            (work.out_height - 1) * work.stride - work.pad >= work.in_height) {
            if (row.not_counted.empty())
                row.not_counted =
                    fmt::format("shape unsure: out_dim is {}; in_dim, kernel, stride and pad make {}",
                                work.out_height, derived);
            return;
        }
        work.kind = Work::Kind::convolution;
        if (work.kernel == 1 && work.stride == 1 && work.pool == 1) {
            work.kind = Work::Kind::product;
            work.in_width = work.out_width = work.out_height * work.out_width;
            work.in_height = work.out_height = 1;
        }
        row.layer_class = work.out_width == 1     ? LayerClass::fully_connected
                          : row.kind == "matmul"  ? LayerClass::gemm
                          : work.in_channels <= 4 ? LayerClass::first_layer
                          : work.kernel == 1      ? LayerClass::pointwise
                                                  : LayerClass::window;
        row.tiles.total = number("tiles", 0, largest);
        const auto walks = [&](const char* moved, const char* whole) -> int64_t {
            const int64_t rows = number(whole, 0, int64_t{1} << 40);
            return rows == 0 ? 0 : std::llround(double(number(moved, 0, int64_t{1} << 40)) / double(rows));
        };
        row.tiles.over_pixels = walks("b_load", "b_rows");
        row.tiles.over_filters =
            work.kind == Work::Kind::product ? walks("a_load", "a_rows") : number("outer_a", 0, largest);
    }

    void read_sum(MeasuredRow& row) {
        row.work.kind = Work::Kind::sum;
        row.layer_class = LayerClass::element_wise;
        row.work.elements = needed("a_load", 1) * row_bytes;
    }

    std::string path_;
    size_t line_ = 0;
    std::map<std::string, size_t> places_;  ///< of the columns
    std::vector<std::string> cells_;
    std::vector<MeasuredRow> rows_;
    Diagnostics found_;
};

}  // namespace

int64_t Work::macs() const { return in_channels * out_channels * out_height * out_width * kernel * kernel; }

std::string_view name_of(LayerClass layer_class) {
    switch (layer_class) {
        case LayerClass::window:
            return "3x3 and larger";
        case LayerClass::pointwise:
            return "1x1";
        case LayerClass::first_layer:
            return "first layer";
        case LayerClass::fully_connected:
            return "fully connected";
        case LayerClass::gemm:
            return "GEMM";
        case LayerClass::element_wise:
            return "element-wise";
        case LayerClass::pooling:
            return "pooling";
    }
    throw InternalError("unknown class of layers");
}

std::vector<MeasuredRow> read_measured(const std::string& path) { return Reader(path).read(); }

}  // namespace kpu::validation
