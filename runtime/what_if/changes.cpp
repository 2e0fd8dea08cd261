#include "runtime/what_if/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "isa/unit_kind.hpp"
#include "runtime/what_if/faster.hpp"

namespace kpu::what_if {
namespace {

using proto::ExprToken;

/// True for a part of a program that is a number of its own: an expression of one integer.
bool is_literal(const proto::Expr& expr) {
    return expr.token_size() == 1 && expr.token(0).kind() == ExprToken::INT;
}

/// Returns the window of a loop; null when it has none written, which means 1.
proto::Expr* window_of(proto::Loop& loop) {
    for (proto::Decorator& decorator : *loop.mutable_decorator()) {
        if (decorator.name() == "max_in_flight" && decorator.arg_size() == 1 && decorator.arg(0).has_expr())
            return decorator.mutable_arg(0)->mutable_expr();
    }
    return nullptr;
}

proto::Expr& window_to_set(proto::Loop& loop) {
    if (proto::Expr* window = window_of(loop)) return *window;
    proto::Decorator& decorator = *loop.add_decorator();
    decorator.set_name("max_in_flight");
    return *decorator.add_arg()->mutable_expr();
}

void set_literal(proto::Expr& expr, int64_t value) {
    expr.clear_token();
    ExprToken& token = *expr.add_token();
    token.set_kind(ExprToken::INT);
    token.set_value(value);
}

/// Scales the expression by `up` / `down`, exact where `down` divides it.
void scale(proto::Expr& expr, int64_t up, int64_t down) {
    for (const auto& [kind, value] : {std::pair(ExprToken::MUL, up), std::pair(ExprToken::DIV, down)}) {
        ExprToken& number = *expr.add_token();
        number.set_kind(ExprToken::INT);
        number.set_value(value);
        expr.add_token()->set_kind(kind);
    }
}

/// A loop of the program, and how deep in others it stands.
struct LoopPlace {
    int statement;
    int depth;
};

std::vector<LoopPlace> loops_of(const KPUProgram& program) {
    std::vector<LoopPlace> loops;
    std::vector<int> ends;
    for (int s = 0; s < program.statement_size(); ++s) {
        while (!ends.empty() && ends.back() <= s) ends.pop_back();
        if (!program.statement(s).has_loop()) continue;
        loops.push_back({s, static_cast<int>(ends.size())});
        ends.push_back(static_cast<int>(program.statement(s).loop().body_end()));
    }
    return loops;
}

/// Regions that tasks of the loop name, or that are declared in it.
std::set<uint32_t> regions_in(const KPUProgram& program, int loop) {
    std::set<uint32_t> regions;
    const auto end = static_cast<int>(program.statement(loop).loop().body_end());
    for (int s = loop + 1; s < end; ++s) {
        const proto::Statement& statement = program.statement(s);
        if (statement.has_let_region()) regions.insert(statement.let_region());
        for (const auto* operands : {&statement.task().input(), &statement.task().output()})
            for (const proto::Operand& operand : *operands) regions.insert(operand.region());
    }
    return regions;
}

/// True for `LOOP depth, INT slots, MOD` at a token: the variable modulo a number of slots.
bool picks_slot(const proto::Expr& expr, int at, int depth) {
    return at + 2 < expr.token_size() && expr.token(at).kind() == ExprToken::LOOP &&
           expr.token(at).value() == depth && expr.token(at + 1).kind() == ExprToken::INT &&
           expr.token(at + 2).kind() == ExprToken::MOD;
}

class Changes {
  public:
    explicit Changes(const Case& base) : base_(base) {}

    std::vector<Change> all() {
        add_resources();
        for (const LoopPlace& loop : loops_of(base_.module->program)) add_loop(loop);
        add_constants();
        add_parameters();
        return std::move(list_);
    }

  private:
    KPUProgram& copy() {
        changed_ = std::make_shared<Module>(*base_.module);
        return changed_->program;
    }
    void add(ChangeKind kind, std::string words) {
        list_.push_back({kind, std::move(words), {changed_, base_.platform, base_.params}});
    }

    void add_resources() {
        std::vector<std::string_view> parts;
        for (const UnitKindRow& row : unit_kinds()) {
            if (!row.part.empty() && std::find(parts.begin(), parts.end(), row.part) == parts.end())
                parts.push_back(row.part);
        }
        for (const std::string_view part : parts) {
            for (const uint32_t factor : {2u, 64u})
                list_.push_back({ChangeKind::resource,
                                 fmt::format("{} {} times faster", part, factor),
                                 {base_.module, faster(base_.platform, part, factor), base_.params}});
        }
    }

