#include "isa/bound_module.hpp"

#include <google/protobuf/util/field_mask_util.h>

#include "base/host_memory.hpp"

namespace kpu {

std::shared_ptr<const Module> without_text(const std::shared_ptr<const Module>& module) {
    using google::protobuf::util::FieldMaskUtil;
    const KPUProgram& program = module->program;
    constexpr int few = 10'000;  // statements: not worth the work
    if (program.statement_size() < few || program.op_size() > 0 || program.param_size() > 0 ||
        !module->data.empty())
        return module;
    google::protobuf::FieldMask kept;
    const auto* descriptor = KPUProgram::descriptor();
    for (int f = 0; f < descriptor->field_count(); ++f) {
        const int number = descriptor->field(f)->number();
        if (number != KPUProgram::kStatementFieldNumber && number != KPUProgram::kRegionFieldNumber &&
            number != KPUProgram::kPlaceFieldNumber)
            kept.add_paths(descriptor->field(f)->name());
    }
    auto result = std::make_shared<Module>();
    FieldMaskUtil::MergeMessageTo(program, kept, FieldMaskUtil::MergeOptions(), &result->program);
    result->origin = module->origin;
    result->source = module->source;
    result->source.regions = {};
    return result;
}

void shed_text(BoundProgram& program, std::shared_ptr<const Module>& module) {
    const Module* const whole = module.get();
    program.module = module = without_text(module);
    if (module.get() != whole) give_back_freed_memory();
}

}  // namespace kpu
