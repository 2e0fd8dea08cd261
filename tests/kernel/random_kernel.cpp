#include "tests/kernel/random_kernel.hpp"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "isa/kernel/operations.hpp"

namespace kpu::kernel_test {
namespace {

using kpu::kernel::Op;
using kpu::kernel::operation;
using kpu::kernel::Operation;
using kpu::kernel::Result;
using kpu::kernel::storage_bits;
using kpu::kernel::Syntax;
using kpu::kernel::Type;

constexpr Type types[] = {Type::u32, Type::i32, Type::f32, Type::u64, Type::boolean};
constexpr Type narrow_types[] = {Type::i16, Type::u16, Type::i8, Type::u8, Type::f16, Type::bf16};

bool is_narrow(Type type) { return storage_bits(type) < 32; }
bool is_small_float(Type type) { return type == Type::f16 || type == Type::bf16; }

/// Most elements that a tame kernel's invocations have, and those of a workgroup.
constexpr uint64_t tame_share = 40;

class Generator {
  public:
    explicit Generator(uint64_t seed, bool tame = false)
        : random_(seed * 0x9e3779b97f4a7c15 + 1), tame_(tame) {}

    RandomKernel run() {
        head();
        scopes_.push_back({{"n", Type::u32, false},
                           {"n_i32", Type::i32, false},
                           {"n_u64", Type::u64, false},
                           {"n_bool", Type::boolean, false}});
        block(4 + below(8), 0);
        kernel_.text += "endkernel\n";
        for (const RandomBuffer& buffer : random_buffers) {
            const bool shared = std::string(buffer.access) == "uniform";
            std::vector<uint8_t> data(buffer.elements * buffer.elem_bytes *
                                      (tame_ && !shared ? tame_share : 1));
            for (uint8_t& byte : data) byte = static_cast<uint8_t>(random_() >> (chance(2) ? 3 : 60));
            kernel_.buffers.push_back(data);
        }
        kernel_.grid = {1 + below(2), 1 + below(2), chance(4) ? 2u : 1u};
        kernel_.scalars = {below(12), below(5), below(5), below(2)};
        return std::move(kernel_);
    }

  private:
    struct Name {
        std::string name;
        Type type;
        bool assignable;
    };

    /// Writes the workgroup, buffers and scalars.
    void head() {
        constexpr int shapes[][3] = {{1, 1, 1},  {3, 1, 1}, {8, 1, 1}, {33, 1, 1},
                                     {40, 1, 1}, {8, 2, 1}, {4, 3, 2}};
        const auto& [x, y, z] = shapes[below(7)];
        const uint64_t shared = tame_ ? tame_share : 16;
        kernel_.text = fmt::format("kernel r workgroup({}, {}, {}) (", x, y, z);
        for (const RandomBuffer& buffer : random_buffers)
            kernel_.text += fmt::format("{}: {} {}, ", buffer.name, buffer.access, buffer.type);
        kernel_.text += fmt::format(
            "t: workgroup u32[{0}], s: workgroup f32[{0}], m: workgroup i16[{0}], n: u32, n_i32: i32, "
            "n_u64: u64, n_bool: bool):\n",
            shared);
        own_ = fmt::format("(gid.z * {} + gid.y) * {} + gid.x", 2 * y, 2 * x);
        own_of_workgroup_ = fmt::format("(lid.z * {} + lid.y) * {} + lid.x", y, x);
        atomic_of_tame_ = below(6);
    }

    uint64_t below(uint64_t n) { return random_() % n; }
    bool chance(uint64_t n) { return below(n) == 0; }
    Type any_type() { return types[below(5)]; }
    Type any_small_integer() { return narrow_types[below(4)]; }
    Type any_small_float() { return chance(2) ? Type::f16 : Type::bf16; }
    Type any_stored_type() { return chance(4) ? narrow_types[below(6)] : any_type(); }

