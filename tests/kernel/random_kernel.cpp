#include "tests/kernel/random_kernel.hpp"

#include <fmt/format.h>

#include <random>

#include "isa/kernel/operations.hpp"

namespace kpu::kernel_test {
namespace {

using kpu::kernel::Op;
using kpu::kernel::operation;
using kpu::kernel::Operation;
using kpu::kernel::Result;
using kpu::kernel::Syntax;
using kpu::kernel::Type;

constexpr Type types[] = {Type::u32, Type::i32, Type::f32, Type::u64, Type::boolean};

class Generator {
  public:
    explicit Generator(uint64_t seed, bool tame = false)
        : random_(seed * 0x9e3779b97f4a7c15 + 1), tame_(tame) {}

    RandomKernel run() {
        const int width = pick({1, 3, 8, 33, 40});
        const bool square = width == 8 && chance(3);
        kernel_.text = fmt::format(
            "kernel r workgroup({}{}) (u: read_write u32[], i: read_write i32[], f: read_write f32[], "
            "w: read_write u64[], b: read_write bool[], h: read_write i16[], t: workgroup u32[{}], "
            "o: output f32[8], n: u32):\n",
            width, square ? ", 2" : "", tame_ ? 80 : 16);
        own_ = fmt::format("gid.y * {} + gid.x", 2 * width);
        own_of_workgroup_ = fmt::format("lid.y * {} + lid.x", width);
        scopes_.push_back({{"n", Type::u32, false}});
        block(4 + below(8), 0);
        kernel_.text += "endkernel\n";
        for (const size_t bytes : {32, 32, 32, 64, 32, 16, 32}) {
            std::vector<uint8_t> data(bytes * (tame_ ? 40 : 1));
            for (uint8_t& byte : data) byte = static_cast<uint8_t>(random_() >> (chance(2) ? 3 : 60));
            kernel_.buffers.push_back(data);
        }
        kernel_.grid = {1 + below(2), 1 + below(2), 1};
        kernel_.scalars = {below(12)};
        return std::move(kernel_);
    }

  private:
    struct Name {
        std::string name;
        Type type;
        bool assignable;
    };

    uint64_t below(uint64_t n) { return random_() % n; }
    bool chance(uint64_t n) { return below(n) == 0; }
    int pick(std::initializer_list<int> values) { return *(values.begin() + below(values.size())); }
    Type any_type() { return types[below(5)]; }

    void line(int depth, const std::string& text) {
        kernel_.text.append(static_cast<size_t>(4 * (depth + 1)), ' ');
        kernel_.text += text + "\n";
    }

    static std::string buffer_of(Type type) {
        switch (type) {
            case Type::u32:
                return "u";
            case Type::i32:
                return "i";
            case Type::f32:
                return "f";
            case Type::u64:
                return "w";
            default:
                return "b";
        }
    }

    /// An index, mostly inside.
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

    /// Of workgroup memory.
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
            constexpr const char* ids[] = {"gid.x",  "lid.x",         "lid.y",          "wgid.x",
                                           "len(u)", "subgroup_id()", "subgroup_size()"};
            return ids[below(7)];
        }
        return literal(type);
    }

