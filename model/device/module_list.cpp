#include <fmt/format.h>

#include "model/device/device_impl.hpp"

namespace kpu::model {

namespace {

void print(const sc_core::sc_object& object, int depth, std::string& text) {
    text += fmt::format("{:{}}{} ({})\n", "", depth * 2, object.basename(), object.kind());
    for (const sc_core::sc_object* child : object.get_child_objects()) {
        if (dynamic_cast<const sc_core::sc_module*>(child) != nullptr) print(*child, depth + 1, text);
    }
}

}  // namespace

std::string Device::Impl::module_list() const {
    const SimContext::Entry entry(context);
    std::string text = "modules\n";
    for (const sc_core::sc_object* object : sc_core::sc_get_top_level_objects()) {
        if (dynamic_cast<const sc_core::sc_module*>(object) != nullptr) print(*object, 1, text);
    }
    text += "bindings\n";
    for (const auto& [from, to] : bindings) text += fmt::format("  {} -> {}\n", from, to);
    return text;
}

}  // namespace kpu::model
