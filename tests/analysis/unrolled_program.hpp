#pragma once
// The program whose loops are written out: what carried tokens and windows order stands in explicit tokens.

#include <map>

#include "isa/module.hpp"
#include "tests/analysis/unroller.hpp"

namespace kpu::analysis::test {

inline void set_offset(proto::Region& region, int64_t bytes) {
    region.mutable_offset()->Clear();
    proto::ExprToken& token = *region.mutable_offset()->add_token();
    token.set_kind(proto::ExprToken::INT);
    token.set_value(bytes);
}

/// Statement i of the result is instance i of `unrolled`, with the tokens of all that comes before it.
inline std::shared_ptr<Module> written_out(const BoundProgram& program, const Unroller& unrolled) {
    auto result = std::make_shared<Module>(*program.module);
    const KPUProgram& source = program.module->program;
    KPUProgram& made = result->program;
    made.clear_statement();
    made.clear_region();
    for (size_t i = 0; i < unrolled.instances().size(); ++i) {
        const Instance& instance = unrolled.instances()[i];
        proto::Task& task = *made.add_statement()->mutable_task();
        task = source.statement(static_cast<int>(instance.statement)).task();
        task.set_name(task.name() + "_" + std::to_string(i));
        task.set_sync(false);
        task.clear_dep();
        task.clear_carried();
        std::map<uint32_t, uint32_t> regions;
        const auto place = [&](proto::Operand& operand) {
            const auto [known, added] =
                regions.try_emplace(operand.region(), static_cast<uint32_t>(made.region_size()));
            if (added) {
                const BoundRegion& region = program.regions[operand.region()];
                proto::Region& copy = *made.add_region();
                copy = source.region(static_cast<int>(operand.region()));
                copy.clear_name();
                const auto base = static_cast<int64_t>(program.buffers[region.buffer].base);
                set_offset(copy, region.address.eval(instance.loops) - base);
            }
            operand.set_region(known->second);
        };
        for (proto::Operand& operand : *task.mutable_input()) place(operand);
        for (proto::Operand& operand : *task.mutable_output()) place(operand);
        const Unroller::Set& before = unrolled.before(i);
        for (size_t j = before.find_first(); j != Unroller::Set::npos; j = before.find_next(j))
            task.add_dep(static_cast<uint32_t>(j));
    }
    return result;
}

}  // namespace kpu::analysis::test
