// libFuzzer target: a schedule of any form -> reader, checks, lowering, and back. A file without a header
// gets one, so that its ops are looked at too.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/diagnostics.hpp"
#include "compiler/tile_schedule/forms.hpp"
#include "compiler/tile_schedule/lower.hpp"
#include "tests/fuzz/properties.hpp"

namespace {

using namespace kpu::tile_schedule;

constexpr uint64_t arena_bytes = 64 * 1024;
constexpr uint64_t most_tensor_bytes = 1 << 20;  // larger ones are legal, and slow to lower

const Header& some_header() {
    static const Header header = read_header(
        "tile 4 f32\ntensor 0 x 12 12 input\ntensor 1 w 12 8 weight\ntensor 2 h 12 8 intermediate\n"
        "tensor 3 y 9 8 output\n",
        "<header>");
    return header;
}

[[noreturn]] void broken(std::string_view property, const Schedule& schedule) {
    fmt::print(stderr, "property broken: {}\n{}\n", property, write_schedule(schedule, Form::text));
    std::abort();
}

/// Checks that what is written reads back as the same ops and header.
void check_round_trips(const Schedule& schedule) {
    for (const Form form : {Form::text, Form::packed, Form::protobuf, Form::json}) {
        std::string bytes;
        try {
            bytes = write_schedule(schedule, form);
        } catch (const kpu::UserError&) {  // a STORE with a buffer has no packed form
            if (form != Form::packed) broken("every schedule has this form", schedule);
            continue;
        }
        if (bytes.empty() || (schedule.ops.empty() && !schedule.has_header)) continue;
        const Schedule again = read_schedule(bytes, "<again>");
        if (!(again.ops == schedule.ops)) broken("ops read back", schedule);
        if (again.has_header && header_text(again.header) != header_text(schedule.header))
            broken("the header reads back", schedule);
    }
}

void check_lowering(const Schedule& schedule) {
    AnalysisOptions options;
    options.arena_bytes = arena_bytes;
    const Analysis analysis = analyse(schedule, options);
    kpu::Diagnostics diagnostics;
    report(analysis, schedule, diagnostics);
    uint64_t bytes = 0;
    for (const Tensor& tensor : schedule.header.tensors)
        bytes += tensor.tile_rows(schedule.header.format.tile) *
                 tensor.tile_cols(schedule.header.format.tile) * schedule.header.format.elements() * 4;
    if (diagnostics.has_errors() || bytes > most_tensor_bytes) return;
    kpu::fuzz::check_module(lower(schedule, analysis, "fuzz"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try {
        Schedule schedule = read_schedule(bytes, "<fuzz>");
        check_round_trips(schedule);
        if (!schedule.has_header) set_header(schedule, some_header());
        check_lowering(schedule);
    } catch (const kpu::UserError&) {  // a file may be wrong
    }
    return 0;
}
