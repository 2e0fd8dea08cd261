#pragma once
// Kernels made in C++, with the names of nodes and expressions that kernel people know:
//
//     using namespace kpu::kernel::builder;
//     const auto saxpy = Program::wrapped("saxpy",
//         {BufferDecl::read("x", 0, Type::f32), BufferDecl::read_write("y", 1, Type::f32)}, {32, 1, 1},
//         {Node::Let("i", Expr::gid_x()),
//          Node::If(Expr::lt(Expr::Var("i"), Expr::BufLen("y")),
//                   {Node::Store("y", Expr::Var("i"), Expr::add(Expr::Load("x", Expr::Var("i")), Expr::f32(1)))})});
//
// wrapped() checks the form only; kernel::analyse() finds all else that can be known.
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "isa/kernel/operations.hpp"
#include "isa/kernel/text.hpp"

namespace kpu::kernel::builder {

class BufferDecl {
  public:
    static BufferDecl read(std::string name, uint32_t binding, Type type);
    static BufferDecl write(std::string name, uint32_t binding, Type type);
    static BufferDecl read_write(std::string name, uint32_t binding, Type type);
    static BufferDecl uniform(std::string name, uint32_t binding, Type type);
    static BufferDecl output(std::string name, uint32_t binding, Type type);
    static BufferDecl workgroup(std::string name, uint32_t count, Type type);
    static BufferDecl scalar(std::string name, Type type);
    BufferDecl with_count(uint32_t count) const;

    proto::KernelBuffer message;
    int64_t binding = -1;  ///< unique; the order of the declarations is that of the operands
};

class Expr {
  public:
    static Expr u32(uint32_t value);
    static Expr i32(int32_t value);
    static Expr u64(uint64_t value);
    static Expr f32(float value);
    static Expr f32_bits(uint32_t bits);
    static Expr boolean(bool value);
    static Expr Var(const std::string& name);
    static Expr Load(const std::string& buffer, const Expr& index);
    static Expr BufLen(const std::string& buffer);
    static Expr InvocationId(unsigned axis);
    static Expr WorkgroupId(unsigned axis);
    static Expr LocalId(unsigned axis);
    static Expr gid_x() { return InvocationId(0); }
    static Expr BinOp(Op op, const Expr& left, const Expr& right) { return apply(op, {left, right}); }
    static Expr UnOp(Op op, const Expr& operand) { return apply(op, {operand}); }
    static Expr add(const Expr& a, const Expr& b) { return BinOp(Op::add, a, b); }
    static Expr sub(const Expr& a, const Expr& b) { return BinOp(Op::sub, a, b); }
    static Expr mul(const Expr& a, const Expr& b) { return BinOp(Op::mul, a, b); }
    static Expr lt(const Expr& a, const Expr& b) { return BinOp(Op::lt, a, b); }
    static Expr eq(const Expr& a, const Expr& b) { return BinOp(Op::eq, a, b); }
    static Expr Select(const Expr& condition, const Expr& yes, const Expr& no);
    static Expr Cast(Type target, const Expr& value);
    static Expr Fma(const Expr& a, const Expr& b, const Expr& c) { return apply(Op::fma, {a, b, c}); }
    static Expr Atomic(Op op, const std::string& buffer, const Expr& index, const Expr& value);
    static Expr AtomicCompareExchange(const std::string& buffer, const Expr& index, const Expr& expected,
                                      const Expr& value);
    static Expr SubgroupBallot(const Expr& condition) { return apply(Op::ballot, {condition}); }
    static Expr SubgroupShuffle(const Expr& value, const Expr& lane) {
        return apply(Op::shuffle, {value, lane});
    }
    static Expr SubgroupAdd(const Expr& value) { return apply(Op::subgroup_add, {value}); }
    static Expr SubgroupLocalId() { return apply(Op::subgroup_id, {}); }
    static Expr SubgroupSize() { return apply(Op::subgroup_size, {}); }
    static Expr apply(Op op, std::initializer_list<Expr> operands);

    proto::KernelExpression message;

  private:
    static Expr leaf(Op op, uint64_t bits, const std::string& name);
    proto::KernelToken& last() { return *message.mutable_token(message.token_size() - 1); }
};

class Node {
  public:
    using Nodes = std::vector<Node>;
    static Node Let(const std::string& name, const Expr& value);
    static Node Assign(const std::string& name, const Expr& value);
    static Node Store(const std::string& buffer, const Expr& index, const Expr& value);
    static Node If(const Expr& condition, Nodes then, Nodes otherwise = {});
    static Node Loop(const std::string& variable, const Expr& from, const Expr& to, Nodes body);
    static Node While(const Expr& condition, Nodes body);
    static Node Block(Nodes body);
    static Node Region(const std::string& name, Nodes body);
    static Node Return();
    static Node Barrier();
    static Node async_load_ext(const std::string& source, const std::string& destination, const Expr& offset,
                               const Expr& size, const std::string& tag);
    static Node async_store(const std::string& source, const std::string& destination, const Expr& offset,
                            const Expr& size, const std::string& tag);
    static Node AsyncWait(const std::string& tag);
    static Node Trap(const Expr& address, const std::string& tag);
    static Node Resume(const std::string& tag);
    static Node AllReduce(const std::string& buffer, const std::string& op, uint32_t group);
    static Node AllGather(const std::string& input, const std::string& output, uint32_t group);
    static Node ReduceScatter(const std::string& input, const std::string& output, const std::string& op,
                              uint32_t group);
    static Node Broadcast(const std::string& buffer, uint32_t root, uint32_t group);
    static Node IndirectDispatch(const std::string& count_buffer, uint64_t count_offset);
    static Node Opaque(const std::string& kind, const std::string& identity);

    void append_to(proto::KernelBody& body) const;

  private:
    static Node make(Kind kind);
    static Node copy(Kind kind, const std::string& source, const std::string& destination, const Expr& offset,
                     const Expr& size, const std::string& tag);
    proto::KernelStatement message_;
    Nodes then_, otherwise_;
    bool is_block_ = false;
};

struct Program {
    /// Throws UserError: a binding that is used twice, names, sizes, nesting.
    static proto::KernelBody wrapped(const std::string& name, const std::vector<BufferDecl>& buffers,
                                     std::array<uint32_t, 3> workgroup, const Node::Nodes& nodes);
};

}  // namespace kpu::kernel::builder
