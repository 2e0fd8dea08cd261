#pragma once
// A fluent C++ way to make a Module without text; front ends, tests and benchmarks use it.
//
//     using namespace kpu::builder;
//     Program p("relu_rows");
//     Buffer x = p.buffer("X", Level::ddr, 8 * 64), y = p.buffer("Y", Level::ddr, 8 * 64);
//     Buffer s = p.buffer("S", Level::l1, 2 * 64);
//     p.loop("i", 0, 7, 2, [&](Expr i) {                       // at most 2 iterations in flight
//         Region slot = p.region("slot", s, i % 2 * 64, tensor(ElemType::i8, {64}));
//         Task load = p.transfer("load", slot, p.region("row", x, i * 64, tensor(ElemType::i8, {64})));
//         Task work = p.compute("relu", {slot}, {slot}).after({load});
//         p.store("out", p.region("res", y, i * 64, tensor(ElemType::i8, {64})), slot).after({work});
//     });
//     Module module = p.build();
//
// Handles stay valid as long as their Program. Misuse (a token of a later task, a loop variable outside its
// loop) is found by build(), which throws UserError.
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "isa/module.hpp"
#include "isa/unit_kind.hpp"

namespace kpu::builder {

/// Integer expression over literals, constants, parameters and loop variables. Operators on two literals
/// fold.
class Expr {
  public:
    Expr(int64_t value) : literal_(value) {}  // implicit on purpose: literals stand where expressions do
    static Expr leaf(proto::ExprToken::Kind kind, int64_t value) {
        Expr expr(0);
        expr.tokens_.push_back({kind, value});
        return expr;
    }
    /// Adds its tokens to an empty message.
    void write(proto::Expr& to) const;
    bool is_literal() const { return tokens_.empty(); }
    int64_t literal() const { return literal_; }
    /// Returns the number of a loop, if it is the variable of one; -1: it is not.
    int64_t loop() const;

    friend Expr operator+(const Expr& a, const Expr& b) { return binary(proto::ExprToken::ADD, a, b); }
    friend Expr operator-(const Expr& a, const Expr& b) { return binary(proto::ExprToken::SUB, a, b); }
    friend Expr operator*(const Expr& a, const Expr& b) { return binary(proto::ExprToken::MUL, a, b); }
    friend Expr operator/(const Expr& a, const Expr& b) { return binary(proto::ExprToken::DIV, a, b); }
    friend Expr operator%(const Expr& a, const Expr& b) { return binary(proto::ExprToken::MOD, a, b); }

  private:
    struct Token {
        proto::ExprToken::Kind kind;
        int64_t value;
    };
    static Expr binary(proto::ExprToken::Kind kind, const Expr& a, const Expr& b);
    void append_to(std::vector<Token>& tokens) const;

    int64_t literal_;
    std::vector<Token> tokens_;  ///< empty: it is a literal
};

proto::Quant per_tensor(double scale, int64_t zero_point = 0);
/// Makes a quantisation with one scale per index of dimension `axis`; zero points are all zero when left out.
proto::Quant per_channel(int axis, const std::vector<double>& scales, std::vector<int64_t> zero_points = {});
proto::Quant per_group(int axis, uint32_t group_size, const std::vector<double>& scales,
                       std::vector<int64_t> zero_points = {});

/// Element type and shape of a region; row-major unless a layout or strides (elements) are given.
struct TensorType {
    ElemType elem = ElemType::none;
    std::vector<Expr> shape;
    std::string layout_name = "row_major";
    std::vector<Expr> stride_list;
    proto::Quant quant_info;

    TensorType layout(std::string name) &&;  ///< NHWC, NCHW, HWIO, any other = row-major
    TensorType strides(std::vector<Expr> elements) &&;
    TensorType quant(proto::Quant quant) &&;
    TensorType layout(std::string name) const& { return TensorType(*this).layout(std::move(name)); }
    TensorType strides(std::vector<Expr> elements) const& {
        return TensorType(*this).strides(std::move(elements));
    }
    TensorType quant(proto::Quant quant) const& { return TensorType(*this).quant(std::move(quant)); }
};
TensorType tensor(ElemType elem, std::vector<Expr> shape);

class Program;

struct Buffer {
    uint32_t index = 0;
};

/// A declared region; as an operand it may carry @materialized.
class Region {
  public:
    uint32_t index() const { return index_; }
    Region& decorate(const std::string& name);  ///< readonly, writeonly, materialized: on the declaration
    Region materialized() const;                ///< this use only
    bool is_materialized() const { return materialized_; }

