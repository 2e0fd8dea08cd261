// Views in an exported model: what moves elements.
#include "compiler/quantize/export/export_node.hpp"

namespace kpu::quantize {
namespace {

void transpose(ExportedNode& n) { n.result(n.transposed(n.x(), n.ints("perm"))); }

void reshape(ExportedNode& n) { n.result(n.reshaped(n.x(), sizes_of(n.out().shape))); }

void slice(ExportedNode& n) {
    Names operands = {n.x()};
    for (const char* list : {"starts", "ends", "axes", "steps"}) operands.push_back(n.integers(n.ints(list)));
    n.result(n.op("Slice", operands));
}

/// Writes a concatenation: ONNX joins no scalars.
void concat(ExportedNode& n) {
    Names operands = n.operands();
    for (size_t i = 0; i < operands.size(); ++i) {
        if (n.in(i).shape.rank == 0) operands[i] = n.reshaped(operands[i], {1});
    }
    n.result(operands.size() == 1 ? operands[0] : n.op("Concat", operands, n.attributes({"axis"})));
}

void split(ExportedNode& n) {
    const Names parts = n.writer.node("Split", {n.x(), n.integers(n.ints("split_sizes"))},
                                      n.attributes({"axis"}), n.in(0).name, n.node.outputs.size());
    for (size_t i = 0; i < parts.size(); ++i) n.result(parts[i], i);
}

void pad(ExportedNode& n) {
    const std::string y =
        n.op("Pad", {n.wide(), n.integers(n.ints("pads")), n.number(n.real("constant_value"))},
             n.attributes({"mode"}));
    n.result_of_type(y, ExportedNode::wide_type(n.in(0)));
}

void gather(ExportedNode& n) { n.result(n.op("Gather", n.operands(), n.attributes({"axis"}))); }

void gather_elements(ExportedNode& n) {
    n.result(n.op("GatherElements", n.operands(), n.attributes({"axis"})));
}

// ---- blocks of pixels

std::string in_blocks(ExportedNode& n, const char* op_type, const std::vector<OnnxWriter::Attribute>& more) {
    std::vector<OnnxWriter::Attribute> attributes = more;
    attributes.push_back(OnnxWriter::integer("blocksize", n.integer("block", 1)));
    return n.op(op_type, {n.transposed(n.x(), channels_first(4))}, attributes);
}

void depth_to_space(ExportedNode& n) {
    const std::string mode(n.node.attrs.word("mode", "DCR"));
    n.result(n.transposed(in_blocks(n, "DepthToSpace", {OnnxWriter::text("mode", mode)}), channels_last(4)));
}

/// Exports space_to_depth: ONNX has it with the place in the block before the channel; the other order is a
/// transposition more.
void space_to_depth(ExportedNode& n) {
    std::string y = in_blocks(n, "SpaceToDepth", {});
    const Sizes shape = sizes_of(n.out().shape);
    if (n.node.attrs.word("mode", "DCR") == "CRD") {
        const int64_t channels = n.shape()[3];
        y = n.reshaped(y, {shape[0], shape[3] / channels, channels, shape[1], shape[2]});
        y = n.reshaped(n.transposed(y, {0, 2, 1, 3, 4}), {shape[0], shape[3], shape[1], shape[2]});
    }
    n.result(n.transposed(y, channels_last(4)));
}

}  // namespace

void export_views(Exports& t) {
    t["transpose"] = transpose;
    t["reshape"] = reshape;
    t["slice"] = slice;
    t["concat"] = concat;
    t["split"] = split;
    t["pad"] = pad;
    t["gather"] = gather;
    t["gather_elements"] = gather_elements;
    t["depth_to_space"] = depth_to_space;
    t["space_to_depth"] = space_to_depth;
}

}  // namespace kpu::quantize
