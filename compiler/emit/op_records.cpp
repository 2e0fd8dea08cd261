#include "compiler/emit/op_records.hpp"

namespace kpu::compiler {

using graph::ValueId;

void OpRecords::add(const PlannedOp& op) {
    KPUProgram& program = out_.program.message();
    if (static_cast<uint32_t>(program.op_size()) == op.number) return add_new(op);
    for (proto::OpAttribute& attribute :
         *program.mutable_op(static_cast<int>(op.number))->mutable_attribute()) {
        if (attribute.name() == "macs") attribute.set_i(attribute.i() + static_cast<int64_t>(op.macs));
    }
}

void OpRecords::add_new(const PlannedOp& op) {
    out_.program.op(op.op.name, op.op.source.type);
    proto::Op& message = *out_.program.message().mutable_op(static_cast<int>(op.number));
    message.set_schedule_order(static_cast<int32_t>(op.number));
    for (const graph::Source& source : op.op.fused) {
        message.add_fused_with(source.name);
        message.add_fused_type(source.type);
    }
    proto::Tiling& tiling = *message.mutable_tiling();
    for (size_t a = 0; a < op.op.axes.size(); ++a) {
        if (op.op.axes[a].extent == 1) continue;
        proto::NamedInt& size = *tiling.add_tile_size();
        size.set_name(op.op.axes[a].name);
        size.set_value(op.tiling.tile[a]);
    }
    for (const Walk walk : {Walk::unroll, Walk::loop, Walk::sum}) {
        for (size_t a = 0; a < op.op.axes.size(); ++a) {
            if (op.op.axes[a].walk == walk && op.tiling.tiles(op.op, a) > 1)
                tiling.add_loop_order(op.op.axes[a].name);
        }
    }
    tiling.set_double_buffer(op.tiling.depth > 1);
    tiling.set_prefetch_distance(op.tiling.prefetch_distance(op.op));
    for (const TileOperand& operand : op.op.operands) {
        const std::string& name = host_name(out_.graph, out_.plan.memory, operand.value);
        if (operand.place == Place::output) message.add_output_id(name);
        if (operand.place == Place::input) message.add_input_id(name);
    }
    add_attributes(op, message);
}

/// True if some result may be very low, and all such are masked.
bool OpRecords::only_masks(const PlannedOp& op) const {
    bool low = false;
    for (const auto& member : op.op.nodes) {
        const graph::Node& node = out_.graph.nodes[member.node];
        if (is_never_low(node)) continue;
        low = true;
        for (const ValueId id : node.outputs) {
            if (!masked_[id]) return false;
        }
    }
    return low;
}

void OpRecords::add_attributes(const PlannedOp& op, proto::Op& message) const {
    const graph::Node& anchor = out_.graph.nodes[op.op.nodes[op.op.anchor].node];
    for (const AttrSpec& spec : anchor.spec().attributes) {
        const BoundAttr* found = anchor.attrs.find(spec.name);
        if (found == nullptr) continue;
        proto::OpAttribute& attribute = *message.add_attribute();
        attribute.set_name(found->name);
        if (spec.kind == AttrKind::integer || spec.kind == AttrKind::boolean) attribute.set_i(found->integer);
        if (spec.kind == AttrKind::real) attribute.set_f(found->real);
        if (spec.kind == AttrKind::text || spec.kind == AttrKind::word) attribute.set_s(found->text);
        if (spec.kind == AttrKind::elem_type) attribute.set_s(std::string(name_of(found->type)));
        attribute.mutable_ints()->Add(found->ints.begin(), found->ints.end());
        attribute.mutable_floats()->Add(found->reals.begin(), found->reals.end());
    }
    proto::OpAttribute& precision = *message.add_attribute();
    precision.set_name("precision");
    precision.set_s(std::string(name_of(op.elem)));
    proto::OpAttribute& macs = *message.add_attribute();
    macs.set_name("macs");
    macs.set_i(static_cast<int64_t>(op.macs));
    if (only_masks(op)) {
        proto::OpAttribute& masks = *message.add_attribute();
        masks.set_name("masks");
        masks.set_i(1);
    }
    if (op.strips > 0) {
        proto::OpAttribute& strips = *message.add_attribute();
        strips.set_name("strips");
        strips.set_i(op.strips);
    }
    if (op.op.operands[op.op.nodes[op.op.anchor].inputs[0]].in_place) {  // of a table, one for each index
        proto::OpAttribute& rows = *message.add_attribute();
        rows.set_name("rows_read");
        rows.set_i(out_.graph.value(anchor.outputs[0]).shape[0]);
    }
    for (const TileOperand& operand : op.op.operands) {
        const graph::Value& value = out_.graph.value(operand.value);
        if (!value.constant() || operand.place != Place::input) continue;
        proto::OpAttribute& weight = *message.add_attribute();
        weight.set_name("weight " + value.name);
        weight.set_s(std::string(name_of(value.elem)));
        for (const int64_t size : value.shape) weight.add_ints(size);
        weight.mutable_floats()->Add(value.quant.scales.begin(), value.quant.scales.end());
    }
}

}  // namespace kpu::compiler
