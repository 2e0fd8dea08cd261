#include "compiler/emit/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/diagnostics.hpp"
#include "compiler/emit/op_records.hpp"
#include "compiler/emit/tiles.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/memory/flatten.hpp"
#include "compiler/plan/held.hpp"
#include "compiler/plan/shared.hpp"
#include "platforms/platform.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

/// Constants up to this size stand in L2 during the whole program, as far as an eighth of L2 holds them.
constexpr uint64_t table_entry_bytes = 16 << 10;

class Lowering {
  public:
    Lowering(Graph graph, const Target& target, const Guide& guide)
        : graph_(std::move(graph)), target_(target), guide_(guide), program_(graph_.name) {}

    Room room() {
        insert_copies(graph_);
        groups_ = groups_of(graph_);
        guide_.wishes.check(graph_, groups_.ranges);
        check_types(groups_.ranges);
        describe_groups();
        fill_table();
        divide_l2();
        return {resident_bytes_, target_.ddr_bytes};
    }

    Lowered run() {
        const Room of_tensors = room();
        result_.memory = plan_memory(graph_, groups_, of_tensors, guide_.wishes,
                                     shared_constants(graph_, result_.ops, guide_.inferences));
        find_homes();
        for (size_t i = 0; i < result_.ops.size(); ++i) choose(result_.ops[i], result_.memory.spare[i]);
        places_.shared.choose_blocks(graph_, result_.ops);
        judge_first(graph_, target_, result_.memory, arena_bytes_, result_.ops);
        if (guide_.inferences > 1) hold();
        declare_buffers();
        emit();
        finish();
        return std::move(result_);
    }

  private:
    /// What the device does not take is an error before any work. What only renames bytes is no work.
    void check_types(const std::vector<NodeRange>& groups) const {
        Diagnostics problems;
        for (const NodeRange& group : groups) {
            for (NodeId n = group.first; n < group.last; ++n) check_types(graph_.nodes[n], problems);
        }
        if (problems.has_errors()) throw UserError(std::move(problems));
    }
    void check_types(const Node& node, Diagnostics& problems) const {
        std::vector<ElemType> inputs, outputs;
        for (const ValueId id : node.inputs) inputs.push_back(graph_.value(id).elem);
        for (const ValueId id : node.outputs) outputs.push_back(graph_.value(id).elem);
        if (target_.takes(node.spec(), inputs, outputs)) return;
        std::vector<std::string> types;
        for (const ElemType type : inputs) types.emplace_back(name_of(type));
        problems.error(
            {}, fmt::format("{} ({}): `{}` has no {} of {} to {}. Fix: choose another precision or device.",
                            node.source.name, node.source.type, target_.limits.name, node.spec().name,
                            fmt::join(types, ", "), name_of(outputs[0])));
    }

    /// L2 holds the table, as much staging room as there is L1, and tensors in what is left.
    void divide_l2() {
        const uint64_t staging = target_.l1_bytes * target_.engines.size();
        const uint64_t table = align_up(table_used_);
        uint64_t own = target_.l1_bytes - kernel_bytes();
        if (target_.l2_bytes <= staging + table) {
            own = std::min(own, (target_.l2_bytes - table) / target_.engines.size());
        } else {
            resident_bytes_ = target_.l2_bytes - staging - table;
        }
        arena_bytes_ = own / 2 / tile_align * tile_align;
    }

    /// Of L1, for what kernels that copy have of their own.
    uint64_t kernel_bytes() const {
        for (const PlannedOp& op : result_.ops) {
            for (const TileOperand& operand : op.op.operands) {
                if (operand.in_place) return tile_align;
            }
        }
        return 0;
    }

    void describe_groups() {
        for (const NodeRange& group : groups_.ranges) {
            PlannedOp op;
            op.op = describe(graph_, group.first, group.last, groups_.internal);
            op.op.name = group.name;
            op.strips = graph_.nodes[group.first].strips;
            result_.ops.push_back(std::move(op));
        }
    }

    // ---- the table of small constants

