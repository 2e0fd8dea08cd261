#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "isa/device_limits.hpp"
#include "isa/kernel/code.hpp"
#include "isa/module.hpp"
#include "isa/opcodes.hpp"
#include "isa/unit_kind.hpp"

namespace kpu {

constexpr int max_rank = 6;
constexpr int max_loop_depth = 64;
constexpr uint64_t max_level_bytes = uint64_t{1}
                                     << 40;  ///< no device of ours has more; larger sizes are mistakes
constexpr uint64_t max_inferences = 1024;    ///< most repetitions of a program
constexpr int max_expr_stack = 64;           ///< operands on the stack of a postfix expression

/// Dense list of up to max_rank integers: a shape, strides.
struct Dims {
    std::array<int64_t, max_rank> v{};
    uint8_t rank = 0;
    int64_t operator[](size_t i) const { return v[i]; }
    int64_t& operator[](size_t i) { return v[i]; }
    const int64_t* begin() const { return v.data(); }
    const int64_t* end() const { return v.data() + rank; }
    int64_t product() const {
        int64_t result = 1;
        for (const int64_t extent : *this) result *= extent;
        return result;
    }
    bool operator==(const Dims& other) const;
};

/// Values of the loop variables that enclose a task, outermost first.
struct LoopValues {
    std::array<int64_t, 8> inline_values{};
    std::vector<int64_t> overflow;  ///< used beyond depth 8
    uint16_t depth = 0;
    int64_t operator[](size_t i) const {
        return i < inline_values.size() ? inline_values[i] : overflow[i - 8];
    }
    void push(int64_t value);
};

/// An integer expression with constants and parameters folded in; only loop variables are left.
struct BoundExpr {
    std::vector<proto::ExprToken::Kind> kinds;  ///< empty: the value is `constant`
    std::vector<int64_t> values;
    int64_t constant = 0;
    bool is_constant() const { return kinds.empty(); }
    /// Throws UserError on overflow, division by zero, negative mod operands.
    int64_t eval(const LoopValues& loops) const;
};

struct BoundQuant {
    proto::Quant::Kind kind = proto::Quant::NONE;
    int axis = 0;  ///< normalised to >= 0
    int64_t group_size = 0;
    std::vector<double> scales;
    std::vector<int64_t> zero_points;
    explicit operator bool() const { return kind != proto::Quant::NONE; }
};

/// Window of a memory level, everything resolved but the loop-dependent part of its address.
struct BoundRegion {
    std::string name;
    uint32_t buffer = 0;
    Level level = Level::ddr;
    uint16_t engine = 0;  ///< engine of a buffer in L1
    BoundExpr address;    ///< byte address in its level: buffer base + offset
    uint64_t extent = 0;  ///< bytes
    ElemType elem = ElemType::none;
    Dims shape;    ///< logical order: NHWC, HWIO, as written otherwise
    Dims strides;  ///< elements, one per dimension (also for layouts)
    BoundQuant quant;
    bool dense = true;                         ///< elements lie row-major without gaps
    bool readonly = false, writeonly = false;  ///< also of its buffer
    bool materialized = false;
    bool typed() const { return elem != ElemType::none; }
};

struct BoundBuffer {
    std::string name;
    Level level = Level::ddr;
    uint16_t engine = 0;
    uint64_t base = 0;  ///< byte address in its level
    uint64_t size = 0;
};

/// An attribute value after binding; the opcode table says which member counts.
struct BoundAttr {
    std::string name;
    int64_t integer = 0;  ///< also boolean (0, 1)
    double real = 0;
    std::vector<int64_t> ints;
    std::vector<double> reals;
    std::string text;  ///< strings and bare words
    ElemType type = ElemType::none;
};

/// Attributes that a compute engine needs and that do not change from iteration to iteration.
struct BoundAttrs {
    std::vector<BoundAttr> list;
    const BoundAttr* find(std::string_view name) const;
    int64_t integer(std::string_view name, int64_t fallback) const;
    double real(std::string_view name, double fallback) const;
    std::string_view word(std::string_view name, std::string_view fallback) const;
};

/// A token that a task needs of an earlier iteration (proto::Carried).
struct CarriedDep {
    uint32_t task = 0, loop = 0;  ///< statement indices
    uint32_t distance = 1;        ///< iterations of the loop
};
constexpr uint32_t max_carried_distance = uint32_t{1} << 31;

/// A launch of a vector kernel: the code it runs, and which operands of the task it takes. Its operands are
/// the task's.
struct BoundLaunch {
    struct Operand {
        int32_t input = -1, output = -1;  ///< places in the task's lists; -1: not in it
    };
    std::shared_ptr<const kernel::Code> code;
    std::vector<BoundExpr> grid;  ///< workgroups along x, y, z; empty: inferred
    std::vector<BoundExpr> scalars;
    std::vector<Operand> operands;           ///< one for each buffer that is not workgroup memory, in order
    uint64_t units_per_engine = UINT64_MAX;  ///< for whose workgroup memory L1 has room
};

struct BoundTask {
    proto::Task::Kind kind = proto::Task::TRANSFER;
    OpcodeId opcode = 0;           ///< compute only
    std::string name;              ///< token name; "opcode@line" or "#statement" when it has none
    std::vector<uint32_t> inputs;  ///< region indices; an absent optional operand is not listed
    std::vector<uint32_t> outputs;
    BoundAttrs attrs;
    std::vector<uint32_t> deps;  ///< statement indices
    std::vector<CarriedDep> carried;
    bool sync = false;
    bool memmove = false;
    UnitKind unit = UnitKind::dma;       ///< the kind of unit that executes it
    std::optional<UnitKind> partner;     ///< a second unit, of its engine, that it occupies: DDR <-> L1
    int32_t engine = -1;                 ///< -1: floats, any engine may take it
    int32_t instance = -1;               ///< @resource; -1: any, or as `instance_by_loops` says
    BoundExpr instance_by_loops;         ///< @resource(CSTL[i mod 4]): not constant; beyond the last one: any
    int32_t token_engine = 0;            ///< whose token table it uses when it floats (@seq_engine)
    uint32_t op = 0;                     ///< index into BoundProgram::ops
    uint64_t macs = 0;                   ///< algorithmic multiply-accumulates (gemm, conv)
    uint64_t elements = 0;               ///< output elements
    std::vector<uint32_t> materialized;  ///< output regions that carry @materialized
    std::shared_ptr<const BoundLaunch> launch;  ///< set if the task launches a kernel
    std::string profile;                        ///< tag of @profile, else of the innermost loop that has one

