// Rows of layers whose tiles are counted: Gemmini's MoCA study.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "runtime/validation/forms.hpp"

namespace kpu::validation {
namespace {

/// Networks of the study whose layers could not be told apart for certain.
constexpr std::string_view unsure_networks[] = {"googlenet"};
constexpr int64_t row_bytes = 16;  ///< the unit of the file's columns of sizes and traffic

std::string lower_case(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

class LayerReader {
  public:
    explicit LayerReader(Table& table) : table_(table) {}

    void read_row(std::vector<MeasuredRow>& rows) {
        MeasuredRow row;
        row.network = table_.cell("net"), row.kind = table_.cell("kind"), row.index = table_.cell("index");
        row.not_counted = table_.cell("flag");
        for (const std::string_view network : unsure_networks)
            if (lower_case(row.network) == network && row.not_counted.empty())
                row.not_counted = "shapes of the network unsure";
        row.cycles = table_.measured("median", "cycles");
        row.least = table_.real("min", "cycles").value_or(row.cycles);
        row.most = table_.real("max", "cycles").value_or(row.cycles);
        if (row.least > row.cycles || row.most < row.cycles)
            table_.fail("the median is not between `min` and `max`", "give the three of the same runs");
        if (row.kind == "conv" || row.kind == "matmul")
            read_layer(row);
        else if (row.kind == "resadd")
            read_sum(row);
        else if (row.kind.find("pool") != std::string::npos)
            row.layer_class = LayerClass::pooling;
        else
            table_.fail(fmt::format("column `kind` has `{}`", row.kind),
                        "use conv, matmul, resadd, or a word with pool in it");
        if (row.work.kind == Work::Kind::unknown && row.not_counted.empty())
            row.not_counted = "the row gives no shape";
        rows.push_back(std::move(row));
    }

  private:
    void read_layer(MeasuredRow& row) {
        Work& work = row.work;
        for (const char* column : {"C", "K", "in_dim", "out_dim", "kernel", "stride", "pad"})
            if (table_.cell(column).empty() && !row.not_counted.empty())
                return;  // printed without a time of ours
        work.in_channels = table_.needed("C", 1), work.out_channels = table_.needed("K", 1);
        work.in_height = work.in_width = table_.needed("in_dim", 1);
        work.out_height = work.out_width = table_.needed("out_dim", 1);
        work.kernel = table_.needed("kernel", 1), work.stride = table_.needed("stride", 1),
        work.pad = table_.needed("pad", 0);
        work.pool = std::max<int64_t>(1, table_.number("pool", 0, Table::largest));
        work.pool_stride = std::max<int64_t>(1, table_.number("pool_stride", 0, Table::largest));
        if (table_.has_errors()) return;
        const double macs = double(work.in_channels) * double(work.out_channels) * double(work.out_height) *
                            double(work.out_width) * double(work.kernel) * double(work.kernel);
        constexpr double most_macs = 1e12, most_pixels = 1e10;
        if (macs > most_macs ||
            double(work.in_height) * double(work.in_width) * double(work.in_channels) > most_pixels)
            return table_.fail(fmt::format("the layer has {:.3g} multiply-adds", macs),
                               "leave rows of over 1e12 multiply-adds or 1e10 elements out");
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
        row.tiles.total = table_.number("tiles", 0, Table::largest);
        const auto walks = [&](const char* moved, const char* whole) -> int64_t {
            const int64_t rows = table_.number(whole, 0, int64_t{1} << 40);
            return rows == 0 ? 0
                             : std::llround(double(table_.number(moved, 0, int64_t{1} << 40)) / double(rows));
        };
        row.tiles.over_pixels = walks("b_load", "b_rows");
        row.tiles.over_filters = work.kind == Work::Kind::product
                                     ? walks("a_load", "a_rows")
                                     : table_.number("outer_a", 0, Table::largest);
    }

    void read_sum(MeasuredRow& row) {
        row.work.kind = Work::Kind::sum;
        row.layer_class = LayerClass::element_wise;
        row.work.elements = table_.needed("a_load", 1) * row_bytes;
    }

    Table& table_;
};

}  // namespace

Form layer_form() {
    return {{{"net"},
             {"kind"},
             {"index"},
             {"name", false},
             {"C"},
             {"K"},
             {"in_dim"},
             {"out_dim"},
             {"kernel"},
             {"stride"},
             {"pad"},
             {"pool", false},
             {"pool_stride", false},
             {"a_load"},
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
             {"median"},
             {"max", false},
             {"flag", false}},
            [](Table& table, std::vector<MeasuredRow>& rows) { LayerReader(table).read_row(rows); }};
}

}  // namespace kpu::validation