    void line(int depth, const std::string& text) {
        kernel_.text.append(static_cast<size_t>(4 * (depth + 1)), ' ');
        kernel_.text += text + "\n";
    }

    /// Returns a buffer of elements of a type, to be read and written.
    static std::string buffer_of(Type type) {
        for (const RandomBuffer& buffer : random_buffers)
            if (buffer.type == fmt::format("{}[]", name_of(type))) return buffer.name;
        return "";
    }

    /// Returns an index, mostly inside.
    std::string index(int depth) {
        if (tame_) return own_;
        switch (below(5)) {
            case 0:
                return "lid.x";
            case 1:
                return fmt::format("{}", below(8));
            case 2:
                return fmt::format("lid.x + {}", below(3));
            default:
                return fmt::format("({}) % 9", expression(Type::u32, depth + 2));
        }
    }

    /// Returns an index of what nobody writes.
    std::string free_index(int depth) {
        return chance(3) ? "lid.x" : fmt::format("({}) % 9", expression(Type::u32, depth + 2));
    }

    /// Returns an index of workgroup memory.
    std::string shared_index(int depth) { return tame_ ? own_of_workgroup_ : index(depth); }

    std::string literal(Type type) {
        switch (type) {
            case Type::u32:
                return fmt::format("{}", chance(4) ? random_() & 0xffffffff : below(5));
            case Type::i32:
                return fmt::format("{}i32", static_cast<int>(below(9)) - 4);
            case Type::u64:
                return fmt::format("{}u64", chance(3) ? random_() : below(5));
            case Type::f32:
                return chance(3) ? fmt::format("bits(0x{:x})", random_() & 0xffffffff)
                                 : fmt::format("{}.{}", below(9), below(9));
            default:
                return chance(2) ? "true" : "false";
        }
    }

    std::string leaf(Type type) {
        std::vector<std::string> names;
        for (const auto& scope : scopes_)
            for (const Name& name : scope)
                if (name.type == type) names.push_back(name.name);
        if (!names.empty() && !chance(3)) return names[below(names.size())];
        if (type == Type::u32 && chance(2)) {
            constexpr const char* ids[] = {"gid.x",  "gid.z",  "lid.x",  "lid.y",         "wgid.x",
                                           "wgid.y", "len(u)", "len(y)", "subgroup_id()", "subgroup_size()"};
            return ids[below(std::size(ids))];
        }
        if (is_narrow(type)) return fmt::format("{}[{}]", buffer_of(type), tame_ ? own_ : "lid.x");
        return literal(type);
    }

    /// Returns an element of one of the buffers of a type.
    std::string load(Type type, int depth) {
        if (type == Type::u32 && chance(3)) return fmt::format("p[{}]", free_index(depth));
        if (type == Type::u32 && chance(2)) return fmt::format("t[{}]", shared_index(depth));
        if (type == Type::f32 && chance(3)) return fmt::format("c[{}]", free_index(depth));
        if (type == Type::f32 && chance(2)) return fmt::format("s[{}]", shared_index(depth));
        if (type == Type::i16 && chance(2)) return fmt::format("m[{}]", shared_index(depth));
        return fmt::format("{}[{}]", buffer_of(type), index(depth));
    }

    /// Returns an expression without errors in most cases.
    std::string expression(Type type, int depth) {
        if (depth > 4 || chance(4)) return leaf(type);
        switch (below(7)) {
            case 0:
                return load(type, depth + 1);
            case 1:
                return fmt::format("select({}, {}, {})", expression(any_condition(), depth + 1),
                                   expression(type, depth + 1), expression(type, depth + 1));
            case 2:
                return cast_to(type, depth);
            case 3:
                if (type == Type::f32)
                    return fmt::format("fma({}, {}, {})", expression(type, depth + 1),
                                       expression(type, depth + 1),
                                       expression(chance(3) ? Type::u32 : type, depth + 1));
                return operate(type, depth);
            case 4:
                return exchange(type, depth);
            default:
                return operate(type, depth);
        }
    }