    bool launches() const { return kind == proto::Task::KERNEL; }
    bool computes() const { return kind == proto::Task::COMPUTE; }
    bool stores() const { return kind == proto::Task::STORE; }
    bool moves() const { return kind == proto::Task::TRANSFER || stores(); }
    /// Returns the instance of its unit that it asks for in these iterations; -1: any. Throws UserError when
    /// it is negative.
    int32_t instance_in(const LoopValues& loops) const;
};

/// Returns "gemm", "transfer", "store"; the name of a kernel.
std::string_view operation_of(const BoundTask& task);

struct BoundLoop {
    std::string variable;
    BoundExpr first, last;
    uint64_t max_in_flight = 1;
    uint32_t body_end = 0;
    uint16_t depth = 0;  ///< 0 = outermost
};

struct BoundStatement {
    enum class Kind : uint8_t { task, loop, wait, let };  ///< let: a declaration, nothing to do
    Kind kind = Kind::let;
    uint32_t index = 0;   ///< into tasks, loops or waits
    int32_t parent = -1;  ///< statement index of the enclosing loop; -1 = top level
};

/// A row of ops.csv: a front-end operation, or a task of a hand-written program.
struct BoundOp {
    std::string id;
    std::string type;
    uint64_t estimated_cycles = 0;
    double estimated_energy_pj = 0;
    std::string profile;  ///< tags of its tasks, joined by |, in the order of the text
    std::string bound;    ///< resource that the compiler says bounds it; empty: it does not say
    uint64_t bound_cycles = 0;
};

/// A host-visible tensor of a run: one input or output file.
struct TensorSpec {
    std::string name;
    uint32_t buffer = 0;
    uint64_t offset = 0;  ///< bytes from the buffer's base
    ElemType elem = ElemType::u8;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;  ///< elements; empty = dense
    bool declared = false;         ///< declared by a tensor of the program: host arrays must have its shape
    /// Element type of the host's array, which is converted at load and store; HOST_SAME: elem, nothing is
    /// converted.
    proto::HostElem host = proto::HOST_SAME;
    BoundQuant quant;                                      ///< maps the host's floats to integers, and back
    proto::Tensor::Follows follows = proto::Tensor::FREE;  ///< way in which an input follows another one
    /// Its number for an input that follows: position + plus.
    int64_t number = 0;
    bool converts() const { return host != proto::HOST_SAME; }
};

/// Bytes to place before the program starts.
struct DataImage {
    uint32_t buffer = 0;
    uint64_t offset = 0;
    const DataSection* bytes = nullptr;  ///< points into the module
};

/// A program with parameters, constants, addresses and units resolved: what control and model execute.
/// Statement, region and buffer indices are those of KPUProgram.
struct BoundProgram {
    std::string name;
    std::vector<BoundStatement> statements;
    std::vector<BoundTask> tasks;
    std::vector<BoundLoop> loops;
    std::vector<std::vector<uint32_t>> waits;  ///< statement indices
    std::vector<BoundRegion> regions;          ///< parallel to KPUProgram.region
    std::vector<BoundBuffer> buffers;          ///< parallel to KPUProgram.buffer
    std::vector<BoundOp> ops;
    std::vector<TensorSpec> inputs;  ///< buffers that need host data (design.md section 9)
    std::vector<TensorSpec> outputs;
    std::vector<DataImage> data;
    bool carries_places = false;  ///< the program says of statements what source they were made of
    /// Returns the position of a statement in its source, for messages; empty if unknown.
    SourcePos pos_of(size_t statement) const;
    /// Returns "program `p`, operation `conv1` (Conv), task `t` at net.py:7:1", for messages; the operation
    /// of compiled networks alone, the place of programs that carry places.
    std::string where(const BoundTask& task) const;
    uint64_t ddr_bytes = 0, l2_bytes = 0;  ///< used, after allocation
    std::vector<uint64_t> l1_bytes;        ///< used, per engine
    std::shared_ptr<const Module> module;  ///< keeps data sections alive
};

using ParamBindings = std::vector<std::pair<std::string, int64_t>>;

/// Throws UserError when a region at this byte address of its level leaves its buffer. Offsets may depend on
/// loop variables, so the control engine calls this for every instance that the verifier could not decide.
void check_region_bounds(const BoundProgram& program, uint32_t region, int64_t address);

/// Resolves a program that is known to be right, which verify() (verify.hpp) does too. Throws UserError
/// (unknown parameter, value out of range, over capacity, negative extents, bounds); nothing else is checked.
BoundProgram bind(std::shared_ptr<const Module> module, const ParamBindings& params,
                  const DeviceLimits& limits);

}  // namespace kpu
