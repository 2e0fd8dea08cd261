#include "runtime/out_of_range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "values/scalar.hpp"

namespace kpu::runtime {
namespace {

/// Share of steps that were calibrated: other inputs leave the range of a few numbers everywhere.
constexpr uint64_t one_in = 20;

values::IntegerRange range_of(ElemType elem) { return values::range_of(elem); }

/// True if no step lies below 0: what is negative becomes 0, as a relu would have it.
bool begins_at_zero(const BoundRegion& y) {
    const auto& zeros = y.quant.zero_points;
    return std::all_of(zeros.begin(), zeros.end(),
                       [&](int64_t zero) { return zero == range_of(y.elem).low; });
}

/// Marks that the compiler wrote on each operation.
struct Marks {
    std::vector<bool> clips, masks;
};

Marks marks_of(const BoundProgram& program) {
    Marks marks{std::vector<bool>(program.ops.size()), std::vector<bool>(program.ops.size())};
    if (program.module == nullptr) return marks;
    std::set<std::string_view> clips, masks;
    for (const proto::Op& op : program.module->program.op()) {
        const auto& fused = op.fused_type();
        if (std::find(fused.begin(), fused.end(), "Clip") != fused.end()) clips.insert(op.id());
        for (const proto::OpAttribute& attribute : op.attribute()) {
            if (attribute.name() == "masks") masks.insert(op.id());
        }
    }
    for (size_t i = 0; i < program.ops.size(); ++i) {
        marks.clips[i] = clips.count(program.ops[i].id) > 0;
        marks.masks[i] = masks.count(program.ops[i].id) > 0;
    }
    return marks;
}

std::string counted(uint64_t count, uint64_t of) { return fmt::format("{} of {}", count, of); }

/// Names a type as --precision and --keep write it.
std::string_view type_name(ElemType elem) { return elem == ElemType::f16 ? "fp16" : name_of(elem); }

}  // namespace

OutOfRange::OutOfRange(const BoundProgram& program, const std::vector<values::Executor::Results>& results,
                       std::vector<InputRange> inputs)
    : program_(program),
      inputs_(std::move(inputs)),
      compiled_(program.module != nullptr && !program.module->program.target_hash().empty()) {
    const auto any = [](const values::Executor::Results& of) { return of.beyond.all() > 0; };
    if (std::none_of(results.begin(), results.end(), any)) return;
    const Marks marks = marks_of(program);
    for (size_t t = 0; t < results.size(); ++t) {
        const BoundTask& task = program.tasks[t];
        if (results[t].made == 0 || task.outputs.empty()) continue;
        const BoundRegion& y = program.regions[task.outputs[0]];
        values::Beyond beyond = results[t].beyond;
        Row& row = row_of(task.op, y);
        if (row.steps && marks.clips[task.op]) beyond = {};
        if (row.steps && begins_at_zero(y)) beyond.below = 0;
        row.made += results[t].made;
        row.count += beyond.all();
        row.unexplained += marks.masks[task.op] ? beyond.above : beyond.all();
    }
}

OutOfRange::Row& OutOfRange::row_of(uint32_t op, const BoundRegion& y) {
    const bool steps = is_integer(y.elem) && static_cast<bool>(y.quant);
    const auto [place, is_new] = places_.emplace(std::make_tuple(op, y.elem, steps), rows_.size());
    if (!is_new) return rows_[place->second];
    Row row{op, y.elem, steps};
    if (is_integer(y.elem)) {
        const values::IntegerRange range = range_of(y.elem);
        const double scale = steps ? y.quant.scales[0] : 1;
        const auto zero = steps ? static_cast<double>(y.quant.zero_points[0]) : 0;
        row.low = (static_cast<double>(range.low) - zero) * scale;
        row.high = (static_cast<double>(range.high) - zero) * scale;
    }
    rows_.push_back(row);
    return rows_.back();
}

/// True if an overflow tells something: steps and float8 are scaled to a range, of which some numbers are
/// meant to be beyond.
bool OutOfRange::Row::tells() const {
    const bool scaled = steps || is_small_float(elem);
    return unexplained > 0 && (!scaled || unexplained * one_in > made);
}

void OutOfRange::fill_in(traces::StatSet& stats) const {
    uint64_t results = 0, inputs = 0;
    for (const Row& row : rows_) results += row.count;
    for (const InputRange& input : inputs_) inputs += input.beyond.all();
    stats.set(
        "values.out_of_range", results, "count",
        "results of operations that left the range of their type: overflowed, or saturated at an end of it");
    stats.set("values.inputs_out_of_range", inputs, "count",
              "numbers of inputs that left the range of the type that the host gives them");
}

void OutOfRange::fill_in(std::vector<traces::OpRow>& rows) const {
    for (traces::OpRow& row : rows) row.out_of_range = 0;
    for (const Row& row : rows_) {
        if (row.op < rows.size()) *rows[row.op].out_of_range += row.count;
    }
}

std::string OutOfRange::what(const Row& row) const {
    const BoundOp& op = program_.ops[row.op];
    const std::string start =
        fmt::format("`{}` ({}): {} results", op.id, op.type, counted(row.unexplained, row.made));
    if (row.steps)
        return fmt::format("{} are beyond its {} steps, from {:.4g} to {:.4g}", start, name_of(row.elem),
                           row.low, row.high);
    if (is_integer(row.elem)) return fmt::format("{} are beyond {}", start, name_of(row.elem));
    const bool saturates = is_posit(row.elem) || is_small_float(row.elem);
    return fmt::format("{} left the range of {} and {}", start, type_name(row.elem),
                       saturates ? "saturated" : "became infinite");
}

std::string OutOfRange::help(const Row& row) const {
    const std::string& name = program_.ops[row.op].id;
    if (!compiled_ || (is_integer(row.elem) && !row.steps))
        return "compute it in a type of a wider range, or scale the numbers";
    if (row.steps)
        return fmt::format(
            "calibrate with inputs like these, keep it in floats with --keep '{}=fp16', or have --accuracy "
            "choose",
            name);
    if (is_small_float(row.elem))
        return fmt::format("calibrate with inputs like these, or keep it in floats with --keep '{}=fp16'",
                           name);
    if (row.elem == ElemType::bf16) return "scale the numbers: bf16 has the range of f32";
    return fmt::format(
        "keep it in a wider type with --keep '{}=f32', take --precision bf16 where the device has it, or "
        "have --accuracy choose",
        name);
}

std::string OutOfRange::input_warning() const {
    const InputRange* worst = nullptr;
    for (const InputRange& input : inputs_) {
        const uint64_t count = input.beyond.all();
        uint64_t elements = 1;
        for (const int64_t size : input.spec->shape) elements *= static_cast<uint64_t>(size);
        const bool tells = count > 0 && (!is_integer(input.spec->elem) || count * one_in > elements);
        if (tells && (worst == nullptr || worst->beyond.all() < count)) worst = &input;
    }
    if (worst == nullptr) return {};
    const bool steps = is_integer(worst->spec->elem);
    return fmt::format("input `{}`: {} of its numbers left the range of {}. Fix: {}.", worst->spec->name,
                       worst->beyond.all(), steps ? "its steps" : type_name(worst->spec->elem),
                       steps ? "calibrate with inputs like these, or scale them as the samples were"
                             : "choose a --precision with a wider range, or scale the input");
}

std::string OutOfRange::warning() const {
    const Row* worst = nullptr;
    std::set<uint32_t> others;
    for (const Row& row : rows_) {
        if (!row.tells()) continue;
        others.insert(row.op);
        // floats first: what is infinite spreads
        const auto rank = [](const Row& of) { return std::make_pair(!is_integer(of.elem), of.unexplained); };
        if (worst == nullptr || rank(row) > rank(*worst)) worst = &row;
    }
    if (worst == nullptr) return input_warning();
    const std::string more = others.size() > 1
                                 ? fmt::format(", and so did those of {} other operations", others.size() - 1)
                                 : std::string();
    return fmt::format("{}{}. Fix: {}.", what(*worst), more, help(*worst));
}

}  // namespace kpu::runtime
