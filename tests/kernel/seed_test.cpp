// The two tests that the kernel form was founded on, written with the builder's names.
#include "tests/kernel/support.hpp"
#include "values/kernel/lanes/interpreter.hpp"

namespace kpu::kernel_test {
namespace {

using kpu::kernel::Type;
using kpu::kernel::builder::BufferDecl;
using kpu::kernel::builder::Expr;
using kpu::kernel::builder::Node;
using kpu::kernel::builder::Program;

std::shared_ptr<const Code> analysed(const proto::KernelBody& body) {
    kpu::kernel::Source source;
    source.body = std::make_shared<proto::KernelBody>(body);
    Diagnostics diagnostics;
    auto code = kpu::kernel::analyse(source, diagnostics);
    if (code == nullptr) throw UserError(diagnostics);
    return code;
}

/// Runs the steps of one invocation to its end.
std::vector<Blob> run_program(const proto::KernelBody& program, std::vector<Blob> blobs) {
    const auto code = analysed(program);
    values::kernel::Memory memory(*code,
                                  {{blobs[0].data(), blobs[0].size()}, {blobs[1].data(), blobs[1].size()}});
    values::kernel::Invocation invocation(*code, {}, 0, {});
    while (!invocation.done()) step(invocation, memory, *code);
    return blobs;
}

TEST(KernelSeed, AsyncLoadWaitCopiesPayloadIntoDestination) {
    const auto program = Program::wrapped(
        "load",
        {BufferDecl::read("src", 0, Type::bytes).with_count(8),
         BufferDecl::output("dst", 1, Type::bytes).with_count(8)},
        {1, 1, 1},
        {Node::async_load_ext("src", "dst", Expr::u32(2), Expr::u32(4), "copy"), Node::AsyncWait("copy")});
    const auto blobs = run_program(program, {{10, 11, 12, 13, 14, 15, 16, 17}, Blob(8)});
    EXPECT_EQ(blobs[1], (Blob{12, 13, 14, 15, 0, 0, 0, 0}));
}

TEST(KernelSeed, AsyncStoreWaitCopiesPayloadAtDestinationOffset) {
    const auto program = Program::wrapped(
        "store",
        {BufferDecl::read("src", 0, Type::bytes).with_count(4),
         BufferDecl::output("dst", 1, Type::bytes).with_count(8)},
        {1, 1, 1},
        {Node::async_store("src", "dst", Expr::u32(3), Expr::u32(4), "store"), Node::AsyncWait("store")});
    const auto blobs = run_program(program, {{21, 22, 23, 24}, Blob(8)});
    EXPECT_EQ(blobs[1], (Blob{0, 0, 0, 21, 22, 23, 24, 0}));
}

TEST(KernelSeed, StepStopsAtABarrierAndIsOneStatement) {
    const auto program = Program::wrapped(
        "two", {BufferDecl::read("src", 0, Type::u32), BufferDecl::output("dst", 1, Type::u32)}, {1, 1, 1},
        {Node::Loop("i", Expr::u32(0), Expr::u32(2),
                    {Node::Store("dst", Expr::Var("i"), Expr::Load("src", Expr::Var("i")))}),
         Node::Barrier(), Node::Store("dst", Expr::u32(2), Expr::u32(9))});
    const auto code = analysed(program);
    Blob src = words({7, 8, 9}), dst(12);
    values::kernel::Memory memory(*code, {{src.data(), src.size()}, {dst.data(), dst.size()}});
    values::kernel::Invocation invocation(*code, {}, 0, {});
    for (int i = 0; i < 3; ++i) step(invocation, memory, *code);  // the loop, its two stores
    EXPECT_EQ(read(dst), (std::vector<uint32_t>{7, 8, 0}));
    EXPECT_FALSE(invocation.waiting_at_barrier);
    step(invocation, memory, *code);
    EXPECT_TRUE(invocation.waiting_at_barrier);
    step(invocation, memory, *code);  // nothing: it waits
    EXPECT_EQ(read(dst)[2], 0u);
    invocation.waiting_at_barrier = false;
    step(invocation, memory, *code);
    EXPECT_TRUE(invocation.done());
    EXPECT_EQ(read(dst)[2], 9u);
}

TEST(KernelSeed, BuilderAndTextAreOneForm) {
    const auto program = Program::wrapped(
        "saxpy",
        {BufferDecl::read("x", 0, Type::f32), BufferDecl::read_write("y", 1, Type::f32),
         BufferDecl::uniform("a", 2, Type::f32).with_count(1)},
        {32, 1, 1},
        {Node::Let("i", Expr::gid_x()),
         Node::If(Expr::lt(Expr::Var("i"), Expr::BufLen("y")),
                  {Node::Store("y", Expr::Var("i"),
                               Expr::Fma(Expr::Load("a", Expr::u32(0)), Expr::Load("x", Expr::Var("i")),
                                         Expr::Load("y", Expr::Var("i"))))})});
    EXPECT_EQ(kpu::kernel::print(program),
              "kernel saxpy workgroup(32) (x: read f32[], y: read_write f32[], a: uniform f32[1]):\n"
              "    let i = gid.x\n"
              "    if i < len(y):\n"
              "        y[i] = fma(a[0], x[i], y[i])\n"
              "    endif\n"
              "endkernel\n");
}

TEST(KernelSeed, ABindingIsUsedOnce) {
    EXPECT_THROW(
        Program::wrapped("k", {BufferDecl::read("x", 0, Type::f32), BufferDecl::read("y", 0, Type::f32)},
                         {1, 1, 1}, {}),
        UserError);
    EXPECT_THROW(Expr::LocalId(3), UserError);
}

}  // namespace
}  // namespace kpu::kernel_test