    /// Adds a loop; a window that is a constant of the program is changed with the constant.
    void add_loop(const LoopPlace& place) {
        proto::Loop loop = base_.module->program.statement(place.statement).loop();
        const proto::Expr* window = window_of(loop);
        if (window != nullptr && !is_literal(*window)) return;
        const int64_t now = window == nullptr ? 1 : window->token(0).value();
        const std::set<int64_t> slots = slots_of(place);
        for (const int64_t step : {1, -1}) {
            const int64_t value = now + step;
            if (value < 1) continue;
            KPUProgram& program = copy();
            set_literal(window_to_set(*program.mutable_statement(place.statement)->mutable_loop()), value);
            add(ChangeKind::window,
                fmt::format("loop {}: {} iterations in flight instead of {}", loop.variable(), value, now));
            if (slots.count(now) == 0) continue;
            set_literal(window_to_set(*copy().mutable_statement(place.statement)->mutable_loop()), value);
            change_slots(place, now, value);
            add(ChangeKind::slots,
                fmt::format("loop {}: {} iterations in flight and as many slots instead of {}",
                            loop.variable(), value, now));
        }
        for (const int64_t count : slots) {
            if (count == now) continue;
            for (const int64_t value : {count + 1, count - 1}) {
                if (value < 1) continue;
                copy();
                change_slots(place, count, value);
                add(ChangeKind::slots,
                    fmt::format("loop {}: {} slots instead of {}", loop.variable(), value, count));
            }
        }
    }

    /// Returns the numbers of slots through which the loop's regions go round.
    std::set<int64_t> slots_of(const LoopPlace& place) const {
        const KPUProgram& program = base_.module->program;
        std::set<int64_t> slots;
        for (const uint32_t index : regions_in(program, place.statement)) {
            const proto::Expr& offset = program.region(static_cast<int>(index)).offset();
            for (int at = 0; at < offset.token_size(); ++at)
                if (picks_slot(offset, at, place.depth)) slots.insert(offset.token(at + 1).value());
        }
        return slots;
    }

    /// Changes, in `changed_`, the slots, buffers that hold them, and tokens of as many iterations before.
    void change_slots(const LoopPlace& place, int64_t before, int64_t after) {
        KPUProgram& program = changed_->program;
        std::set<uint32_t> buffers;
        for (const uint32_t index : regions_in(program, place.statement)) {
            proto::Region& region = *program.mutable_region(static_cast<int>(index));
            for (int at = 0; at < region.offset().token_size(); ++at) {
                if (!picks_slot(region.offset(), at, place.depth)) continue;
                ExprToken& slots = *region.mutable_offset()->mutable_token(at + 1);
                if (slots.value() != before) continue;
                slots.set_value(after);
                buffers.insert(region.buffer());
            }
        }
        for (const uint32_t buffer : buffers) {
            if (after > before)
                scale(*program.mutable_buffer(static_cast<int>(buffer))->mutable_size(), after, before);
        }
        for (proto::Statement& statement : *program.mutable_statement()) {
            if (!statement.has_task()) continue;
            for (proto::Carried& carried : *statement.mutable_task()->mutable_carried()) {
                if (carried.loop() == static_cast<uint32_t>(place.statement) && carried.distance() == before)
                    carried.set_distance(static_cast<uint32_t>(after));
            }
        }
    }

    /// Returns the constants that are a window or a number of slots.
    std::set<int64_t> counting_constants() const {
        std::set<int64_t> constants;
        const KPUProgram& program = base_.module->program;
        for (const proto::Region& region : program.region()) {
            const proto::Expr& offset = region.offset();
            for (int at = 1; at < offset.token_size(); ++at) {
                if (offset.token(at).kind() == ExprToken::MOD &&
                    offset.token(at - 1).kind() == ExprToken::CONST)
                    constants.insert(offset.token(at - 1).value());
            }
        }
        for (proto::Statement statement : program.statement()) {
            const proto::Expr* window = statement.has_loop() ? window_of(*statement.mutable_loop()) : nullptr;
            if (window != nullptr && window->token_size() == 1 && window->token(0).kind() == ExprToken::CONST)
                constants.insert(window->token(0).value());
        }
        return constants;
    }

    void add_constants() {
        for (const int64_t index : counting_constants()) {
            const proto::Constant& constant = base_.module->program.constant(static_cast<int>(index));
            if (!is_literal(constant.value())) continue;
            const int64_t now = constant.value().token(0).value();
            for (const int64_t value : {now + 1, now - 1}) {
                if (value < 1) continue;
                set_literal(*copy().mutable_constant(static_cast<int>(index))->mutable_value(), value);
                add(ChangeKind::slots, fmt::format("`{}` {} instead of {}", constant.name(), value, now));
            }
        }
    }

    void add_parameters() {
        for (const proto::Param& param : base_.module->program.param()) {
            int64_t now = param.default_value();
            for (const auto& [name, value] : base_.params)
                if (name == param.name()) now = value;
            for (const int64_t value : {now * 2, now / 2}) {
                if (value == now || value < param.min() || value > param.max()) continue;
                Case changed = base_;
                auto& bindings = changed.params;
                bindings.erase(
                    std::remove_if(bindings.begin(), bindings.end(),
                                   [&](const auto& binding) { return binding.first == param.name(); }),
                    bindings.end());
                bindings.emplace_back(param.name(), value);
                list_.push_back({ChangeKind::parameter,
                                 fmt::format("parameter {} {} instead of {}", param.name(), value, now),
                                 std::move(changed)});
            }
        }
    }

    const Case& base_;
    std::shared_ptr<Module> changed_;
    std::vector<Change> list_;
};

}  // namespace

std::string_view name_of(ChangeKind kind) {
    constexpr std::string_view names[] = {"resource", "window", "slots", "parameter"};
    return names[static_cast<size_t>(kind)];
}

std::vector<Change> changes_of(const Case& base) { return Changes(base).all(); }

}  // namespace kpu::what_if
