#include "compiler/tile_schedule/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "isa/builder.hpp"

namespace kpu::tile_schedule {
namespace {

using builder::Buffer;
using builder::Region;
using builder::Task;

constexpr uint64_t staging_slots = 4;  ///< conversions that may be on their way to DRAM at a time

constexpr uint64_t most_padding = uint64_t{1} << 28;  ///< bytes of padded tensors in all

uint64_t aligned(uint64_t bytes) { return (bytes + address_align - 1) / address_align * address_align; }

/// Use of a tensor by a schedule.
struct Use {
    bool load_first = false, loaded = false, stored = false;
    bool any() const { return loaded || stored; }
};

class Lowering {
  public:
    Lowering(const Schedule& schedule, const Analysis& analysis, const std::string& name)
        : schedule_(schedule),
          header_(schedule.header),
          format_(header_.format),
          analysis_(analysis),
          program_(name),
          uses_(header_.tensors.size()),
          homes_(header_.tensors.size()) {}

    Module run() {
        find_uses();
        program_.message().mutable_device()->set_name(default_platform);
        program_.message().set_precision(std::string(name_of(format_.elem)));
        program_.message().set_peak_sram_bytes(analysis_.peak_bytes);
        for (size_t i = 0; i < header_.tensors.size(); ++i) declare(i);
        const uint64_t arena_bytes = std::max<uint64_t>(aligned(analysis_.peak_bytes), address_align);
        arena_ = format_.arena == Level::l1
                     ? program_.l1_buffer("arena", 0, size(arena_bytes), address_align)
                     : program_.buffer("arena", Level::l2, size(arena_bytes), address_align);
        for (const Op& op : schedule_.ops) {
            std::visit([this](const auto& kind) { lower_op(kind); }, op);
            note_lines();
            ++op_;
        }
        Module module = std::move(program_).build();
        if (!schedule_.lines.empty()) {
            module.source = std::move(source_);
            module.source.files = {schedule_.origin};
        }
        module.origin = schedule_.origin;
        return module;
    }

  private:
    static builder::Expr size(uint64_t bytes) { return static_cast<int64_t>(bytes); }

    size_t index_of(uint32_t tensor_id) const {
        return static_cast<size_t>(header_.find(tensor_id) - header_.tensors.data());
    }

    void find_uses() {
        for (const Op& op : schedule_.ops) {
            if (const auto* load = std::get_if<Load>(&op)) {
                Use& use = uses_[index_of(load->tensor_id)];
                use.load_first = use.load_first || !use.stored;
                use.loaded = true;
            } else if (const auto* store = std::get_if<Store>(&op)) {
                uses_[index_of(store->tensor_id)].stored = true;
            }
        }
    }

    proto::Tensor::Role role_of(const Tensor& tensor, const Use& use) const {
        switch (tensor.role) {
            case Role::input:
                return proto::Tensor::INPUT;
            case Role::weight:
                return proto::Tensor::WEIGHT;
            case Role::intermediate:
                return proto::Tensor::INTERMEDIATE;
            case Role::output:
                return proto::Tensor::OUTPUT;
            case Role::any:
                break;
        }
        return use.load_first ? proto::Tensor::INPUT : proto::Tensor::OUTPUT;
    }

    uint64_t padded_cols(const Tensor& tensor) const { return tensor.tile_cols(format_.tile) * format_.tile; }

    void declare(size_t index) {
        const Tensor& tensor = header_.tensors[index];
        const Use& use = uses_[index];
        if (!use.any() && (tensor.role == Role::intermediate || tensor.role == Role::any)) return;
        const uint64_t cols = padded_cols(tensor), rows = tensor.tile_rows(format_.tile) * format_.tile;
        const uint64_t bytes = rows * cols * static_cast<uint64_t>(bit_width(tensor.elem)) / 8;
        const std::string buffer = fmt::format("t{}", tensor.id);
        homes_[index] = program_.buffer(buffer, Level::ddr, size(bytes), address_align);
        if (use.load_first && (rows != tensor.rows || cols != tensor.cols))
            add_padding(tensor, buffer, bytes);
        proto::Tensor& message = program_.tensor(tensor.name, role_of(tensor, use), tensor.elem,
                                                 {tensor.rows, tensor.cols}, buffer);
        if (cols != tensor.cols) {
            message.add_stride(static_cast<int64_t>(cols));
            message.add_stride(1);
        }
        if (tensor.scale != 0) *message.mutable_quant() = builder::per_tensor(tensor.scale);
    }