    /// An expression without errors of i32 division in most cases.
    std::string expression(Type type, int depth) {
        if (depth > 4 || chance(4)) return leaf(type);
        switch (below(7)) {
            case 0:
                if (type == Type::u32 && chance(2)) return fmt::format("t[{}]", shared_index(depth + 1));
                return fmt::format("{}[{}]", buffer_of(type), index(depth + 1));
            case 1:
                return fmt::format("select({}, {}, {})", expression(Type::boolean, depth + 1),
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

    std::string cast_to(Type type, int depth) {
        if (type == Type::f32)
            return fmt::format("f32({})", expression(chance(2) ? Type::i32 : Type::u32, depth + 1));
        if (type == Type::u64) return fmt::format("u64({})", expression(Type::u32, depth + 1));
        if (type == Type::i32 && chance(3)) return fmt::format("i32(h[{}])", index(depth + 1));
        if (type == Type::boolean) return fmt::format("bool({})", expression(any_type(), depth + 1));
        return fmt::format("{}({})", name_of(type), expression(chance(2) ? Type::f32 : Type::i32, depth + 1));
    }

    std::string exchange(Type type, int depth) {
        if (in_exchange_ || (type != Type::u32 && type != Type::f32)) return leaf(type);
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

    /// A random operation of the table that gives `type`.
    std::string operate(Type type, int depth) {
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
        switch (below(depth < 3 ? 12 : 7)) {
            case 0:
            case 1: {
                const Type type = any_type();
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
                if (depth == 0 && chance(2)) return line(depth, "barrier");
                scope(depth);
        }
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
        const Type type = any_type();
        if (chance(5))
            return line(depth, fmt::format("t[{}] = {}", shared_index(0), expression(Type::u32, 0)));
        if (chance(6)) return line(depth, fmt::format("h[{}] = {}", index(0), expression(Type::i32, 0)));
        if (chance(6)) return line(depth, fmt::format("o[{}] = {}", index(0), expression(Type::f32, 0)));
        line(depth, fmt::format("{}[{}] = {}", buffer_of(type), index(0), expression(type, 0)));
    }

    void atomic(int depth) {
        if (tame_) return store(depth);
        constexpr const char* names[] = {"add", "or", "and", "xor", "min", "max", "exchange", "lru_update"};
        const std::string call = chance(8) ? fmt::format("atomic_compare_exchange(u[{}], {}, {})", index(0),
                                                         expression(Type::u32, 2), expression(Type::u32, 2))
                                           : fmt::format("atomic_{}(u[{}], {})", names[below(8)], index(0),
                                                         expression(Type::u32, 2));
        if (chance(3))
            return line(depth, fmt::format("u[{}] = {} + {}", index(0), call, expression(Type::u32, 2)));
        const std::string name = fmt::format("v{}", next_++);
        line(depth, fmt::format("let {} = {}", name, call));
        scopes_.back().push_back({name, Type::u32, true});
    }

    void copy(int depth) {
        if (tame_) return store(depth);
        constexpr const char* pairs[] = {"u, t", "t, u", "f, i", "w, f"};
        line(depth, fmt::format("async_{}({}, ({}) % 40, ({}) % 20, \"t{}\")", chance(2) ? "load" : "store",
                                pairs[below(4)], expression(Type::u32, 3), expression(Type::u32, 3), next_));
        if (chance(3)) store(depth);
        line(depth, fmt::format("async_wait(\"t{}\")", next_++));
    }

    void branch(int depth) {
        line(depth, fmt::format("if {}:", expression(chance(4) ? Type::u32 : Type::boolean, 1)));
        block(1 + below(3), depth + 1);
        if (chance(2)) {
            line(depth, "else:");
            block(below(3), depth + 1);
        }
        line(depth, "endif");
    }

    void loop(int depth) {
        const std::string name = fmt::format("v{}", next_++);
        line(depth, fmt::format("loop {} in {}..({}) % 5:", name, below(2), expression(Type::u32, 3)));
        scopes_.push_back({{name, Type::u32, false}});
        block(1 + below(3), depth + 1);
        scopes_.pop_back();
        line(depth, "endloop");
    }

    void repeat(int depth) {
        const std::string name = fmt::format("v{}", next_++);
        line(depth, fmt::format("let {} = ({}) % 4", name, expression(Type::u32, 3)));
        line(depth, fmt::format("while {} != 0:", name));
        scopes_.push_back({{name, Type::u32, false}});
        block(1 + below(2), depth + 1);
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
    bool in_exchange_ = false;
};

}  // namespace

RandomKernel random_kernel(uint64_t seed) { return Generator(seed).run(); }
RandomKernel tame_kernel(uint64_t seed) { return Generator(seed, true).run(); }

}  // namespace kpu::kernel_test
