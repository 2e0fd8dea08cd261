// Declarations of the file that the device has otherwise: shapes that the nodes do not make, float64.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/onnx/importer.hpp"

namespace kpu::onnx {
namespace {

bool differs(const ValueInfo& info, const Sizes& shape) {
    bool result = info.shaped && info.shape.size() != shape.size();
    for (size_t d = 0; info.shaped && !result && d < info.shape.size(); ++d)
        result = info.shape[d].size >= 0 && info.shape[d].size != shape[d];
    return result;
}

/// Returns "[N,3,?]"
std::string shape_text(const ValueInfo& info) {
    std::vector<std::string> sizes;
    for (const Dimension& d : info.shape)
        sizes.push_back(d.size >= 0 ? std::to_string(d.size) : d.name.empty() ? "?" : d.name);
    return fmt::format("[{}]", fmt::join(sizes, ","));
}

/// Returns the first few of a list, and how many more there are.
std::string some_of(const std::vector<std::string>& list) {
    constexpr size_t most = 8;
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(std::min(most, list.size()));
    const std::string text = fmt::format("{}", fmt::join(list.begin(), end, ", "));
    return list.size() <= most ? text : fmt::format("{} and {} more", text, list.size() - most);
}

}  // namespace

/// The shape of an output is a promise to whoever uses the model. One with open sizes and another rank promises
/// nothing that can be kept: exporters leave it behind where a tool has not inferred the shape.
void Importer::check_declared(const ValueInfo& info, const Sizes& shape) const {
    if (!differs(info, shape)) return;
    const bool open =
        std::any_of(info.shape.begin(), info.shape.end(), [](const Dimension& d) { return d.size < 0; });
    if (open && info.shape.size() != shape.size()) {
        notes_.warning(
            {model_.origin, 0, 0},
            fmt::format("output `{}` is declared {}, the nodes make {}, which counts. Fix: none is "
                        "needed; onnx.shape_inference declares it anew.",
                        info.name, shape_text(info), text_of(shape)));
        return;
    }
    refuse(
        "output `{}` is declared {}, the nodes make {}. Fix: export the model again, or declare the shape "
        "that "
        "they make.",
        info.name, shape_text(info), text_of(shape));
}

/// Looks at something that has a name now.
void Importer::look_at(const Scope& scope, const std::string& name, const Operand& operand) {
    if (operand.type == Type::f64 && operand.value)
        doubles_.push_back(fmt::format("`{}{}`", scope.prefix, name));
    const auto info = infos_.find(name);  // those of the main graph
    if (scope.depth > 0 || operand.items != nullptr || operand.count || info == infos_.end()) return;
    if (differs(*info->second, operand.shape))
        stale_.push_back(
            fmt::format("`{}` {} is {}", name, shape_text(*info->second), text_of(operand.shape)));
}

void Importer::warn_of_declared() {
    if (!stale_.empty()) {
        notes_.warning(
            {model_.origin, 0, 0},
            fmt::format("value_info of the model declares other shapes than the nodes make: {}. Fix: "
                        "none is needed; onnx.shape_inference writes it anew.",
                        some_of(stale_)));
    }
    std::sort(doubles_.begin(), doubles_.end());
    doubles_.erase(std::unique(doubles_.begin(), doubles_.end()), doubles_.end());
    if (!doubles_.empty()) {
        notes_.warning({model_.origin, 0, 0},
                       fmt::format("float64 is computed as f32, which no device is wider than: {}. Fix: none "
                                   "is needed where 7 digits are enough; else run the model elsewhere.",
                                   some_of(doubles_)));
    }
}

}  // namespace kpu::onnx