  private:
    friend class Program;
    Region(Program& program, uint32_t index) : program_(&program), index_(index) {}
    Program* program_;
    uint32_t index_;
    bool materialized_ = false;
};

/// A task statement, which is also its token.
class Task {
  public:
    uint32_t statement() const { return statement_; }
    Task& after(const std::vector<Task>& tokens);
    /// Depends on the token of `task` `distance` iterations of a loop before; the loop is named by its
    /// variable and its body is being made. The task may be this one or a later one of the loop.
    Task& after_previous(const Task& task, const Expr& loop, uint32_t distance = 1);
    Task& attr(const std::string& name, const Expr& value);
    Task& attr(const std::string& name, int64_t value) { return attr(name, Expr(value)); }
    Task& attr(const std::string& name, int value) { return attr(name, Expr(value)); }
    Task& attr(const std::string& name, double value);
    Task& attr(const std::string& name, std::initializer_list<int64_t> values);
    Task& attr(const std::string& name, const std::vector<int64_t>& values);
    Task& attr(const std::string& name, const std::vector<double>& values);
    Task& attr(const std::string& name, ElemType type);
    Task& attr(const std::string& name, const char* word);  ///< a bare word: true, constant
    Task& sync();
    Task& memmove() { return decorate("memmove"); }
    Task& decorate(const std::string& name);
    Task& decorate(const std::string& name, const Expr& argument);  ///< seq_engine(k)
    Task& resource(UnitKind unit, int64_t instance);
    Task& op(uint32_t op_number);  ///< result of Program::op: the operation it is charged to

  private:
    friend class Program;
    Task(Program& program, uint32_t statement) : program_(&program), statement_(statement) {}
    proto::Task& message() const;
    Program* program_;
    uint32_t statement_;
};

class Program {
  public:
    explicit Program(std::string name);
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    Expr param(const std::string& name, int64_t default_value, int64_t min, int64_t max);
    Expr constant(const std::string& name, const Expr& value);
    /// Adds a buffer: size in bytes; align in bytes, a power of two; engine only for L1.
    Buffer buffer(const std::string& name, Level level, const Expr& size, int64_t align = 1);
    Buffer l1_buffer(const std::string& name, const Expr& engine, const Expr& size, int64_t align = 1);

    /// Declares a region here (an empty name becomes r<index>); offset in bytes. The extent is what the type
    /// reaches (packed, or through strides).
    Region region(const std::string& name, Buffer buffer, const Expr& offset, const TensorType& type);
    Region region(const std::string& name, Buffer buffer, const Expr& offset, const Expr& extent,
                  const TensorType& type);
    /// Makes a region of untyped bytes, for transfers and stores.
    Region bytes(const std::string& name, Buffer buffer, const Expr& offset, const Expr& extent);

    /// Adds a transfer; `name` may be empty.
    Task transfer(const std::string& name, const Region& dst, const Region& src);
    Task store(const std::string& name, const Region& dst, const Region& src);
    Task compute(const std::string& opcode, const std::vector<Region>& inputs,
                 const std::vector<Region>& outputs, const std::string& name = "");
    /// Returns a kernel of the program on a line of workgroups; operands in the order of its buffers.
    Task launch(const std::string& kernel, const std::vector<Region>& inputs,
                const std::vector<Region>& outputs, int64_t workgroups, const std::vector<int64_t>& scalars);
    void wait(const std::vector<Task>& tokens);

    /// Opens a loop with inclusive bounds; `body` receives the loop variable.
    void loop(const std::string& variable, const Expr& first, const Expr& last, int64_t max_in_flight,
              const std::function<void(Expr)>& body);

    /// Returns a front-end operation; the result goes to Task::op.
    uint32_t op(const std::string& id, const std::string& type);
    proto::Tensor& tensor(const std::string& id, proto::Tensor::Role role, ElemType elem,
                          const std::vector<int64_t>& shape, const std::string& buffer, int64_t offset = 0);
    /// Returns the bytes that stand in a buffer before the program starts. Result: 1 + index, for
    /// Tensor.data.
    uint32_t data(const std::string& name, const std::string& buffer, std::string bytes, int64_t offset = 0);

    KPUProgram& message() { return module_.program; }
    const Module& module() const { return module_; }
    /// Returns the module as built so far. Throws UserError when the structure is wrong.
    Module build() const&;
    Module build() &&;

  private:
    friend class Region;
    friend class Task;
    Task add_task(proto::Task::Kind kind, const std::string& name, const std::vector<Region>& inputs,
                  const std::vector<Region>& outputs);
    Module module_;
    std::vector<uint32_t> open_loops_;  ///< statements
};

/// Returns the same as Program::data(), of a program that is built.
uint32_t add_data(Module& module, const std::string& name, const std::string& buffer, std::string bytes,
                  int64_t offset = 0);
/// Adds a data section of `size` bytes that do not exist (DataSection::promised).
void promise_data(Module& module, const std::string& name, const std::string& buffer, uint64_t size);

}  // namespace kpu::builder
