// Kernels for certain types, made of their text.
#include <fmt/format.h>

#include <cctype>
#include <map>
#include <mutex>

#include "base/diagnostics.hpp"
#include "base/embedded_file.hpp"
#include "compiler/kernels/operations.hpp"
#include "isa/kernel/text.hpp"

namespace kpu {
extern const EmbeddedFile operators_kern[], copying_kern[];
}

namespace kpu::kernels {
namespace {

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns the text with words put in for others.
std::string with_words(std::string_view text, const std::map<std::string_view, std::string>& words) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
        size_t end = at;
        while (end < text.size() && in_name(text[end])) ++end;
        const std::string_view word = text.substr(at, std::max<size_t>(end - at, 1));
        const auto found = words.find(word);
        result += found == words.end() ? word : std::string_view(found->second);
        at += word.size();
    }
    return result;
}

std::string name_of(const Operation& operation, ElemType data, const Launch& launch) {
    std::string name = fmt::format("{}_{}", operation.spec.name, name_of(data));
    for (const auto& [word, size] : launch.sizes) name += fmt::format("_{}", size);
    return name;
}

Instance make(const Operation& operation, ElemType data, const std::string& name, const Launch& launch) {
    std::map<std::string_view, std::string> words{{"data", std::string(name_of(data))},
                                                  {"number", is_float(data) ? "f32" : "i32"},
                                                  {operation.spec.name, name}};
    std::map<std::string, int64_t> sizes{{"ELEMENT", bit_width(data) / 8}};
    sizes.insert(launch.sizes.begin(), launch.sizes.end());
    sizes.insert(launch.lengths.begin(), launch.lengths.end());
    std::map<std::string, std::string> literals;
    for (const auto& [word, size] : sizes) {
        literals[word] = std::to_string(size);
        literals[word + "_i32"] = fmt::format("{}i32", size);
    }
    words.insert(literals.begin(), literals.end());
    const bool copies = operation.in_place >= 0;
    const std::string text = with_words((copies ? copying_kern : operators_kern)[0].text, words);
    Diagnostics found;
    const std::vector<kernel::Source> kernels = kernel::parse(text, "operators.kern", found);
    for (const kernel::Source& source : kernels) {
        if (found.has_errors() || source.body->name() != name) continue;
        Instance result{*source.body, kernel::analyse(source, found)};
        if (result.code == nullptr) continue;
        result.needs_values = kernel::first_data_dependence(*result.code).has_value();
        return result;
    }
    throw InternalError(fmt::format("kernel {}: {}", name, UserError(std::move(found)).what()));
}

}  // namespace

const Instance& instance_of(const Operation& operation, ElemType data, const Launch& launch) {
    static std::mutex mutex;
    static std::map<std::string, Instance> made;
    const std::lock_guard lock(mutex);
    std::string name = name_of(operation, data, launch);
    const auto found = made.find(name);
    if (found != made.end()) return found->second;
    Instance instance = make(operation, data, name, launch);
    return made.emplace(std::move(name), std::move(instance)).first->second;
}

}  // namespace kpu::kernels