    /// Zeros around what the host gives.
    void add_padding(const Tensor& tensor, const std::string& buffer, uint64_t bytes) {
        if (bytes > most_padding - padding_)
            throw UserError(
                fmt::format("{}: tensors that are not whole tiles take more than {} bytes with their "
                            "padding, which travels with the program. Fix: declare `{}` in multiples of "
                            "{} rows and columns.",
                            schedule_.origin, most_padding, tensor.name, format_.tile));
        padding_ += bytes;
        program_.data(fmt::format("padding_{}", tensor.id), buffer, std::string(bytes, '\0'));
    }

    // ---- regions, each declared once

    builder::TensorType tile_type(ElemType elem) const {
        return builder::tensor(elem, {format_.tile, format_.tile});
    }

    Region dram_tile(size_t index, uint32_t row, uint32_t col) {
        const auto [it, missing] = dram_regions_.try_emplace({index, row, col});
        if (!missing) return *it->second;
        const Tensor& tensor = header_.tensors[index];
        const uint64_t cols = padded_cols(tensor);
        const uint64_t first = (uint64_t{row} * cols + col) * format_.tile;
        builder::TensorType type = tile_type(tensor.elem);
        if (cols != format_.tile) type = type.strides({static_cast<int64_t>(cols), 1});
        it->second = program_.region(fmt::format("t{}_{}_{}", tensor.id, row, col), homes_[index].value(),
                                     size(first * static_cast<uint64_t>(bit_width(tensor.elem)) / 8), type);
        return *it->second;
    }

    Region sram_tile(Buffer buffer, uint64_t address, ElemType elem, double scale = 0) {
        const auto [it, missing] = sram_regions_.try_emplace({buffer.index, address, elem, scale});
        if (!missing) return *it->second;
        builder::TensorType type = tile_type(elem);
        std::string name = fmt::format("s{}_{}", address, name_of(elem));
        if (buffer.index != arena_->index) name = "staging_" + name;
        if (scale != 0) {
            type = type.quant(builder::per_tensor(scale));
            name += fmt::format("_q{}", sram_regions_.size());
        }
        it->second = program_.region(name, buffer, size(address), type);
        return *it->second;
    }

    // ---- ops

    /// The tasks of an earlier op, by what can be waited for.
    struct OpTasks {
        std::optional<Task> value, release, dram;
    };

    std::vector<Task> deps(bool dram) const {
        const OpFacts& facts = analysis_.ops[op_];
        std::vector<Task> tasks;
        for (uint32_t i = 0; i < facts.dep_count; ++i) {
            const Dependence& dep = analysis_.deps[facts.first_dep + i];
            if ((dep.on == Dependence::On::dram) != dram) continue;
            const OpTasks& of = tasks_[dep.op];
            tasks.push_back(dep.on == Dependence::On::value ? *of.value : dram ? *of.dram : *of.release);
        }
        return tasks;
    }

    std::vector<Task> all_deps() const { return joined(deps(false), deps(true)); }

    static std::vector<Task> joined(std::vector<Task> a, const std::vector<Task>& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    }

    void wait_for(Task& task, std::vector<Task> on) const {
        const auto before = [](const Task& a, const Task& b) { return a.statement() < b.statement(); };
        const auto same = [](const Task& a, const Task& b) { return a.statement() == b.statement(); };
        std::sort(on.begin(), on.end(), before);
        on.erase(std::unique(on.begin(), on.end(), same), on.end());
        task.after(on);
    }

    std::string token(char kind) const { return fmt::format("{}{}", kind, op_); }

    void lower_op(const Load& op) {
        const size_t index = index_of(op.tensor_id);
        const uint32_t number = program_.op(
            fmt::format("{} {}[{}][{}]", op_, header_.tensors[index].name, op.tile_row, op.tile_col), "LOAD");
        const Region source = dram_tile(index, op.tile_row, op.tile_col);
        const Region target = sram_tile(*arena_, op.dst_addr, format_.elem);
        Task task = program_.transfer(token('l'), target, source);
        wait_for(task.op(number), all_deps());
        tasks_.push_back({task, task, task});
    }

