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
extern const EmbeddedFile operators_kern[];
}

namespace kpu::kernels {
namespace {

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The text with words put in for others.
std::string with_words(std::string_view text, const std::map<std::string_view, std::string_view>& words) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
        size_t end = at;
        while (end < text.size() && in_name(text[end])) ++end;
        const std::string_view word = text.substr(at, std::max<size_t>(end - at, 1));
        const auto found = words.find(word);
        result += found == words.end() ? word : found->second;
        at += word.size();
    }
    return result;
}

Instance make(const Operation& operation, ElemType data) {
    const std::string_view type = name_of(data);
    const std::string name = fmt::format("{}_{}", operation.spec.name, type);
    const std::string text =
        with_words(operators_kern[0].text,
                   {{"data", type}, {"number", is_float(data) ? "f32" : "i32"}, {operation.spec.name, name}});
    Diagnostics found;
    const std::vector<kernel::Source> kernels = kernel::parse(text, "operators.kern", found);
    for (const kernel::Source& source : kernels) {
        if (found.has_errors() || source.body->name() != name) continue;
        Instance result{*source.body, kernel::analyse(source, found)};
        if (result.code != nullptr) return result;
    }
    throw InternalError(fmt::format("kernel {}: {}", name, UserError(std::move(found)).what()));
}

}  // namespace

const Instance& instance_of(const Operation& operation, ElemType data) {
    static std::mutex mutex;
    static std::map<std::pair<std::string_view, ElemType>, Instance> made;
    const std::lock_guard lock(mutex);
    const auto key = std::make_pair(operation.spec.name, data);
    const auto found = made.find(key);
    return found != made.end() ? found->second : made.emplace(key, make(operation, data)).first->second;
}

}  // namespace kpu::kernels
