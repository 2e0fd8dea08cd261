// libFuzzer target: the text of a graph -> reader, and back: what is read is written as a text that reads as the same.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/diagnostics.hpp"
#include "compiler/graph/text.hpp"

namespace {

using namespace kpu::graph;

[[noreturn]] void broken(std::string_view property, const std::string& text) {
    fmt::print(stderr, "property broken: {}\n{}\n", property, text);
    std::abort();
}

void check_round_trip(const TextGraph& found) {
    std::string constants, constants_again;
    const std::string text = to_text(found.graph, found.head, &constants);
    try {
        const TextGraph again = from_text(text, "<again>", constants);
        if (to_text(again.graph, again.head, &constants_again) != text || constants_again != constants)
            broken("what is written reads back as the same", text);
    } catch (const kpu::UserError& error) {
        broken(error.what(), text);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        check_round_trip(from_text(text, "<fuzz>", "sixteen bytes..."));
    } catch (const kpu::UserError&) {  // a text may be wrong
    }
    return 0;
}
