// Rows of layers with explicit mappings: Gemmini's DOSA study.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/validation/forms.hpp"

namespace kpu::validation {
namespace {

/// Returns the layer of a row; nothing, with errors, where it is none.
std::optional<Extents> extents_of(Table& table) {
    constexpr int64_t most = 1 << 16;
    const bool before = table.has_errors();
    Extents extents{};
    size_t place = 0;
    for (const char* column : {"C", "K", "P", "Q", "R", "S"})
        extents.at(place++) = table.needed(column, 1, most);
    if (table.cell("N") != "1")
        table.fail(fmt::format("column `N` has `{}`", table.cell("N")),
                   "leave out rows of a batch other than 1");
    return table.has_errors() && !before ? std::nullopt : std::optional<Extents>(extents);
}

void add(Table& table, std::vector<MeasuredRow>& rows, const std::string& network, const std::string& kind,
         const char* column) {
    const auto extents = extents_of(table);
    const int64_t stride = table.needed("stride", 1, 16);
    MeasuredRow row;
    row.network = network, row.kind = kind;
    for (const char* dim : {"C", "K", "P", "Q", "R", "stride"})
        row.index += (row.index.empty() ? "" : " ") +
                     (dim == std::string("stride") ? "s" : std::string(dim)) + table.cell(dim);
    row.group = network + " " + row.index;  // whichever predictor chose the mapping
    row.index += fmt::format(" [{}]", table.cell("mapping"));
    row.cycles = row.least = row.most = table.measured(column, "cycles");
    if (!extents || table.has_errors()) return;
    try {
        row.mapped = parse_mapping(table.cell("mapping"), *extents, stride);
    } catch (const UserError& error) {
        const std::string text = error.what();
        const size_t fix = text.find(". Fix: ");
        return table.fail(text.substr(0, fix), text.substr(fix + 7, text.size() - fix - 8));
    }
    const Mapped& m = *row.mapped;
    constexpr int64_t side = 16;
    const auto small = [&](Dim dim) { return m.tile_at(dim) < side; };
    const bool under = small(Dim::c) || small(Dim::k) || m.tile_at(Dim::p) * m.tile_at(Dim::q) < side;
    row.layer_class = under ? LayerClass::small_mapped : LayerClass::mapped;
    row.in_total = !under;  // what ran there is not what the mapping says
    if (std::max(m.spatial_c, m.spatial_k) > side || (m.spatial_c < side && m.spatial_k < side)) {
        row.mapped.reset();
        row.not_counted = "an array of another side";
    }
    rows.push_back(std::move(row));
}

void read_mapping(Table& table, std::vector<MeasuredRow>& rows) { add(table, rows, "", "mapping", "cycles"); }

/// Reads two measurements: the explicit mapping, and the default one, whose program is not given and whose
/// three runs are the noise.
void read_mapped_layer(Table& table, std::vector<MeasuredRow>& rows) {
    const std::string network = table.cell("network");
    table.real("auto_cycles", "cycles");
    add(table, rows, network, table.cell("predictor"), "tiled_cycles");
}

}  // namespace

Form mapping_form() {
    return {{{"C"}, {"K"}, {"P"}, {"Q"}, {"R"}, {"S"}, {"stride"}, {"N"}, {"mapping"}, {"cycles"}},
            read_mapping};
}

Form mapped_layer_form() {
    return {{{"network"},
             {"predictor"},
             {"C"},
             {"K"},
             {"P"},
             {"Q"},
             {"R"},
             {"S"},
             {"stride"},
             {"N"},
             {"auto_tiling", false},
             {"auto_cycles", false},
             {"mapping"},
             {"sp_kib", false},
             {"acc_kib", false},
             {"tiled_cycles"},
             {"timeloop_cycles", false}},
            read_mapped_layer};
}

}  // namespace kpu::validation
