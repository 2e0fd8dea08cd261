// Pass 1: names. One scope; what a loop body declares ends with the body. And pass 9: decorators.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/text.hpp"
#include "isa/verify_passes.hpp"

namespace kpu {
namespace {

class NameCheck {
  public:
    NameCheck(const Module& module, Diagnostics& diagnostics) : module_(module), diagnostics_(diagnostics) {}

    void run() {
        const KPUProgram& program = module_.program;
        names_.reserve(static_cast<size_t>(program.constant_size()) +
                       static_cast<size_t>(program.buffer_size()) +
                       static_cast<size_t>(program.region_size()));
        for (int i = 0; i < program.param_size(); ++i)
            declare(program.param(i).name(), "parameter", [&] { return SourcePos{module_.origin, 0, 0}; });
        for (int i = 0; i < program.constant_size(); ++i) {
            declare(program.constant(i).name(), "const",
                    [&] { return module_.pos_of_constant(static_cast<size_t>(i)); });
        }
        for (int i = 0; i < program.buffer_size(); ++i) {
            declare(program.buffer(i).name(), "buffer",
                    [&] { return module_.pos_of_buffer(static_cast<size_t>(i)); });
        }
        for (int i = 0; i < program.statement_size(); ++i) {
            while (!blocks_.empty() && blocks_.back().end == i) close_block();
            statement(i);
        }
    }

  private:
    struct Block {
        int end;
        std::vector<std::string_view> names;
    };

    void statement(int i) {
        const proto::Statement& source = module_.program.statement(i);
        const auto pos = [&] { return module_.pos_of_statement(static_cast<size_t>(i)); };
        if (source.has_loop()) {
            blocks_.push_back({static_cast<int>(source.loop().body_end()), {}});
            declare(source.loop().variable(), "loop variable", pos);
        } else if (source.has_task() && !source.task().name().empty()) {
            declare(source.task().name(), "token", pos);
        } else if (source.kind_case() == proto::Statement::kLetRegion) {
            const auto region = source.let_region();
            declare(module_.program.region(static_cast<int>(region)).name(), "region",
                    [&] { return module_.pos_of_region(region); });
        }
    }

    /// `pos` gives the place: asked for only when there is something to say.
    template <class Pos>
    void declare(std::string_view name, std::string_view kind, const Pos& pos) {
        const auto [it, inserted] = names_.emplace(name, kind);
        if (inserted) {
            if (!blocks_.empty()) blocks_.back().names.push_back(name);
        } else if (it->second == kind && kind == "const") {
            diagnostics_.error(pos(),
                               fmt::format("duplicate constant declaration {}. Fix: rename one.", name));
        } else {
            diagnostics_.error(
                pos(), fmt::format("name conflict - {} already declared as {}. Fix: rename this {}.", name,
                                   it->second, kind));
        }
    }

    void close_block() {
        for (const std::string_view name : blocks_.back().names) names_.erase(name);
        blocks_.pop_back();
    }

