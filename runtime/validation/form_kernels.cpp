// Rows of kernels: copies, products, vector work, and workloads by name, as TPUs were measured.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "runtime/validation/forms.hpp"
#include "runtime/validation/networks.hpp"

namespace kpu::validation {
namespace {

constexpr int64_t largest_side =
    896;  ///< largest side of a product; of larger ones the machine's placement of operands is not known
constexpr int64_t long_copy_bytes = 4000000;

/// Times in microseconds: the mean, and how far the repeats lay apart.
void take_time(Table& table, MeasuredRow& row, const char* mean, const char* least, const char* most) {
    row.in_microseconds = true;
    row.cycles = table.measured(mean, "microseconds");
    row.least = std::min(row.cycles, table.real(least, "microseconds").value_or(row.cycles));
    row.most = std::max(row.cycles, table.real(most, "microseconds").value_or(row.cycles));
}

void read_copy(Table& table, std::vector<MeasuredRow>& rows) {
    MeasuredRow row;
    row.network = table.cell("kernel"), row.kind = "copy";
    row.index = fmt::format("{}x{}", table.cell("rows"), table.cell("cols"));
    take_time(table, row, "us", "us", "us");
    Kernel kernel;
    kernel.kind = Kernel::Kind::copy;
    kernel.m = table.needed("bytes", 1, int64_t{1} << 32);
    row.layer_class = kernel.m > long_copy_bytes ? LayerClass::long_copy : LayerClass::short_copy;
    row.kernels = {kernel};
    rows.push_back(std::move(row));
}

void read_product(Table& table, std::vector<MeasuredRow>& rows) {
    MeasuredRow row;
    Kernel kernel;
    kernel.kind = Kernel::Kind::product;
    kernel.elem = ElemType::f16;
    kernel.home = Level::l2;
    constexpr int64_t most = 1 << 17;
    kernel.m = table.needed("M", 1, most), kernel.n = table.needed("N", 1, most),
    kernel.k = table.needed("K", 1, most);
    row.network = table.cell("set"), row.kind = "gemm";
    row.index = fmt::format("{}x{}x{}", kernel.m, kernel.n, kernel.k);
    take_time(table, row, "fusion_us", "fusion_min_us", "fusion_max_us");
    if (const auto other = table.real("scalesim_cycles", "cycles"))
        row.others.emplace_back("SCALE-Sim", *other);
    if (std::max({kernel.m, kernel.n, kernel.k}) > largest_side) {
        row.layer_class = LayerClass::large_gemm;
        row.in_total = false;
    } else {
        row.layer_class = LayerClass::gemm;
    }
    row.kernels = {kernel};
    rows.push_back(std::move(row));
}

/// Stand-in for an operation of the file. Operations without an opcode take the nearest of one pass.
struct Operation {
    std::string_view name, opcode;
    int64_t inputs;
    LayerClass layer_class;
};
constexpr Operation operations[] = {{"add", "add", 2, LayerClass::element_wise},
                                    {"add_1d", "add", 2, LayerClass::element_wise},
                                    {"add_2d", "add", 2, LayerClass::element_wise},
                                    {"mul", "mul", 2, LayerClass::element_wise},
                                    {"relu", "relu", 1, LayerClass::activation},
                                    {"sigmoid", "sigmoid", 1, LayerClass::activation},
                                    {"tanh", "tanh", 1, LayerClass::activation},
                                    {"elu", "elu", 1, LayerClass::activation},
                                    {"selu", "selu", 1, LayerClass::activation},
                                    {"leaky", "leaky_relu", 1, LayerClass::activation},
                                    {"parametric", "leaky_relu", 1, LayerClass::activation},
                                    {"linear", "abs", 1, LayerClass::activation},
                                    {"binary", "sign", 1, LayerClass::activation},
                                    {"layer_norm", "layernorm", 1, LayerClass::norm}};

/// Returns the numbers of a text like "add_(736, 8)"; none where it has no brackets, or too many elements.
std::vector<int64_t> shape_of(std::string_view text) {
    std::vector<int64_t> shape;
    const size_t open = text.find('('), close = text.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
    std::string_view inside = text.substr(open + 1, close - open - 1);
    int64_t all = 1;
    constexpr int64_t most = int64_t{1} << 26;
    while (!inside.empty()) {
        const size_t end = std::min(inside.find(','), inside.size());
        const std::string_view word = trimmed(inside.substr(0, end));
        inside.remove_prefix(std::min(end + 1, inside.size()));
        if (word.empty()) continue;
        int64_t value = 0;
        const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || rest != word.data() + word.size() || value < 1 || value > most / all)
            return {};
        shape.push_back(value), all *= value;
    }
    return shape;
}

void read_elementwise(Table& table, std::vector<MeasuredRow>& rows) {
    MeasuredRow row;
    const std::string name = table.cell("op"), text = table.cell("shape");
    row.network = name, row.index = text;
    row.in_microseconds = true;
    row.cycles = table.measured("us", "microseconds");
    const double spread = table.real("sd_us", "microseconds").value_or(0);
    row.least = std::max(0.0, row.cycles - spread), row.most = row.cycles + spread;
    const auto* found = std::find_if(std::begin(operations), std::end(operations),
                                     [&](const Operation& operation) { return operation.name == name; });
    const std::vector<int64_t> shape = shape_of(text);
    if (found == std::end(operations)) {
        std::vector<std::string_view> names;
        for (const Operation& operation : operations) names.push_back(operation.name);
        return table.fail(fmt::format("column `op` has `{}`", name),
                          fmt::format("did you mean `{}`", nearest_name(name, names)));
    }
    if (shape.empty())
        return table.fail(fmt::format("column `shape` has `{}`", text),
                          "give the sizes in brackets, of at most 67108864 elements: \"(8, 128)\"");
    row.layer_class = found->layer_class;
    Kernel kernel;
    kernel.opcode = found->opcode, kernel.inputs = found->inputs;
    kernel.elem = ElemType::f16;
    kernel.home = Level::l2;
    constexpr int64_t lanes = 128;
    if (row.layer_class == LayerClass::norm) {
        kernel.kind = Kernel::Kind::rows;
        kernel.n = shape.back();
        for (const int64_t size : shape) kernel.m *= size;
        kernel.m /= kernel.n;
    } else {
        kernel.kind = Kernel::Kind::elements;
        kernel.m = laid_out(shape, lanes);
    }
    row.kernels = {kernel};
    rows.push_back(std::move(row));
}

void read_workload(Table& table, std::vector<MeasuredRow>& rows) {
    MeasuredRow row;
    row.network = table.cell("workload");
    row.cycles = row.least = row.most = table.measured("tpuv3", "cycles");
    for (const char* name : {"mnpusim", "timeloop", "maestro", "scalesim_v3"})
        if (const auto other = table.real(name, "cycles")) row.others.emplace_back(name, *other);
    const auto workload = workload_of(row.network);
    if (!workload)
        return table.fail(
            fmt::format("column `workload` has `{}`", row.network),
            "give gemm_MxKxN, conv_BxHxWxCxKxRxSTRIDExPAD, layernorm_MxN, softmax_MxN, "
            "attention_HEADSxSEQxDIM, resnet18, resnet50, bert_base, bert_large or bert_xlarge");
    row.layer_class = workload->layer_class;
    row.kernels = workload->kernels;
    row.unknown = workload->unknown;
    rows.push_back(std::move(row));
}

}  // namespace

Form copy_form() {
    return {{{"kernel"}, {"rows"}, {"cols"}, {"bytes"}, {"us"}, {"gb_per_s", false}}, read_copy};
}

Form product_form() {
    return {{{"set"},
             {"M"},
             {"N"},
             {"K"},
             {"fusion_us"},
             {"fusion_min_us", false},
             {"fusion_max_us", false},
             {"fusion_sd_us", false},
             {"main_us", false},
             {"copy_done_us", false},
             {"scalesim_cycles", false}},
            read_product};
}

Form elementwise_form() {
    return {{{"op"}, {"shape"}, {"elements", false}, {"us"}, {"sd_us", false}}, read_elementwise};
}

Form workload_form() {
    return {{{"workload"},
             {"tpuv3"},
             {"mnpusim", false},
             {"timeloop", false},
             {"maestro", false},
             {"scalesim_v3", false}},
            read_workload};
}

}  // namespace kpu::validation