    Type any_condition() { return chance(4) ? any_type() : Type::boolean; }

    /// Returns a type that a cast to `type` takes, without an error but for rare values.
    Type any_source(Type type) {
        if (type == Type::f32 && chance(3)) return any_small_float();
        if (is_small_float(type)) return Type::f32;
        if (type == Type::f32) return chance(2) ? Type::i32 : chance(3) ? Type::boolean : Type::u32;
        if (type == Type::boolean) return chance(4) ? any_small_integer() : any_type();
        if (chance(60) && type != Type::u64) return Type::u64;
        if (type == Type::u64)
            return chance(60) ? Type::i32 : chance(3) ? (chance(2) ? Type::u8 : Type::u16) : Type::u32;
        if (chance(3)) return any_small_integer();
        return chance(4) ? Type::boolean : chance(2) && !is_narrow(type) ? Type::f32 : Type::i32;
    }

    std::string cast_to(Type type, int depth) {
        return fmt::format("{}({})", name_of(type), expression(any_source(type), depth + 1));
    }

    std::string exchange(Type type, int depth) {
        if (in_exchange_ || depth > 3 || (type != Type::u32 && type != Type::f32)) return leaf(type);
        in_exchange_ = true;
        std::string text;
        if (type == Type::u32 && chance(3))
            text = fmt::format("ballot({})", expression(Type::boolean, depth + 1));
        else if (chance(2))
            text = fmt::format("subgroup_add({})", expression(type, depth + 1));
        else
            text =
                fmt::format("shuffle({}, {})", expression(type, depth + 1), expression(Type::u32, depth + 1));
        in_exchange_ = false;
        return text;
    }

    /// Returns a random operation of the table that gives `type`.
    std::string operate(Type type, int depth) {
        if (is_narrow(type)) return leaf(type);
        for (int tries = 0; tries < 40; ++tries) {
            const Operation& row = kpu::kernel::operations()[below(kpu::kernel::operations().size())];
            const bool plain = row.syntax == Syntax::infix || row.syntax == Syntax::prefix ||
                               (row.syntax == Syntax::function && row.types != 0);
            if (!plain || row.op == Op::subgroup_add) continue;
            const Type from = row.result == Result::boolean ? any_type() : type;
            if (!contains(row.types, from) || (row.result == Result::boolean) != (type == Type::boolean))
                continue;
            if (row.result == Result::difference && type == Type::i32) continue;
            const bool divides = row.op == Op::div || row.op == Op::mod;
            if (divides && from == Type::i32 && !chance(20)) continue;
            const std::string a = expression(from, depth + 1);
            if (row.operands == 1)
                return row.syntax == Syntax::prefix ? fmt::format("{}({})", row.symbol, a)
                                                    : fmt::format("{}({})", row.name, a);
            std::string b = expression(from, depth + 1);
            if (divides)
                b = fmt::format("({} | {})", expression(from, 5),
                                from == Type::u64   ? "1u64"
                                : from == Type::i32 ? "1i32"
                                                    : "1");
            if (divides && from == Type::f32) b = expression(from, depth + 1);
            return row.syntax == Syntax::infix ? fmt::format("({} {} {})", a, row.symbol, b)
                                               : fmt::format("{}({}, {})", row.name, a, b);
        }
        return leaf(type);
    }

    void block(uint64_t statements, int depth) {
        scopes_.emplace_back();
        for (uint64_t i = 0; i < statements; ++i) statement(depth);
        scopes_.pop_back();
    }