    /// The weights of a product are no table entry, however small: the arrays read them over and over.
    bool for_table(const TileOp& op, size_t operand) const {
        const TileOperand& of = op.operands[operand];
        const graph::Value& value = graph_.value(of.value);
        if (!value.constant() || of.place != Place::input) return false;
        for (const TileNode& tile : op.nodes) {
            const Node& node = graph_.nodes[tile.node];
            if (kernels::find(node.opcode) != nullptr) return false;  // kernels load from L1
            const bool vectors =
                node.spec().op_class == OpcodeClass::elementwise || node.spec().op_class == OpcodeClass::norm;
            for (size_t i = 0; i < tile.inputs.size(); ++i) {
                const bool bias = node.spec().macs != nullptr && i == node.spec().addend;
                if (tile.inputs[i] == operand && !bias && !vectors) return false;
            }
        }
        return value.data.size <= table_entry_bytes;
    }

    bool enter(ValueId id, ElemType elem) {
        Block block = constants_.whole(id);
        block.elem = elem;
        if (places_.table_places.count(block) > 0) return true;
        const uint64_t size = align_up(packed_bytes(elem, graph_.value(id).elements()), small_align);
        if (table_used_ + size > target_.l2_bytes / 8) return false;
        places_.table_places[block] = static_cast<int64_t>(table_used_);
        table_used_ += size;
        return true;
    }

    /// The addend of a product must be there in the type of the accumulator, in case its sum is cut.
    bool enter_addend(PlannedOp& op, size_t operand) {
        const TileNode& anchor = op.op.nodes[op.op.anchor];
        const ElemType sums = accumulator_of(graph_, op.op);
        const OpcodeSpec& spec = graph_.nodes[anchor.node].spec();
        const bool addend = anchor.inputs.size() > spec.addend && anchor.inputs[spec.addend] == operand &&
                            spec.macs != nullptr && sums != ElemType::none;
        const ValueId id = op.op.operands[operand].value;
        return !addend || graph_.value(id).elem == sums || (is_float(sums) && enter(id, sums));
    }

    void fill_table() {
        for (PlannedOp& op : result_.ops) {
            op.homes.assign(op.op.operands.size(), Home::none);
            for (size_t i = 0; i < op.op.operands.size(); ++i) {
                const ValueId id = op.op.operands[i].value;
                if (!graph_.value(id).constant()) continue;
                const bool table =
                    for_table(op.op, i) && enter(id, graph_.value(id).elem) && enter_addend(op, i);
                op.homes[i] = table ? Home::table : op.op.operands[i].in_place ? Home::in_place : Home::ddr;
            }
        }
    }

    void find_homes() {
        for (PlannedOp& op : result_.ops) {
            for (size_t i = 0; i < op.op.operands.size(); ++i) {
                const TileOperand& operand = op.op.operands[i];
                if (op.homes[i] == Home::ddr && result_.memory.shared.count(operand.value) > 0)
                    op.homes[i] = Home::shared;
                if (graph_.value(operand.value).constant() || operand.place == Place::internal) continue;
                const Storage& storage = result_.memory.storages[result_.memory.views[operand.value].storage];
                op.homes[i] = operand.in_place                  ? Home::in_place
                              : storage.input || storage.output ? Home::ddr
                                                                : storage.home;
            }
        }
    }

    // ---- buffers

    builder::Buffer make_buffer(const std::string& name, Level level, uint64_t bytes) {
        return program_.buffer(name, level, static_cast<int64_t>(std::max<uint64_t>(bytes, tile_align)),
                               tile_align);
    }

    uint64_t host_bytes(const Storage& storage) const {
        return guide_.inferences > 1 ? guide_.inferences * host_step(storage) : storage.bytes;
    }

