// Mistakes that can be known before a kernel runs are refused, in the published words.
#include "tests/kernel/support.hpp"

namespace kpu::kernel_test {
namespace {

struct Case {
    const char* name;
    std::string body;  ///< body of a kernel with the buffers below
    std::string text;  ///< in the messages
};

const std::string head =
    "kernel k workgroup(8) (x: read f32[8], n: read u32[8], s: read i32[8], y: read_write f32[8], m: "
    "read_write u32[8],\n"
    "  w: write u32[8], t: workgroup u32[4], q: uniform u32[1], b: read bytes[8], h: read u8[8], l: u32):\n";

std::vector<Case> cases() {
    std::string deep_block, deep_end;
    for (int i = 0; i < 65; ++i) {
        deep_block += "block: ";
        deep_end += " endblock";
    }
    std::string many;
    for (int i = 0; i < 8193; ++i) many += "barrier\n";
    return {
        {"sibling", "let a = 1 let a = 2",
         "duplicate sibling let binding `a` in the same region. Fix: rename one binding or move one "
         "declaration into an "
         "inner Block/Region/Loop if a new scope is intended."},
        {"shadow", "let a = 1 block: let a = 2 endblock",
         "duplicate local binding `a` shadows an outer scope. Fix: choose a unique local name."},
        {"shadowed_scalar", "let l = 1", "duplicate local binding `l` shadows"},
        {"gone", "block: let a = 2 endblock let c = a",
         "reference to undeclared variable `a`. Fix: add a Let before this use."},
        {"assign", "a = 1", "assignment to undeclared variable `a`. Fix: add a Let before assigning it."},
        {"assign_loop", "loop i in 0..4: i = 2 endloop",
         "assignment to loop variable `i`. Fix: loop variables are immutable."},
        {"assign_scalar", "l = 2", "assignment to scalar `l`"},
        {"assign_type", "let a = 1 a = 2.0",
         "assignment to `a` has type `f32` but the binding was declared as `u32`. Fix: cast the value to "
         "`u32` or "
         "introduce a new binding with the intended type."},
        {"atomic_read", "let a = atomic_add(n[0], 1)",
         "atomic `Add` targets read-only buffer `n`. Fix: declare `n` with BufferAccess::ReadWrite before "
         "issuing `Add`."},
        {"atomic_uniform", "let a = atomic_or(q[0], 1)",
         "atomic `Or` targets uniform buffer `q`. Fix: move `q` to BufferAccess::ReadWrite before issuing "
         "`Or`."},
        {"atomic_write", "let a = atomic_or(w[0], 1)",
         "atomic target `w` is not writable. Fix: atomics only support ReadWrite storage buffers."},
        {"atomic_workgroup", "let a = atomic_min(t[0], 1)",
         "atomic `Min` on workgroup buffer `t` is rejected by the current memory model. Fix: use a storage "
         "ReadWrite "
         "buffer for atomics."},
        {"atomic_type", "let a = atomic_add(y[0], 1)",
         "atomic on buffer `y` with non-u32 element type `f32`. Fix: atomics only support U32 elements."},
        {"atomic_index", "let a = atomic_add(m[1i32], 1)",
         "atomic index on buffer `m` has type `i32`, must be `u32`. Fix: cast the index to U32 before the "
         "atomic operation."},
        {"atomic_unknown", "let a = atomic_add(z[0], 1)",
         "atomic on unknown buffer `z`. Fix: declare it in Program::buffers."},
        {"atomic_weak", "let a = atomic_compare_exchange_weak(m[0], 1, 2)",
         "unsupported atomic op `CompareExchangeWeak` reached the reference interpreter. Fix: define "
         "sequential semantics "
         "before constructing this AtomicOp."},
        {"atomic_expected", "let a = atomic_compare_exchange(m[0], 1)",
         "compare-exchange atomic is missing expected value. Fix: set Expr::Atomic.expected for "
         "AtomicOp::CompareExchange."},
        {"atomic_no_expected", "let a = atomic_add(m[0], 1, 2)",
         "non-compare-exchange atomic includes an expected value. Fix: use Expr::Atomic.expected only with "
         "AtomicOp::CompareExchange."},
        {"barrier", "if lid.x < 2: barrier endif",
         "barrier may be reached by only part of a workgroup. Fix: move the barrier to uniform control "
         "flow."},
        {"barrier_in_region", "if n[0] == 1: region \"r\": barrier endregion endif",
         "barrier may be reached by only part of a workgroup."},
        {"barrier_variable", "let c = false c = lid.x == 0 loop i in 0..u32(c): barrier endloop",
         "barrier may be reached by only part of a workgroup."},
        {"barrier_relaxed", "barrier relaxed",
         "barrier uses memory ordering `Relaxed`, but barriers must synchronize memory. Fix: use Acquire, "
         "Release, AcqRel, "
         "or SeqCst; use no barrier at all for Relaxed."},
        {"barrier_grid", "barrier grid", "a barrier of the whole grid"},
        {"cast", "let a = u8(x[0])",
         "unsupported cast from `f32` to `u8`. Source type `f32` legal targets are `bool`, `u32`, `i32`, "
         "`u64`, `f32`, "
         "`f16`, `bf16`. Choose one of those targets or rewrite this cast expression before validation."},
        {"narrowing", "let a = u8(n[0])", "narrowing cast from `u32` to `u8` may truncate high bits."},
        {"bytes", "let a = b[0]",
         "operation on buffer `b` with element type `bytes` is not supported. Fix: use a typed buffer."},
        {"fma", "let a = fma(x[0], s[0], x[0])",
         "Fma operand `b` has type `i32`, must be `f32`. Fix: cast the operand to F32 before Fma, or use the "
         "integer mul/add "
         "form explicitly."},
        {"select", "let a = select(true, 1, 2.0)",
         "Select branches have mismatched types: true=`u32`, false=`f32`. Fix: cast both branches to the "
         "same type before "
         "Select."},
        {"mismatch", "let a = 1 + -2i32",
         "binary op `Add` received mismatched operands U32(1) and I32(-2). Fix: insert an explicit Cast so "
         "both operands "
         "have the same primitive type."},
        {"mismatch_values", "let a = true == 1.0", "mismatched operands Bool(true) and Float(1.0)."},
        {"binary_bool", "let a = true + false",
         "binary op `Add` is not defined for bool operands. Fix: cast bools to u32 before numeric or bitwise "
         "operations."},
        {"binary_float", "let a = x[0] % x[1]",
         "binary op `Mod` is not defined for f32 operands. Fix: use arithmetic or comparison ops only for "
         "float primitives."},
        {"unary_bool", "let a = ~true",
         "unary op `BitNot` is not defined for bool operands. Fix: cast bool to u32 before numeric or "
         "bitwise unary "
         "operations."},
        {"unary_float", "let a = popcount(x[0])",
         "unary op `Popcount` is not defined for f32 operands. Fix: use numeric or IEEE-754 classification "
         "ops only for "
         "float primitives."},
        {"unary_narrow", "let a = ~h[0]",
         "unary op `BitNot` received non-primitive operand `u8`. Fix: load or cast to a scalar primitive "
         "before applying "
         "unary ops."},
        {"divisor", "let a = n[0] / 0",
         "binary operation `Div` has a statically-zero divisor. Fix: guard the divisor, use Select to "
         "substitute a non-zero "
         "value, or reject the input before building IR."},
        {"if_type", "if x[0]: endif",
         "Node::If condition has type `f32` but must be `u32` or `bool`. Fix: cast or rewrite the condition "
         "expression to "
         "produce `u32` or `bool`."},
        {"loop_from", "loop i in 1.0..4: endloop",
         "Node::Loop from-bound has type `f32`; legal loop bound type is `u32`. Fix: cast the `from` bound "
         "to `u32`."},
        {"loop_to", "loop i in 0..s[0]: endloop",
         "Node::Loop to-bound has type `i32`; legal loop bound type is `u32`."},
        {"loop_lower", "loop i in -1i32..4: endloop",
         "loop lower bound I32(-1) cannot be represented as u32. Fix: use an in-range unsigned loop bound."},
        {"loop_upper", "loop i in 0..-4i32: endloop",
         "loop upper bound I32(-4) cannot be represented as u32. Fix: use an in-range unsigned loop bound."},
        {"store_index", "y[1i32] = 1.0",
         "Node::Store buffer `y` index has type `i32` but must be `u32`. Fix: cast the index to U32 before "
         "storing."},
        {"store_negative", "y[-1i32] = 1.0",
         "store index I32(-1) cannot be represented as u32. Fix: use a non-negative scalar index within "
         "u32."},
        {"store_beyond", "y[8] = 1.0",
         "store index 8 overflows buffer `y` with count 8. Fix: keep constant store indices below the "
         "declared element "
         "count."},
        {"store_read", "x[0] = 1.0",
         "store to non-writable buffer `x`. Fix: declare it with BufferAccess::ReadWrite, "
         "BufferAccess::WriteOnly, or "
         "BufferAccess::Workgroup."},
        {"store_unknown", "z[0] = 1.0", "store to unknown buffer `z`. Fix: declare it in Program::buffers."},
        {"store_type", "y[0] = 1i32", "store of `i32` to buffer `y` of `f32`."},
        {"load_unknown", "let a = z[0]",
         "load from unknown buffer `z`. Fix: declare it in Program::buffers."},
        {"load_negative", "let a = x[-3i32]",
         "load index I32(-3) cannot be represented as u32. Fix: use a non-negative scalar index within u32."},
        {"len_unknown", "let a = len(z)",
         "buflen of unknown buffer `z`. Fix: declare it in Program::buffers."},
        {"return", "return barrier",
         "unreachable statements after `return`. Fix: remove statements after `return` or reorder them."},
        {"tag", "async_wait(\"\")",
         "async stream tag is empty. Fix: use a stable non-empty tag to pair AsyncLoad and AsyncWait nodes."},
        {"copy_unknown", "async_load(z, m, 0, 4, \"t\")",
         "missing buffer declaration `z`. Fix: declare every async transfer buffer."},
        {"copy_read", "async_load(m, n, 0, 4, \"t\")",
         "store target `n` is not writable. Fix: declare it ReadWrite, WriteOnly, or Workgroup."},
        {"copy_size", "async_store(n, m, 0, -4i32, \"t\")",
         "async store size cannot be represented as u64. Fix: use an in-range non-negative byte count."},
        {"copy_huge", "async_load(n, m, 0, 1152921504606846976u64, \"t\")",
         "async load size exceeds host usize. Fix: reduce the async transfer span."},
        {"resume", "resume(\"r\")",
         "reference dispatch reached Resume `r` without a replay runtime. Fix: lower Resume through a "
         "runtime-owned replay "
         "path before reference execution."},
        {"all_reduce", "all_reduce(m, \"add\", 3)",
         "reference dispatch reached AllReduce on buffer `m` for group 3. Fix: run this Program on a "
         "distributed backend "
         "with collective support or lower the single-rank collective before reference execution."},
        {"all_gather", "all_gather(n, m, 0)",
         "reference dispatch reached AllGather `n` -> `m` for group 0. Fix:"},
        {"reduce_scatter", "reduce_scatter(n, m, \"max\", 0)",
         "reference dispatch reached ReduceScatter `n` -> `m` for group 0. Fix:"},
        {"broadcast", "broadcast(m, 2, 1)",
         "reference dispatch reached Broadcast on buffer `m` from root 2 for group 1. Fix:"},
        {"opaque", "opaque(\"kind\", name)",
         "reference interpreter does not support opaque node extension `kind`/`name`. Fix: provide a "
         "reference evaluator "
         "for this NodeExtension or lower it to core Node variants before evaluation."},
        {"dispatch_aligned", "indirect_dispatch(z, 2)",
         "indirect dispatch offset 2 is not 4-byte aligned. Fix: use a u32-aligned dispatch tuple."},
        {"dispatch_unknown", "indirect_dispatch(z, 4)",
         "indirect dispatch references unknown buffer `z`. Fix: declare the count buffer before execution."},
        {"dispatch_overflow", "indirect_dispatch(n, 18446744073709551612)",
         "indirect dispatch byte range overflowed u64. Fix: shrink the count offset."},
        {"dispatch_short", "indirect_dispatch(n, 24)",
         "indirect dispatch buffer `n` is too short for a 3-word dispatch tuple at byte offset 24. Fix: "
         "provide 12 readable "
         "bytes starting at that offset."},
        {"dispatch", "indirect_dispatch(n, 20)",
         "Node::IndirectDispatch cannot execute in the sequential reference interpreter because dynamic "
         "indirect dispatch "
         "requires runtime queue scheduling."},
        {"shuffle_type", "let a = shuffle(s[0], 1)",
         "subgroup_shuffle lanes have mixed or unsupported value types. Fix: cast every lane value to the "
         "same primitive "
         "u32 or f32 type before the subgroup collective."},
        {"shuffle_lane", "let a = shuffle(n[0], 1i32)",
         "subgroup_shuffle lane index is not a u32. Fix: use a scalar u32 lane argument."},
        {"subgroup_atomic", "let a = ballot(atomic_add(m[0], 1))", "an atomic within a subgroup operation."},
        {"axis", "let a = gid.w", "invocation/workgroup ID axis `w` out of range. Fix: use 0, 1, or 2."},
        {"tile", "let a = iota{8}()", "`iota` is an operation on tiles, of rule set xla."},
        {"tile_load", "let a = x[0, 1]", "is one of tiles, of rule set xla."},
        {"semaphore", "signal(m, 1, 1)", "semaphores belong to rule set xla."},
        {"nesting", deep_block + deep_end,
         "program nesting depth 65 exceeds max 64. Fix: flatten nested If/Loop/Block structures or split the "
         "program before "
         "lowering."},
        {"nodes", many,
         "program node count exceeds limit 8192. Fix: split the program into smaller kernels or run an "
         "optimization pass "
         "before lowering."},
    };
}

TEST(KernelErrors, AreWordForWord) {
    for (const Case& c : cases()) {
        const std::string errors = errors_of(head + c.body + "\nendkernel");
        EXPECT_NE(errors.find(c.text), std::string::npos) << c.name << ":\n" << errors;
    }
}

TEST(KernelErrors, NameTheirPlace) {
    EXPECT_EQ(
        errors_of("kernel k workgroup(1) (y: output f32[2]):\n    let i = 0\n    y[i] = 1i32\nendkernel"),
        "t.kern:3:5: error: kernel `k`, `y[i] = 1i32`: store of `i32` to buffer `y` of `f32`. Fix: cast the "
        "value to "
        "one of `u32`, `f32`.");
}

TEST(KernelErrors, AWholeExpressionTooDeepIsRefused) {
    std::string deep = "let v = 1";
    for (int i = 0; i < 128; ++i) deep += " + 1";
    EXPECT_THROW(
        {
            try {
                code_of(head + deep + " endkernel");
            } catch (const UserError& error) {
                EXPECT_NE(std::string(error.what())
                              .find("expression nesting depth 129 exceeds max 128. Fix: split the "
                                    "expression into intermediate let-bindings before lowering."),
                          std::string::npos)
                    << error.what();
                throw;
            }
        },
        UserError);
    std::string nested(300, '('), wide = "let v = 1";
    EXPECT_NE(errors_of(head + "let v = " + nested).find("nested more than 256 deep"), std::string::npos);
    for (int i = 0; i < 127; ++i) wide += " + 1";
    EXPECT_EQ(errors_of(head + wide + " endkernel"), "");
}

TEST(KernelErrors, HeadsOfKernels) {
    const std::pair<std::string, std::string> wrong[] = {
        {"kernel k workgroup(0) (): endkernel",
         "workgroup size contains zero. Fix: all dimensions must be >= 1."},
        {"kernel k workgroup(65536, 65536) (): endkernel",
         "workgroup invocation count overflows u32. Fix: reduce workgroup dimensions before reference "
         "execution."},
        {"kernel k workgroup(65537) (): endkernel", "a workgroup of 65537 invocations"},
        {"kernel k workgroup(1) (x: read u4[8]): endkernel",
         "buffer `x` of `u4`, which memory does not hold. Fix: use i8 or u8, and cast what is loaded."},
        {"kernel k workgroup(1) (s: workgroup u64[8388609]): endkernel",
         "workgroup memory requires 67108872 bytes, exceeding the 67108864-byte reference budget. Fix: "
         "reduce workgroup "
         "buffer counts."},
        {"kernel k workgroup(1) (s: workgroup u32[0]): endkernel",
         "workgroup buffer `s` has count 0. Fix: declare a positive element count."},
        {"kernel k workgroup(1) (s: read u32[], s: read u32[]): endkernel",
         "duplicate buffer name `s`. Fix: each buffer must have a unique name."},
        {"kernel k workgroup(1) (s: read u33[]): endkernel", "unknown type `u33`. Fix: did you mean `u32`?"},
        {"kernel k workgroup(1) (s: reed u32[]): endkernel", "`reed` is neither an access nor a type"},
        {"kernel k workgroup(1) (s: f32): endkernel", "scalar `s` has type `f32`"},
        {"kernel k rules(xla) workgroup(2) (): endkernel",
         "a kernel of rule set xla has one invocation. Fix:"},
        {"kernel k workgroup(1) (): if true:", "`if` of line 1 has no end. Fix: add endif."},
        {"kernel k workgroup(1) ():", "the kernel has no end. Fix: add endkernel."},
        {"kernel k workgroup(1) (): let a = foo(1) endkernel", "unknown operation `foo`"},
        {"kernel k workgroup(1) (): let a = 4294967296 endkernel", "`4294967296` is not a valid u32"},
        {"kernel k workgroup(1) (): let a = 1 $ endkernel", "found `$`"},
    };
    for (const auto& [text, message] : wrong)
        EXPECT_NE(errors_of(text).find(message), std::string::npos) << errors_of(text);
}

TEST(KernelErrors, LaunchesThatDoNotFit) {
    const auto code = code_of("kernel k workgroup(64) (x: read f32[4], n: u32): endkernel");
    const auto error = [&](const std::vector<Blob>& buffers, const Grid& grid,
                           const std::vector<uint64_t>& scalars) {
        return run(*code, buffers, grid, scalars).error;
    };
    EXPECT_NE(error({Blob(12)}, {1, 1, 1}, {1})
                  .find("buffer `x` has 12 bytes but requires at least 16 bytes (4 elements of f32). Fix: "
                        "provide a larger "
                        "input buffer."),
              std::string::npos);
    EXPECT_NE(error({Blob(16), Blob(4)}, {1, 1, 1}, {1}).find("unused input values supplied."),
              std::string::npos);
    EXPECT_NE(error({}, {1, 1, 1}, {1}).find("missing buffer `x`. Fix: initialize all declared buffers."),
              std::string::npos);
    EXPECT_NE(error({Blob(16)}, {uint64_t{1} << 40, 1, 1}, {1})
                  .find("workgroup * dispatch dimensions overflow u32 global id. Fix: reduce workgroup id or "
                        "workgroup size "
                        "so each global_invocation_id component fits in u32."),
              std::string::npos);
    EXPECT_NE(error({Blob(16)}, {0, 1, 1}, {1}).find("no workgroup along axis 0"), std::string::npos);
    EXPECT_NE(error({Blob(16)}, {1, 1, 1}, {}).find("takes 1 scalars, the launch gives 0"),
              std::string::npos);
    EXPECT_EQ(error({Blob(16)}, {1, 1, 1}, {1}), "");
}

}  // namespace
}  // namespace kpu::kernel_test