    void statement(int depth) {
        if (uniform_ && chance(8)) return meet(depth);
        if (chance(400)) return fault(depth);
        switch (below(depth < 3 ? 12 : 7)) {
            case 0:
            case 1: {
                const Type type = any_stored_type();
                const std::string name = fmt::format("v{}", next_++);
                line(depth, fmt::format("let {} = {}", name, expression(type, 0)));
                scopes_.back().push_back({name, type, true});
                return;
            }
            case 2:
                return assign(depth);
            case 3:
            case 4:
                return store(depth);
            case 5:
                return atomic(depth);
            case 6:
                return copy(depth);
            case 7:
            case 8:
                return branch(depth);
            case 9:
                return loop(depth);
            case 10:
                return repeat(depth);
            default:
                if (depth > 0 && chance(2)) {
                    line(depth, fmt::format("if {}:", expression(Type::boolean, 1)));
                    line(depth + 1, "return");
                    return line(depth, "endif");
                }
                scope(depth);
        }
    }

    /// All invocations of the workgroup are here.
    void meet(int depth) {
        line(depth, "barrier");
        if (!tame_ || chance(3)) return;
        if (chance(2)) {
            line(depth, fmt::format("if {} == 0:", own_of_workgroup_));
            line(depth + 1, fmt::format("async_load(p, {}, ({}) % 40, {}, \"t{}\")", chance(2) ? "t" : "s",
                                        expression(Type::u32, 3), 4 * below(40), next_));
            line(depth + 1, fmt::format("async_wait(\"t{}\")", next_++));
            line(depth, "endif");
            line(depth, "barrier");
        }
        const Type type = chance(2) ? Type::u32 : chance(2) ? Type::f32 : Type::i16;
        const std::string name = fmt::format("v{}", next_++);
        line(depth, fmt::format("let {} = {}[({}) % {}]", name,
                                type == Type::u32   ? "t"
                                : type == Type::f32 ? "s"
                                                    : "m",
                                expression(Type::u32, 2), tame_share + 1));
        scopes_.back().push_back({name, type, true});
        line(depth, "barrier");
    }

    void fault(int depth) {
        line(depth, fmt::format("if {}:", expression(Type::boolean, 1)));
        line(depth + 1, fmt::format("trap({}, \"seven\")", expression(Type::u32, 2)));
        line(depth, "endif");
    }

    void scope(int depth) {
        const bool named = chance(2);
        line(depth, named ? "region \"r\":" : "block:");
        block(1 + below(3), depth + 1);
        line(depth, named ? "endregion" : "endblock");
    }

    void assign(int depth) {
        std::vector<const Name*> names;
        for (const auto& scope : scopes_)
            for (const Name& name : scope)
                if (name.assignable) names.push_back(&name);
        if (names.empty()) return store(depth);
        const Name name = *names[below(names.size())];
        line(depth, fmt::format("{} = {}", name.name, expression(name.type, 0)));
    }

    void store(int depth) {
        if (chance(8))
            return line(depth, fmt::format("t[{}] = {}", shared_index(0), expression(Type::u32, 0)));
        if (chance(8))
            return line(depth, fmt::format("s[{}] = {}", shared_index(0), expression(Type::f32, 0)));
        if (chance(8))
            return line(depth, fmt::format("m[{}] = {}", shared_index(0), expression(Type::i32, 0)));
        if (chance(8)) return line(depth, fmt::format("o[{}] = {}", index(0), expression(Type::f32, 0)));
        if (chance(8)) return line(depth, fmt::format("x[{}] = {}", index(0), expression(Type::i32, 0)));
        const Type type = any_stored_type();
        const bool low_bytes = is_narrow(type) && !is_small_float(type) && chance(2);
        line(depth, fmt::format("{}[{}] = {}", buffer_of(type), index(0),
                                expression(low_bytes ? types[below(2)] : type, 0)));
    }

