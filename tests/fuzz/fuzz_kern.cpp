// libFuzzer target: kernels from text, and from messages -> reader, checks, text and back, and both ways to run them.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/diagnostics.hpp"
#include "isa/kernel/code.hpp"
#include "values/kernel/launch.hpp"

namespace {

using namespace kpu::kernel;
using kpu::values::kernel::Bytes;
using kpu::values::kernel::Grid;
using kpu::values::kernel::LaunchLimits;
using kpu::values::kernel::LaunchResult;
using Blobs = std::vector<std::vector<uint8_t>>;

constexpr uint64_t most_steps = 2000;
constexpr uint64_t most_invocations = 64;
constexpr uint64_t most_bytes = 1 << 16;
constexpr uint64_t most_workgroup_bytes = 1 << 20;  // cleared for each workgroup
constexpr uint64_t extra_bytes = 40;                // of buffers without a count

[[noreturn]] void broken(std::string_view property, const kpu::proto::KernelBody& body) {
    fmt::print(stderr, "property broken: {}\n{}\n", property, print(body));
    std::abort();
}

/// Checks that printed text reads back as the same kernel.
void check_round_trip(const kpu::proto::KernelBody& body) {
    kpu::Diagnostics diagnostics;
    const std::vector<Source> again = parse(print(body), "<again>", diagnostics);
    if (diagnostics.has_errors() || again.size() != 1) broken("its text is read", body);
    if (again[0].body->SerializeAsString() != body.SerializeAsString()) broken("its text reads back", body);
}

struct Outcome {
    Blobs buffers;
    LaunchResult result;
    bool failed = false;
};

Outcome run(const Code& code, const Blobs& buffers, bool reference) {
    Outcome outcome;
    outcome.buffers = buffers;
    std::vector<Bytes> storage;
    for (auto& buffer : outcome.buffers) storage.push_back({buffer.data(), buffer.size()});
    const Grid grid{2, 1, 1};
    const std::vector<uint64_t> scalars(code.scalars.size(), 1);
    LaunchLimits limits;
    limits.steps = most_steps;
    limits.races = true;
    try {
        outcome.result = reference ? run_reference(code, grid, scalars, storage, limits)
                                   : run_launch(code, grid, scalars, storage, limits);
    } catch (const kpu::UserError&) {
        outcome.failed = true;
    } catch (const kpu::SimulationError&) {
        outcome.failed = true;
    }
    return outcome;
}

/// Checks that the interpreter and the fast path agree, unless a limit cuts them off at different places.
void check_runs(const Code& code) {
    if (code.invocations() > most_invocations || code.workgroup_bytes() > most_workgroup_bytes) return;
    Blobs buffers;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        const uint64_t bytes = (uint64_t{buffer.count} * storage_bits(buffer.type) + 7) / 8;
        if (bytes > most_bytes) return;
        std::vector<uint8_t>& blob = buffers.emplace_back(bytes + (buffer.count == 0 ? extra_bytes : 0));
        for (size_t i = 0; i < blob.size(); ++i) blob[i] = static_cast<uint8_t>(i * 37);
    }
    const Outcome fast = run(code, buffers, false), reference = run(code, buffers, true);
    if (fast.failed != reference.failed) broken("both ways fail, or none", *code.body);
    if (fast.failed || !fast.result.complete || !reference.result.complete) return;
    if (fast.buffers != reference.buffers) broken("both ways leave the same bytes", *code.body);
    if (fast.result.steps != reference.result.steps) broken("both ways take the same steps", *code.body);
    for (const auto& race : fast.result.races) race_text(code, fast.result.grid, race);
}

void check_kernel(const Source& source) {
    check_form(*source.body, "<fuzz>");
    check_round_trip(*source.body);
    kpu::Diagnostics diagnostics;
    const auto code = analyse(source, diagnostics);
    if ((code == nullptr) != diagnostics.has_errors()) broken("a refusal has a reason", *source.body);
    if (code == nullptr) return;
    first_data_dependence(*code);
    check_runs(*code);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try {
        kpu::Diagnostics diagnostics;
        const std::vector<Source> kernels = parse(bytes, "<fuzz>", diagnostics);
        if (!diagnostics.has_errors()) std::for_each(kernels.begin(), kernels.end(), check_kernel);
    } catch (const kpu::UserError&) {  // a file may be wrong
    }
    try {
        const auto body = new_body();
        Source source;
        source.body = body;
        if (body->ParseFromArray(data, static_cast<int>(size))) check_kernel(source);
    } catch (const kpu::UserError&) {
    }
    return 0;
}