    void declare_buffers() {
        const MemoryPlan& memory = result_.memory;
        for (uint32_t s = 0; s < memory.storages.size(); ++s) {
            const Storage& storage = memory.storages[s];
            if (storage.input || storage.output)
                places_.own.emplace(s,
                                    make_buffer(fmt::format("host_{}", s), Level::ddr, host_bytes(storage)));
        }
        places_.weights = make_buffer("weights", Level::ddr, 0);
        if (memory.ddr_bytes > 0) places_.ddr = make_buffer("activations", Level::ddr, memory.ddr_bytes);
        if (table_used_ > 0) places_.table = make_buffer("table", Level::l2, table_used_);
        if (memory.l2_bytes > 0) places_.l2 = make_buffer("resident", Level::l2, memory.l2_bytes);
        places_.any_held = result_.held_bytes > 0;
        if (places_.any_held) places_.held = make_buffer("held", Level::l2, result_.held_bytes);
        for (size_t e = 0; e < target_.engines.size(); ++e) {
            places_.staging.push_back(make_buffer(fmt::format("staging_{}", e), Level::l2, 2 * arena_bytes_));
            places_.l1.push_back(program_.l1_buffer(fmt::format("l1_{}", e), static_cast<int64_t>(e),
                                                    static_cast<int64_t>(2 * arena_bytes_), tile_align));
        }
        places_.arena_bytes = arena_bytes_;
    }

    // ---- tiles

    /// Unless the axes that go into one are fixed.
    void flatten_pixels(PlannedOp& op) {
        const MappingWish wish = guide_.wishes.of(op.op.name);
        for (const char* axis : {"n", "y", "x"}) {
            if (wish.tile.count(axis) > 0 || wish.engines.count(axis) > 0) return;
        }
        const std::vector<TileOperand> before = op.op.operands;
        if (!flatten(graph_, result_.memory, op.op)) return;
        const OpRecords records(program_, graph_, result_.memory);
        for (size_t i = 0; i < before.size(); ++i) {
            const ValueId id = op.op.operands[i].value;
            if (id != before[i].value) graph_.values[id].name = records.host_name(before[i].value);
        }
    }

    void choose(PlannedOp& op, const MemoryPlan::Gap& spare) {
        flatten_pixels(op);
        const auto number = static_cast<size_t>(&op - result_.ops.data());
        const bool first = number == 0;
        const Tiling* known = guide_.tilings.empty() ? nullptr : &guide_.tilings.at(number);
        std::optional<PlannedOp> wider = with_wide_addend(op);
        if (wider && (known == nullptr || known->cuts_sum(op.op))) choose_tiles(*wider, spare, first, known);
        if (wider && wider->tiling.cuts_sum(wider->op)) {
            op = std::move(*wider);
        } else {
            if (wider) graph_.values.pop_back();
            choose_tiles(op, spare, first, known);
        }
        keep(op, spare);
        const Node& anchor = graph_.nodes[op.op.nodes[op.op.anchor].node];
        const bool product = anchor.spec().macs != nullptr;
        op.elem = graph_.value(product ? anchor.inputs[0] : anchor.outputs[0]).elem;
        if (product && graph_.value(anchor.inputs[1]).elem == ElemType::i4) op.elem = ElemType::i4;
        op.macs = macs_of(graph_, op.op);
    }

    /// The same operation with its addend, a new last value, as the accumulator needs it, where the table had no room.
    std::optional<PlannedOp> with_wide_addend(const PlannedOp& op) {
        const TileNode& anchor = op.op.nodes[op.op.anchor];
        const OpcodeSpec& spec = graph_.nodes[anchor.node].spec();
        if (spec.macs == nullptr || spec.group_scales || anchor.inputs.size() < 3) return std::nullopt;
        const size_t addend = anchor.inputs[2];
        const ElemType sums = accumulator_of(graph_, op.op);
        graph::Value value = graph_.value(op.op.operands[addend].value);
        if (sums == ElemType::none || !is_float(sums) || !value.constant() || value.elem == sums ||
            op.homes[addend] == Home::table)
            return std::nullopt;
        value.data = graph::make_numbers(sums, graph::numbers(value));
        value.name += fmt::format(":{}", name_of(sums));
        value.elem = sums;
        PlannedOp wider = op;
        wider.op.operands[addend].value = static_cast<ValueId>(graph_.values.size());
        graph_.values.push_back(std::move(value));
        return wider;
    }