    void atomic(int depth) {
        constexpr const char* names[] = {"add", "or", "and", "xor", "min", "max", "exchange", "lru_update"};
        if (tame_)
            return line(depth, fmt::format("let v{} = atomic_{}(a[{}], {})", next_++, names[atomic_of_tame_],
                                           free_index(0), expression(Type::u32, 2)));
        const char* target = chance(2) ? "u" : "a";
        const std::string call =
            chance(8) ? fmt::format("atomic_compare_exchange({}[{}], {}, {})", target, index(0),
                                    expression(Type::u32, 2), expression(Type::u32, 2))
                      : fmt::format("atomic_{}({}[{}], {})", names[below(8)], target, index(0),
                                    expression(any_atomic_operand(), 2));
        if (chance(3))
            return line(depth, fmt::format("u[{}] = {} + {}", index(0), call, expression(Type::u32, 2)));
        const std::string name = fmt::format("v{}", next_++);
        line(depth, fmt::format("let {} = {}", name, call));
        scopes_.back().push_back({name, Type::u32, true});
    }

    Type any_atomic_operand() { return chance(6) ? Type::boolean : Type::u32; }

    void copy(int depth) {
        if (tame_) return store(depth);
        constexpr const char* pairs[] = {"u, t", "t, u", "f, i", "w, f", "p, s",
                                         "c, y", "m, q", "g, x", "e, o", "s, a"};
        line(depth, fmt::format("async_{}({}, ({}) % 40, ({}) % 20, \"t{}\")", chance(2) ? "load" : "store",
                                pairs[below(std::size(pairs))], expression(Type::u32, 3),
                                expression(Type::u32, 3), next_));
        if (chance(3)) store(depth);
        line(depth, fmt::format("async_wait(\"t{}\")", next_++));
    }

    void branch(int depth) {
        constexpr const char* same[] = {"wgid.x == 0", "n > 3", "n_bool", "len(u) > 7",
                                        "wgid.y + wgid.z != 1"};
        const bool was = uniform_;
        uniform_ = was && chance(2);
        line(depth, fmt::format("if {}:", uniform_ ? same[below(std::size(same))]
                                                   : expression(chance(4) ? Type::u32 : Type::boolean, 1)));
        block(1 + below(3), depth + 1);
        if (chance(2)) {
            line(depth, "else:");
            block(below(3), depth + 1);
        }
        line(depth, "endif");
        uniform_ = was;
    }

    void loop(int depth) {
        const bool was = uniform_;
        uniform_ = was && chance(2);
        const std::string name = fmt::format("v{}", next_++);
        line(depth, fmt::format("loop {} in {}..({}) % 5:", name, below(2),
                                uniform_ ? "wgid.x + n" : expression(Type::u32, 3)));
        scopes_.push_back({{name, Type::u32, false}});
        block(1 + below(3), depth + 1);
        scopes_.pop_back();
        line(depth, "endloop");
        uniform_ = was;
    }

    void repeat(int depth) {
        const std::string name = fmt::format("v{}", next_++);
        line(depth, fmt::format("let {} = ({}) % 4", name, expression(Type::u32, 3)));
        line(depth, fmt::format("while {} != 0:", name));
        scopes_.push_back({{name, Type::u32, false}});
        const bool was = std::exchange(uniform_, false);
        block(1 + below(2), depth + 1);
        uniform_ = was;
        scopes_.pop_back();
        line(depth + 1, fmt::format("{} = {} - 1", name, name));
        line(depth, "endwhile");
    }

    std::mt19937_64 random_;
    const bool tame_;
    std::string own_, own_of_workgroup_;  ///< indices that no other invocation has
    RandomKernel kernel_;
    std::vector<std::vector<Name>> scopes_;
    int next_ = 0;
    uint64_t atomic_of_tame_ = 0;  ///< one kind for each kernel
    bool in_exchange_ = false;
    bool uniform_ = true;  ///< control is here that of the whole workgroup
};

}  // namespace

RandomKernel random_kernel(uint64_t seed) { return Generator(seed).run(); }
RandomKernel tame_kernel(uint64_t seed) { return Generator(seed, true).run(); }

}  // namespace kpu::kernel_test
