#include "runtime/schedule_engine/engine.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "compiler/tile_schedule/form_parts.hpp"

namespace kpu::tile_schedule {
namespace {

Format format_of(const EngineConfig& config) {
    if (const std::string why = why_not_tile(config.tile); !why.empty()) throw UserError(why);
    if (const std::string why = why_not_elem(config.elem); !why.empty()) throw UserError(why);
    Format format;
    format.tile = config.tile;
    format.elem = config.elem;
    return format;
}

/// Computes max(x, 0) as IEEE 754-2019 says: NaN stays NaN, -0 becomes +0.
void relu_floats(uint8_t* tile, uint64_t count) {
    auto* values = reinterpret_cast<float*>(tile);
    for (uint64_t i = 0; i < count; ++i) {
        const float value = values[i];
        values[i] = value > 0 ? value : value == value ? 0.0F : std::nanf("");
    }
}

void relu_integers(uint8_t* tile, uint64_t count) {
    auto* values = reinterpret_cast<int32_t*>(tile);
    for (uint64_t i = 0; i < count; ++i) values[i] = values[i] > 0 ? values[i] : 0;
}

BoundQuant quant_of(double scale) {
    BoundQuant quant;
    quant.kind = proto::Quant::PER_TENSOR;
    quant.scales = {scale};
    quant.zero_points = {0};
    return quant;
}

}  // namespace

Engine::Engine(const EngineConfig& config)
    : config_(config),
      arena_(config.sram_bytes),
      tensors_(format_of(config)),
      backend_(values::make_fast_backend()),
      gemm_(find_opcode("gemm.acc").value()),
      cast_(find_opcode("cast").value()),
      requant_(find_opcode("requant").value()),
      timed_(config.platform, config.sram_bytes) {
    narrow_.resize(tensors_.header().format.acc_bytes());
}

uint32_t Engine::register_tensor(const std::string& name, uint64_t rows, uint64_t cols, ElemType elem,
                                 double scale) {
    return tensors_.register_tensor(name, rows, cols, elem, scale);
}

void Engine::set_tensor(std::string_view name, const void* data, uint64_t elements) {
    const uint32_t id = tensors_.name_to_id(name);
    tensors_.set_data(id, data, packed_bytes(tensors_.tensor(id).elem, elements));
}

void Engine::get_tensor(std::string_view name, void* data, uint64_t elements) const {
    const uint32_t id = tensors_.name_to_id(name);
    tensors_.get_data(id, data, packed_bytes(tensors_.tensor(id).elem, elements));
}

void Engine::execute_packed(std::string_view bytes) {
    if (!bytes.empty() && !is_packed(bytes))
        throw UserError(
            "these bytes are not a schedule in the packed form. Fix: give the bytes of the packed form, or a "
            "list of "
            "ops.");
    Schedule schedule;
    schedule.origin = "schedule";
    read_packed(bytes, schedule);
    execute(schedule.ops);
}

void Engine::execute(const std::vector<Op>& ops) {
    const Plan& plan = plan_for(ops);
    const values::FloatEnvironment environment;
    arena_.clear();
    trace_.clear();
    for (size_t i = 0; i < plan.steps.size(); ++i) {
        if (config_.trace) trace_.push_back(fmt::format("{} {}", i, describe(ops[i], tensors_.header())));
        run(*plan.steps[i]);
    }
    stats_.loads += plan.counts.loads;
    stats_.executes += plan.counts.executes;
    stats_.stores += plan.counts.stores;
    timed_.add(ops, tensors_.header());
}

ScheduleTiming Engine::timing() { return timed_.total(tensors_.header()); }

const Engine::Plan& Engine::plan_for(const std::vector<Op>& ops) {
    if (!plan_.steps.empty() && plan_.ops == ops) return plan_;
    Schedule schedule;
    schedule.origin = "schedule";
    schedule.has_header = true;
    schedule.header = tensors_.header();
    schedule.ops = ops;
    AnalysisOptions options;
    options.arena_bytes = arena_.total_bytes();
    options.dependences = false;
    const Analysis analysis = analyse(schedule, options);
    require_legal(analysis, schedule);
    Plan plan;
    plan.counts = {analysis.loads, analysis.executes, analysis.stores};
    plan.steps.reserve(ops.size());
    for (size_t i = 0; i < ops.size(); ++i) {
        plan.steps.push_back(std::make_unique<Step>());
        if (const auto* load = std::get_if<Load>(&ops[i])) {
            add(plan, *load);
        } else if (const auto* execute = std::get_if<Execute>(&ops[i])) {
            add(plan, *execute, analysis.ops[i]);
        } else {
            add(plan, std::get<Store>(ops[i]), analysis.ops[i]);
        }
    }
    plan.ops = std::move(schedule.ops);
    plan_ = std::move(plan);
    return plan_;
}

values::Tensor Engine::tile_tensor(ElemType elem, uint8_t* data, const BoundQuant* quant) const {
    values::Tensor tensor;
    tensor.type = elem;
    tensor.shape.rank = 2;
    tensor.shape[0] = tensor.shape[1] = config_.tile;
    tensor.quant = quant;
    tensor.data = data;
    return tensor;
}

void Engine::add(Plan& plan, const Load& op) {
    Step& step = *plan.steps.back();
    const Format& format = tensors_.header().format;
    step.kind = Step::Kind::load;
    step.from = tensors_.tile_ptr(op.tensor_id, op.tile_row, op.tile_col);
    step.from_stride = tensors_.row_bytes(op.tensor_id);
    step.to = arena_.ptr(op.dst_addr, format.operand_bytes());
    step.line = step.to_stride = format.operand_bytes() / format.tile;
}

void Engine::add(Plan& plan, const Execute& op, const OpFacts& facts) {
    Step& step = *plan.steps.back();
    const Format& format = tensors_.header().format;
    step.kind = Step::Kind::execute;
    uint8_t* const sum = arena_.ptr(op.acc_addr, format.acc_bytes());
    step.inputs = {tile_tensor(format.elem, arena_.ptr(op.a_addr, format.operand_bytes())),
                   tile_tensor(format.elem, arena_.ptr(op.b_addr, format.operand_bytes()))};
    if (!facts.from_zero) step.inputs.push_back(tile_tensor(format.acc_elem(), sum));
    step.outputs = {tile_tensor(format.acc_elem(), sum)};
}

void Engine::add(Plan& plan, const Store& op, const OpFacts& facts) {
    Step& step = *plan.steps.back();
    const Format& format = tensors_.header().format;
    const Tensor& tensor = tensors_.tensor(op.tensor_id);
    step.kind = Step::Kind::store;
    step.relu = op.activation == Activation::relu;
    step.from = arena_.ptr(op.src_addr, format.acc_bytes());
    step.to = tensors_.tile_ptr(op.tensor_id, op.tile_row, op.tile_col);
    step.to_stride = tensors_.row_bytes(op.tensor_id);
    step.line = step.from_stride = packed_bytes(tensor.elem, format.tile);
    if (tensor.elem == format.acc_elem()) return;
    if (tensor.elem == ElemType::i8) {
        step.conversion = requant_;
        step.from_quant = quant_of(facts.scale);
        step.to_quant = quant_of(tensor.scale);
    } else {
        step.conversion = cast_;
    }
    const bool quantised = tensor.elem == ElemType::i8;
    step.inputs = {tile_tensor(format.acc_elem(), step.from, quantised ? &step.from_quant : nullptr)};
    step.outputs = {tile_tensor(tensor.elem, narrow_.data(), quantised ? &step.to_quant : nullptr)};
}

void Engine::run(const Step& step) {
    if (step.kind == Step::Kind::execute)
        return backend_->execute(gemm_, step.inputs, step.outputs, no_attrs_);
    const uint64_t elements = tensors_.header().format.elements();
    if (step.relu) {
        if (config_.elem == ElemType::i8) {
            relu_integers(step.from, elements);
        } else {
            relu_floats(step.from, elements);
        }
    }
    const uint8_t* from = step.from;
    if (step.conversion != 0) {
        backend_->execute(step.conversion, step.inputs, step.outputs, no_attrs_);
        from = narrow_.data();
    }
    for (uint32_t row = 0; row < config_.tile; ++row)
        std::memcpy(step.to + row * step.to_stride, from + row * step.from_stride, step.line);
}

}  // namespace kpu::tile_schedule