    /// `known`: what an earlier search found; null: it is searched.
    void choose_tiles(PlannedOp& op, const MemoryPlan::Gap& spare, bool first, const Tiling* known) {
        const bool cut = sums_can_be_cut(graph_, op.op, op.homes, target_);
        for (Axis& axis : op.op.axes) {
            if (axis.walk == Walk::sum && !cut) axis.whole = true;
            if (axis.walk != Walk::sum && (axis.name == "n" || axis.name == "o") && axis.independent)
                axis.quantum = target_.engines[0].array().cols();
            if (axis.name == "m") axis.quantum = target_.engines[0].array().rows();
        }
        const std::vector<Dims> strides = strides_at_home(graph_, result_.memory, op.op);
        const MappingWish wish = guide_.wishes.of(op.op.name);
        const TilingRequest request{graph_,
                                    op.op,
                                    target_,
                                    op.homes,
                                    strides,
                                    arena_bytes_,
                                    spare.bytes,
                                    first,
                                    &wish,
                                    op.op.name == guide_.explain ? &op.considered : nullptr,
                                    std::max<size_t>(1, guide_.keep),
                                    result_.ops.size() <= guide_.more_up_to,
                                    guide_.searches.get()};
        if (known == nullptr) {
            op.fastest = fastest_tilings(request);
            op.tiling = op.fastest[0];
        } else if (op.tiling = *known; !evaluate(request, op.tiling)) {
            throw InternalError("lower: a tiling of an earlier search does not fit");
        } else if (guide_.around) {
            op.fastest = tilings_around(request, op.tiling);
        }
    }

    /// Gives places to what stays in L2 during the operation.
    void keep(PlannedOp& op, const MemoryPlan::Gap& spare) {
        uint64_t next = spare.address;
        for (size_t i = 0; i < op.op.operands.size(); ++i) {
            op.kept.push_back(next);
            if (op.tiling.keep[i] == Keep::no) continue;
            next += kept_bytes(graph_, op.op, op.tiling, i);
        }
        if (op.tiling.kept_bytes > 0) result_.memory.l2_bytes = std::max(result_.memory.l2_bytes, next);
    }

    /// Weights stay where they fit beside what one inference has in L2.
    void hold() {
        const uint64_t staging = 2 * arena_bytes_ * target_.engines.size();
        const uint64_t taken = staging + align_up(table_used_) + align_up(result_.memory.l2_bytes);
        if (taken < target_.l2_bytes)
            result_.held_bytes = hold_weights(graph_, result_.ops, target_.l2_bytes - taken);
        for (size_t i = 0; i < result_.ops.size(); ++i)
            judge_held(graph_, target_, result_.memory, i, arena_bytes_, result_.ops[i]);
    }

    // ---- tasks

    void emit() {
        const uint32_t setup = program_.op("__setup", "Setup");
        load_table(setup);
        OpRecords records(program_, graph_, result_.memory);
        for (PlannedOp& op : result_.ops) op.number = static_cast<int>(records.add(op)) - 1;
        std::vector<Stage> stages;
        for (uint64_t inference = 0; inference < guide_.inferences; ++inference) {
            for (PlannedOp& op : result_.ops) {
                const auto number = static_cast<uint32_t>(op.number) + 1;
                for (Stage& stage :
                     stages_of(places_, {op.op, op.tiling, op.homes, op.kept, op.held, number, inference}))
                    stages.push_back(std::move(stage));
            }
        }
        // constants of the next stage come while this one computes
        if (!stages.empty()) stages[0].prologue();
        for (size_t s = 0; s < stages.size(); ++s) {
            const bool more = s + 1 < stages.size(), alone = stages[s].alone || (more && stages[s + 1].alone);
            if (more && !alone) stages[s + 1].prologue();
            stages[s].body();
            if (more && alone) stages[s + 1].prologue();
        }
    }

    /// Of an addend that is there in two types, only one is read.
    std::set<Block> read_of_table() const {
        std::set<Block> result;
        for (const PlannedOp& op : result_.ops) {
            const TileNode& anchor = op.op.nodes[op.op.anchor];
            const ElemType sums = accumulator_of(graph_, op.op);
            const bool product = graph_.nodes[anchor.node].spec().macs != nullptr;
            for (const TileNode& tile : op.op.nodes) {
                for (size_t i = 0; i < tile.inputs.size(); ++i) {
                    if (op.homes[tile.inputs[i]] != Home::table) continue;
                    Block block = constants_.whole(op.op.operands[tile.inputs[i]].value);
                    const bool addend =
                        &tile == &anchor && product && i == graph_.nodes[tile.node].spec().addend;
                    if (addend && op.tiling.cuts_sum(op.op) && sums != ElemType::none) block.elem = sums;
                    result.insert(block);
                }
            }
        }
        return result;
    }

