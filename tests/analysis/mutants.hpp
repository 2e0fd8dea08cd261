#pragma once
// Programs with one mistake each, made from a correct one as a person would make it.

#include <string>
#include <vector>

#include "isa/expr.hpp"
#include "isa/module.hpp"

namespace kpu::analysis::test {

enum class Mutation : uint8_t { dependency_removed, slot_lost, window_raised, slot_swapped };
constexpr int mutation_count = 4;
inline const char* name_of(Mutation mutation) {
    static constexpr const char* names[] = {"dependency removed", "buffer one slot smaller",
                                            "max_in_flight raised", "slot index swapped"};
    return names[static_cast<size_t>(mutation)];
}

struct Mutant {
    Mutation mutation;
    std::string what;
    std::shared_ptr<Module> module;
};

/// Returns the places of `... mod N` with N >= 2 in an offset: index of the token N.
inline std::vector<int> slot_counts(const proto::Expr& offset, const std::vector<int64_t>& constants) {
    std::vector<int> places;
    for (int t = 1; t < offset.token_size(); ++t) {
        if (offset.token(t).kind() != proto::ExprToken::MOD) continue;
        const proto::ExprToken& count = offset.token(t - 1);
        const bool is_const = count.kind() == proto::ExprToken::CONST;
        if (!is_const && count.kind() != proto::ExprToken::INT) continue;
        if ((is_const ? constants.at(static_cast<size_t>(count.value())) : count.value()) >= 2)
            places.push_back(t - 1);
    }
    return places;
}

inline void set_integer(proto::ExprToken& token, int64_t value) {
    token.set_kind(proto::ExprToken::INT);
    token.set_value(value);
}

/// Returns every mutant of a program: each dependency removed, each buffer with a slot fewer (mod N becomes
/// mod N - 1 in all its regions), each window raised by one, each slot index moved on by one ((e + 1) mod N).
inline std::vector<Mutant> mutants_of(const Module& original) {
    std::vector<Mutant> mutants;
    const std::vector<int64_t> constants = eval_constants(original);
    const auto value_of = [&](const proto::ExprToken& token) {
        return token.kind() == proto::ExprToken::CONST ? constants.at(static_cast<size_t>(token.value()))
                                                       : token.value();
    };
    const auto copy = [&] { return std::make_shared<Module>(original); };
    for (int s = 0; s < original.program.statement_size(); ++s) {
        const proto::Statement& statement = original.program.statement(s);
        for (int d = 0; d < statement.task().dep_size(); ++d) {
            auto mutant = copy();
            auto& deps = *mutant->program.mutable_statement(s)->mutable_task()->mutable_dep();
            deps.erase(deps.begin() + d);
            mutants.push_back({Mutation::dependency_removed,
                               "statement " + std::to_string(s) + " without dependency " + std::to_string(d),
                               mutant});
        }
        for (int d = 0; d < statement.loop().decorator_size(); ++d) {
            const proto::Decorator& decorator = statement.loop().decorator(d);
            if (decorator.name() != "max_in_flight") continue;
            auto mutant = copy();
            proto::Expr& window = *mutant->program.mutable_statement(s)
                                       ->mutable_loop()
                                       ->mutable_decorator(d)
                                       ->mutable_arg(0)
                                       ->mutable_expr();
            const int64_t now = value_of(window.token(0));
            if (window.token_size() != 1) continue;
            set_integer(*window.mutable_token(0), now + 1);
            mutants.push_back(
                {Mutation::window_raised, "loop " + std::to_string(s) + " with a window more", mutant});
        }
    }
    for (int b = 0; b < original.program.buffer_size(); ++b) {
        auto mutant = copy();
        bool changed = false;
        for (proto::Region& region : *mutant->program.mutable_region()) {
            if (region.buffer() != static_cast<uint32_t>(b)) continue;
            for (const int place : slot_counts(region.offset(), constants)) {
                proto::ExprToken& count = *region.mutable_offset()->mutable_token(place);
                set_integer(count, value_of(count) - 1);
                changed = true;
            }
        }
        if (changed)
            mutants.push_back(
                {Mutation::slot_lost, original.program.buffer(b).name() + " a slot smaller", mutant});
    }
    for (int r = 0; r < original.program.region_size(); ++r) {
        for (const int place : slot_counts(original.program.region(r).offset(), constants)) {
            auto mutant = copy();
            proto::Expr& offset = *mutant->program.mutable_region(r)->mutable_offset();
            proto::Expr moved;  // e N mod -> e 1 + N mod
            for (int t = 0; t < offset.token_size(); ++t) {
                if (t == place) {
                    set_integer(*moved.add_token(), 1);
                    moved.add_token()->set_kind(proto::ExprToken::ADD);
                }
                *moved.add_token() = offset.token(t);
            }
            offset = moved;
            mutants.push_back(
                {Mutation::slot_swapped, "region " + std::to_string(r) + " in the next slot", mutant});
        }
    }
    return mutants;
}

}  // namespace kpu::analysis::test