    void lower_op(const Execute& op) {
        const uint32_t number = program_.op(fmt::format("{} m{} n{} k{}", op_, op.m, op.n, op.k), "EXECUTE");
        const Region a = sram_tile(*arena_, op.a_addr, format_.elem),
                     b = sram_tile(*arena_, op.b_addr, format_.elem),
                     sum = sram_tile(*arena_, op.acc_addr, format_.acc_elem());
        std::vector<Region> inputs = {a, b};
        if (!analysis_.ops[op_].from_zero) inputs.push_back(sum);
        Task task = program_.compute("gemm.acc", inputs, {sum}, token('e'));
        task.attr("accum_type", format_.acc_elem()).op(number);
        wait_for(task, all_deps());
        tasks_.push_back({task, task, task});
    }

    void lower_op(const Store& op) {
        const size_t index = index_of(op.tensor_id);
        const Tensor& tensor = header_.tensors[index];
        const uint32_t number =
            program_.op(fmt::format("{} {}[{}][{}]", op_, tensor.name, op.tile_row, op.tile_col), "STORE");
        const Region target = dram_tile(index, op.tile_row, op.tile_col);
        Region source = sram_tile(*arena_, op.src_addr, format_.acc_elem());
        std::vector<Task> before = deps(false);
        std::optional<Task> relu, conversion;
        if (op.activation == Activation::relu) {
            relu = program_.compute("relu", {source}, {source}, token('r'));
            wait_for(relu->op(number), before);
            before = {*relu};
        }
        if (tensor.elem != format_.acc_elem()) {
            const Region narrow = staging(tensor);
            conversion = convert(op, tensor, source, narrow);
            if (staged_.size() >= staging_slots) before.push_back(staged_[staged_.size() - staging_slots]);
            wait_for(conversion->op(number), before);
            before = {*conversion};
            source = narrow;
        }
        Task task = program_.transfer(token('s'), target, source);
        wait_for(task.op(number), joined(before, deps(true)));
        if (conversion) staged_.push_back(task);
        tasks_.push_back({relu ? *relu : task, conversion ? *conversion : task, task});
    }

    /// Returns the next slot for a converted tile, in L2: the arena has no place that is free for certain.
    Region staging(const Tensor& tensor) {
        const uint64_t slot = aligned(format_.acc_bytes());
        if (!staging_)
            staging_ = program_.buffer("staging", Level::l2, size(staging_slots * slot), address_align);
        const bool quantised = tensor.elem == ElemType::i8;
        return sram_tile(*staging_, staged_.size() % staging_slots * slot, tensor.elem,
                         quantised ? tensor.scale : 0);
    }

    Task convert(const Store& op, const Tensor& tensor, const Region& sum, const Region& narrow) {
        if (tensor.elem != ElemType::i8) return program_.compute("cast", {sum}, {narrow}, token('c'));
        const double scale = analysis_.ops[op_].scale;
        const Region scaled = scale == 1 ? sum : sram_tile(*arena_, op.src_addr, format_.acc_elem(), scale);
        return program_.compute("requant", {scaled}, {narrow}, token('c'));
    }

    // ---- places in the file

    void note_lines() {
        if (schedule_.lines.empty()) return;
        const SourceMap::Place place{0, schedule_.lines[op_], 1};
        source_.statements.resize(static_cast<size_t>(program_.message().statement_size()), place);
        source_.regions.resize(static_cast<size_t>(program_.message().region_size()), place);
    }

    const Schedule& schedule_;
    const Header& header_;
    const Format& format_;
    const Analysis& analysis_;
    builder::Program program_;
    std::vector<Use> uses_;
    std::vector<std::optional<Buffer>> homes_;  ///< homes of the tensors
    std::optional<Buffer> arena_, staging_;
    std::map<std::tuple<size_t, uint32_t, uint32_t>, std::optional<Region>> dram_regions_;
    std::map<std::tuple<uint32_t, uint64_t, ElemType, double>, std::optional<Region>> sram_regions_;
    std::vector<OpTasks> tasks_;  ///< tasks of the ops so far
    std::vector<Task> staged_;    ///< transfers out of staging so far
    SourceMap source_;
    size_t op_ = 0;
    uint64_t padding_ = 0;
};

}  // namespace

Module lower(const Schedule& schedule, const Analysis& analysis, const std::string& name) {
    require_legal(analysis, schedule);
    return Lowering(schedule, analysis, name).run();
}

}  // namespace kpu::tile_schedule
