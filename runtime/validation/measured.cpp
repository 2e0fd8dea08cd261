#include "runtime/validation/measured.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "runtime/validation/forms.hpp"

namespace kpu::validation {
namespace {

/// Returns how well a header fits a form: columns that it knows, less those that it does not and those that
/// are missing.
int64_t fit(const std::vector<std::string>& header, const Form& form) {
    int64_t points = 0;
    for (const std::string& name : header)
        points += std::any_of(form.columns.begin(), form.columns.end(),
                              [&](const Column& column) { return column.name == name; })
                      ? 16
                      : -2;
    for (const Column& column : form.columns)
        points -= column.required && std::find(header.begin(), header.end(), column.name) == header.end();
    return points;
}

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
        case LayerClass::large_gemm:
            return "GEMM above 896 a side";
        case LayerClass::short_copy:
            return "copy up to 4 MB";
        case LayerClass::long_copy:
            return "copy above 4 MB";
        case LayerClass::activation:
            return "activation";
        case LayerClass::norm:
            return "normalisation";
        case LayerClass::attention:
            return "attention";
        case LayerClass::network:
            return "network";
        case LayerClass::mapped:
            return "mapping";
        case LayerClass::small_mapped:
            return "mapping with tiles under the array";
        case LayerClass::core_grid:
            return "grid of cores";
        case LayerClass::other_machine:
            return "other machine";
    }
    throw InternalError("unknown class of layers");
}

std::vector<Form> all_forms() {
    return {layer_form(),   copy_form(),         product_form(),   elementwise_form(), workload_form(),
            mapping_form(), mapped_layer_form(), core_grid_form(), power_form(),       task_form()};
}

std::string MeasuredRow::name() const {
    std::string name = network;
    for (const std::string& part : {kind, index})
        if (!part.empty()) name += (name.empty() ? "" : " ") + part;
    return name;
}

std::string MeasuredRow::content() const {
    const Work& w = work;
    std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", int(w.kind),
                                   w.in_channels, w.out_channels, w.in_height, w.in_width, w.out_height,
                                   w.out_width, w.kernel, w.stride, w.pad, w.pool, w.pool_stride, w.elements,
                                   tiles.total, tiles.over_filters, tiles.over_pixels);
    for (const Kernel& kernel : kernels) text += "; " + kernel.text();
    if (mapped) text += "; " + mapped->text();
    if (traffic_times > 0) text += fmt::format("; {} times", traffic_times);
    return text;
}

std::vector<MeasuredRow> read_measured(const std::string& path) {
    Table table(path);
    std::vector<MeasuredRow> rows;
    const std::vector<Form> forms = all_forms();
    const Form* form = nullptr;
    while (table.next()) {
        if (form == nullptr) {
            const std::vector<std::string> header = table.cells();
            form = &*std::max_element(forms.begin(), forms.end(), [&](const Form& a, const Form& b) {
                return fit(header, a) < fit(header, b);
            });
            table.take_header(form->columns);
            table.finish();  // without its columns nothing of the file can be read
        } else if (table.take_row()) {
            const size_t before = rows.size();
            form->read_row(table, rows);
            for (size_t i = before; i < rows.size(); ++i) rows[i].line = table.line();
        }
    }
    if (form == nullptr)
        table.fail("the file has no header", "give it a line of column names");
    else if (rows.empty() && !table.has_errors())
        table.fail("the file has no rows", "give it a measured layer a line");
    table.finish();
    return rows;
}

}  // namespace kpu::validation