    void load_table(uint32_t op) {
        for (const Block& block : read_of_table()) {
            const builder::TensorType type = builder::tensor(block.elem, {block.count.product()});
            const builder::Region from = program_.region("", places_.weights, constants_.place(block), type);
            const builder::Region to =
                program_.region("", places_.table, places_.table_places.at(block), type);
            builder::Task task = program_.transfer("", to, from).op(op);
            places_.order.add(task, {}, {}, {Span{places_.table.index, 0, 1, false, 0, {}, {}}});
        }
    }

    // ---- what the program says of itself

    void set_size(const builder::Buffer& buffer, uint64_t bytes) {
        proto::Buffer& message = *program_.message().mutable_buffer(static_cast<int>(buffer.index));
        *message.mutable_size() =
            builder::Expr(static_cast<int64_t>(std::max<uint64_t>(bytes, tile_align))).proto();
    }

    void add_port(const graph::Port& port, proto::Tensor::Role role) {
        const graph::Value& value = graph_.value(port.value);
        View view;
        std::string buffer = "weights";
        if (value.constant() || value.elements() == 0) {
            view.strides = row_major(shape_of(value));
            if (value.elements() > 0)  // else it is the host's alone
                view.offset = constants_.place(constants_.whole(port.value)) * 8 / bit_width(value.elem);
        } else {
            view = result_.memory.views[port.value];
            buffer = program_.message().buffer(static_cast<int>(places_.own.at(view.storage).index)).name();
        }
        const Dims whole = shape_of(value);
        std::vector<int64_t> shape, strides;
        for (size_t d = 0; d < whole.rank; ++d) {
            const size_t from = port.perm.empty() ? d : static_cast<size_t>(port.perm[d]);
            shape.push_back(whole[from]);
            strides.push_back(view.strides[from]);
        }
        if (value.shape.rank == 0) shape.clear(), strides.clear();
        if (guide_.inferences > 1) repeat(port, shape, strides);
        proto::Tensor& tensor = program_.tensor(port.name, role, value.elem, shape, buffer,
                                                view.offset * bit_width(value.elem) / 8);
        for (const int64_t stride : strides) tensor.add_stride(stride);
        if (value.quant) *tensor.mutable_quant() = quant_message(value.quant);
        if (value.quant && value.quant.kind != proto::Quant::PER_TENSOR && !port.perm.empty())
            tensor.mutable_quant()->set_axis(std::find(port.perm.begin(), port.perm.end(), value.quant.axis) -
                                             port.perm.begin());
        if (value.quant && value.quant.kind != proto::Quant::PER_TENSOR && guide_.inferences > 1)
            tensor.mutable_quant()->set_axis(tensor.quant().axis() + 1);
        tensor.set_host_elem(host_elem(port));
    }
    /// A first dimension: the inferences. A constant output is the same in all.
    void repeat(const graph::Port& port, std::vector<int64_t>& shape, std::vector<int64_t>& strides) const {
        const graph::Value& value = graph_.value(port.value);
        if (shape.size() >= max_rank)
            throw UserError(
                fmt::format("`{}` has {} dimensions, and --inferences would give it one more than {}. Fix: "
                            "compile one inference.",
                            port.name, shape.size(), max_rank));
        int64_t step = 0;
        if (!value.constant()) {
            const Storage& storage = result_.memory.storages[result_.memory.views[port.value].storage];
            step = static_cast<int64_t>(host_step(storage)) * 8 / bit_width(value.elem);
        }
        shape.insert(shape.begin(), static_cast<int64_t>(guide_.inferences));
        strides.insert(strides.begin(), step);
    }