    const Module& module_;
    Diagnostics& diagnostics_;
    std::unordered_map<std::string_view, std::string_view> names_;  ///< name -> kind
    std::vector<Block> blocks_;
};

enum Place : unsigned { on_buffer = 1, on_region = 2, on_loop = 4, on_task = 8, on_move = 16 };

/// Arguments that a decorator takes in parentheses; `bound` ones are checked with their values by the binder.
enum class Arguments : uint8_t { none, label, bound };

struct DecoratorRule {
    std::string_view name;
    unsigned places;
    Arguments arguments;
};
constexpr DecoratorRule decorator_rules[] = {
    {"materialized", on_region | on_buffer, Arguments::none},
    {"readonly", on_region | on_buffer, Arguments::none},
    {"writeonly", on_region | on_buffer, Arguments::none},
    {"max_in_flight", on_loop, Arguments::bound},
    {"resource", on_task | on_move, Arguments::bound},
    {"deterministic", on_task | on_move | on_region, Arguments::none},
    {"memmove", on_move, Arguments::none},
    {"seq_engine", on_task | on_move, Arguments::bound},
    {"debug", on_buffer | on_region | on_loop | on_task | on_move, Arguments::label},
    {"profile", on_buffer | on_region | on_loop | on_task | on_move, Arguments::label},
};

bool is_label(const proto::Value& value) {
    return (value.kind_case() == proto::Value::kWord && !value.word().empty()) ||
           (value.kind_case() == proto::Value::kText && !value.text().empty());
}

/// Says what is wrong with a decorator's arguments; empty when nothing is.
std::string argument_mistake(const DecoratorRule& rule, const proto::Decorator& decorator) {
    const bool unit = !decorator.unit().empty() || decorator.has_index();
    if (rule.arguments == Arguments::none && (unit || decorator.arg_size() > 0))
        return fmt::format("@{} takes no argument. Fix: write @{}.", rule.name, rule.name);
    if (rule.arguments == Arguments::label &&
        (unit || decorator.arg_size() != 1 || !is_label(decorator.arg(0))))
        return fmt::format("@{} takes one word or string. Fix: write @{}(name).", rule.name, rule.name);
    return {};
}

std::string_view place_name(Place place) {
    switch (place) {
        case on_buffer:
            return "a buffer";
        case on_region:
            return "a region";
        case on_loop:
            return "a loop";
        case on_task:
            return "a compute task";
        case on_move:
            return "a transfer";
    }
    return "this";
}

template <class Decorators>
void check_decorators(const Decorators& decorators, Place place, const SourcePos& pos,
                      Diagnostics& diagnostics) {
    std::vector<std::string_view> seen;
    const auto stands = [&](std::string_view name) {
        return std::find(seen.begin(), seen.end(), name) != seen.end();
    };
    for (const proto::Decorator& decorator : decorators) {
        const auto* rule = std::find_if(std::begin(decorator_rules), std::end(decorator_rules),
                                        [&](const DecoratorRule& r) { return r.name == decorator.name(); });
        if (rule == std::end(decorator_rules)) {
            std::vector<std::string_view> names;
            for (const DecoratorRule& known : decorator_rules) names.push_back(known.name);
            diagnostics.error(pos, fmt::format("unknown decorator @{}. Fix: did you mean @{}?",
                                               decorator.name(), nearest_name(decorator.name(), names)));
        } else if ((rule->places & place) == 0) {
            diagnostics.error(pos, fmt::format("@{} does not apply to {}. Fix: leave it out.",
                                               decorator.name(), place_name(place)));
        } else if (const std::string mistake = argument_mistake(*rule, decorator); !mistake.empty()) {
            diagnostics.error(pos, mistake);
        } else if (stands(decorator.name())) {
            diagnostics.error(pos,
                              fmt::format("second @{} of {}. Fix: keep one.", rule->name, place_name(place)));
        }
        seen.push_back(decorator.name());
    }
    if (stands("readonly") && stands("writeonly")) {
        diagnostics.error(pos, fmt::format("{} is both @readonly and @writeonly: no task could use it. Fix: "
                                           "keep one; without either it is read and written.",
                                           place_name(place)));
    }
}

}  // namespace

void verify_names(const Module& module, Diagnostics& diagnostics) { NameCheck(module, diagnostics).run(); }

void verify_decorators(const Module& module, Diagnostics& diagnostics) {
    const KPUProgram& program = module.program;
    for (int i = 0; i < program.buffer_size(); ++i) {
        check_decorators(program.buffer(i).decorator(), on_buffer,
                         module.pos_of_buffer(static_cast<size_t>(i)), diagnostics);
    }
    for (int i = 0; i < program.region_size(); ++i) {
        check_decorators(program.region(i).decorator(), on_region,
                         module.pos_of_region(static_cast<size_t>(i)), diagnostics);
    }
    for (int i = 0; i < program.statement_size(); ++i) {
        const proto::Statement& statement = program.statement(i);
        const SourcePos pos = module.pos_of_statement(static_cast<size_t>(i));
        check_decorators(statement.loop().decorator(), on_loop, pos, diagnostics);
        const proto::Task& task = statement.task();
        check_decorators(task.decorator(), task.kind() == proto::Task::COMPUTE ? on_task : on_move, pos,
                         diagnostics);
        for (const proto::Operand& operand : task.input())
            check_decorators(operand.decorator(), on_region, pos, diagnostics);
        for (const proto::Operand& operand : task.output()) {
            check_decorators(operand.decorator(), on_region, pos, diagnostics);
        }
    }
}

}  // namespace kpu
