#include "compiler/pallas/kernel_writer.hpp"
#include "compiler/pallas/pipeline.hpp"

namespace kpu::compiler::pallas {
namespace {

/// Returns, for each element that moves, its place in an array.
std::string places(KernelWriter& out, const Move& move, int64_t offset, const Shape& strides) {
    const std::string sizes = move.size.empty() ? "" : "{" + join(move.size) + "}";
    std::string sum = out.let(fmt::format("broadcast_to{}({})", sizes, index_text(offset)));
    for (size_t i = 0; i < strides.size(); ++i)
        if (strides[i] != 0)
            sum = out.let(fmt::format("{} + iota{{i32, {}, {}}}() * {}", sum, i, join(move.size),
                                      index_text(strides[i])));
    return out.let(fmt::format("reshape{{{}}}({})", kernel::elements_of(move.size), sum));
}

}  // namespace

LoweredCall move_kernel(const Export& program, const Move& move, const std::string& kernel_name) {
    const Array &from = program.arrays[move.from], &to = program.arrays[move.to];
    const int64_t from_count = kernel::elements_of(from.shape), to_count = kernel::elements_of(to.shape);
    const unsigned bytes = kernel::tile_bytes(from.type);
    const bool all = kernel::elements_of(move.size) == to_count;  // each element has one writer
    KernelWriter out;
    out.set_source(move.line);
    const Type type = stored(from.type);
    const std::string source = out.buffer("a_" + from.name, "read", type, from_count);
    const std::string target = out.buffer("a_" + to.name, all ? "write" : "read_write", type, to_count);
    const std::string here = out.buffer("w_" + from.name, "workgroup", type, from_count);
    const std::string there = out.buffer("w_" + to.name, "workgroup", type, to_count);
    const std::string semaphore = out.buffer("s", "workgroup", Type::u32, 1);
    const auto copy = [&](const std::string& a, const std::string& b, int64_t count) {
        out.line("async_copy({0}, {1}, window{{{2}}}(), window{{{2}}}(), {3}[0i32])", a, b, count, semaphore);
        out.line("wait({}, 0i32, {})", semaphore, index_text(count * bytes));
    };
    copy(source, here, from_count);
    if (!all) copy(target, there, to_count);
    const std::string values = out.let(fmt::format("permute{{0}}({}[window{{{}}}()], {})", here, from_count,
                                                   places(out, move, move.from_offset, move.from_stride)));
    out.line("{0}[window{{{1}}}()] = scatter({0}[window{{{1}}}()], {2}, {3})", there, to_count,
             places(out, move, move.to_offset, move.to_stride), values);
    copy(there, target, to_count);
    return {out.take_text(kernel_name), {{move.from, true, false}, {move.to, !all, true}}};
}

}  // namespace kpu::compiler::pallas