    /// Tensors between operations: where they are, for readers, and so that their buffer is no output of its own.
    void add_intermediates() {
        std::set<std::string> names;  // a port need not be called as its value
        for (const proto::Tensor& port : program_.message().tensor()) names.insert(port.id());
        for (ValueId id = 0; id < graph_.values.size(); ++id) {
            const graph::Value& value = graph_.value(id);
            if (value.constant() || result_.memory.internal[id]) continue;
            const View& view = result_.memory.views[id];
            const Storage& storage = result_.memory.storages[view.storage];
            if (storage.input || storage.output || storage.first > storage.last) continue;
            std::vector<int64_t> shape(value.shape.begin(), value.shape.end());
            const int64_t at =
                static_cast<int64_t>(storage.address) + view.offset * bit_width(value.elem) / 8;
            const char* buffer = storage.home == Home::l2 ? "resident" : "activations";
            std::string name = value.name;
            while (!names.insert(name).second) name += ".inner";
            auto& tensor = program_.tensor(name, proto::Tensor::INTERMEDIATE, value.elem, shape, buffer, at);
            for (size_t d = 0; d < value.shape.rank; ++d) tensor.add_stride(view.strides[d]);
            if (value.quant) *tensor.mutable_quant() = quant_message(value.quant);
        }
    }

    void finish() {
        for (const graph::Port& port : graph_.inputs) add_port(port, proto::Tensor::INPUT);
        for (const graph::Port& port : graph_.outputs) add_port(port, proto::Tensor::OUTPUT);
        add_intermediates();
        set_size(places_.weights, constants_.size());
        KPUProgram& message = program_.message();
        result_.weight_bytes = constants_.size();
        message.set_weight_bytes(constants_.size());
        if (guide_.inferences > 1) message.set_inferences(guide_.inferences);
        uint64_t tiles = 0;
        for (const PlannedOp& op : result_.ops) {
            const uint64_t lanes = static_cast<uint64_t>(std::max<int64_t>(op.tiling.lanes(), 1));
            tiles = std::max(tiles, lanes * op.tiling.l1_bytes() + op.tiling.kept_bytes);
        }
        message.set_peak_sram_bytes(result_.memory.l2_bytes + result_.held_bytes + table_used_ + tiles);
        uint64_t host = 0;
        for (const Storage& storage : result_.memory.storages)
            host += storage.input || storage.output ? host_bytes(storage) : 0;
        message.set_peak_dram_bytes(result_.memory.ddr_bytes + host + constants_.size());
        message.set_activation_bytes(result_.memory.ddr_bytes + host + result_.memory.l2_bytes);
        message.set_target_name(target_.platform.name());
        message.set_target_version(target_.platform.version());
        message.set_target_hash(legality_hash(target_.limits));
        result_.weights = constants_.take();
        result_.module = std::move(program_).build();
        result_.launches = std::move(places_.launches);
        result_.needs_values = places_.needs_values;
        result_.graph = std::move(graph_);
        if (guide_.weights) add_weights(result_);
    }

    Graph graph_;
    const Target& target_;
    const Guide& guide_;
    builder::Program program_;
    GroupList groups_;
    Lowered result_;
    Constants constants_{graph_};
    Order order_;
    Throttle throttle_{program_, order_, target_.limits.max_active_tokens};
    uint64_t table_used_ = 0, resident_bytes_ = 0, arena_bytes_ = 0;
    Places places_{program_, graph_, result_.memory, target_, constants_, order_, throttle_};
};

}  // namespace

Lowered lower(Graph graph, const Target& target, const Guide& guide) {
    return Lowering(std::move(graph), target, guide).run();
}

void add_weights(Lowered& lowered) {
    if (lowered.weight_bytes == 0) return;
    builder::add_data(lowered.module, "weights", "weights", bytes_of(lowered.graph, lowered.weights));
}

void promise_weights(Lowered& lowered) {
    if (lowered.weight_bytes > 0)
        builder::promise_data(lowered.module, "weights", "weights", lowered.weight_bytes);
}

Room room_of_tensors(const Graph& graph, const Target& target) { return Lowering(graph, target, {}).room(); }

}  // namespace kpu::compiler
