#include "values/arithmetic.hpp"

#include "values/reference.hpp"
#include "values/views.hpp"

namespace kpu::values {
namespace {

using fast::Kernels;
using fast::Scratch;
using Table = std::vector<Arithmetic>;

void add_elementwise(Table& t) {
    for (const Elementwise& row : elementwise_table()) {
        t.push_back({row.opcode, [&row](const Call& call) { reference::elementwise(row, call); },
                     [&row](const Kernels& k, Scratch&, const Call& call) {
                         return fast::elementwise(k, row, call);
                     }});
    }
}

void add_reductions(Table& t) {
    for (const Reduction& row : reduction_table()) {
        t.push_back({row.opcode, [&row](const Call& call) { reference::reduce(row, call); },
                     [&row](const Kernels& k, Scratch& s, const Call& call) {
                         return fast::reduce(k, s, row, call);
                     }});
    }
    for (const Search& row : search_table()) {
        t.push_back({row.opcode, [&row](const Call& call) { reference::search(row, call); },
                     [&row](const Kernels& k, Scratch& s, const Call& call) {
                         return fast::search(k, s, row, call);
                     }});
    }
}

void add_rows(Table& t) {
    // one implementation of views: it copies
    for (const View& view : view_table()) t.push_back({view.opcode, view.copy, nullptr});
    for (const std::string_view name : {"layernorm", "rmsnorm"}) {
        const bool centred = name == "layernorm";
        t.push_back({name, [centred](const Call& call) { reference::norm(call, centred); },
                     [centred](const Kernels& k, Scratch& s, const Call& call) {
                         return fast::norm(k, s, call, centred);
                     }});
    }
    for (const std::string_view name : {"softmax", "log_softmax"}) {
        const bool logarithm = name == "log_softmax";
        t.push_back({name, [logarithm](const Call& call) { reference::softmax(call, logarithm); },
                     [logarithm](const Kernels& k, Scratch& s, const Call& call) {
                         return fast::softmax(k, s, call, logarithm);
                     }});
    }
}

Table make_table() {
    Table t;
    for (const std::string_view name : {"gemm", "matmul", "gemm.acc"})
        t.push_back({name, reference::gemm, fast::gemm});
    for (const std::string_view name :
         {"conv2d", "conv2d.acc", "conv1d", "conv3d", "depthwise_conv2d", "conv_transpose2d"})
        t.push_back({name, reference::conv, fast::conv});
    t.push_back({"gemm.group", reference::group_gemm, fast::group_gemm});
    t.push_back({"gemm.mx", reference::block_gemm, nullptr});
    t.push_back({"conv2d.group", reference::group_conv, fast::group_conv});
    add_elementwise(t);
    t.push_back({"maxpool", reference::maxpool, fast::maxpool});
    t.push_back({"avgpool", reference::avgpool, fast::avgpool});
    t.push_back({"resize", reference::resize, fast::resize});
    add_rows(t);
    t.push_back({"group_norm", reference::group_norm, fast::group_norm});
    add_reductions(t);
    t.push_back({"cumsum", reference::cumsum, nullptr});
    t.push_back({"cast", reference::cast, fast::cast});
    t.push_back({"quantize", reference::quantize, fast::quantize});
    t.push_back({"dequantize", reference::dequantize, fast::dequantize});
    t.push_back({"quantize.mx", reference::quantize_blocks, nullptr});
    t.push_back({"dequantize.mx", reference::dequantize_blocks, nullptr});
    t.push_back({"requant", reference::requant, fast::requant});
    return t;
}

}  // namespace

const std::vector<Arithmetic>& arithmetic_table() {
    static const Table table = make_table();
    return table;
}

}  // namespace kpu::values
