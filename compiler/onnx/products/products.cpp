// Matrix products. The opcode gemm takes equal ranks and leading dimensions, A [.., M, K] and B [.., K, N].
#include "compiler/onnx/products/products.hpp"

#include <fmt/format.h>

#include <cmath>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {

ValueId gemm(Call& call, ValueId a, ValueId b, std::optional<ValueId> c) {
    std::vector<ValueId> operands{a, b};
    if (c && call.sizes(a).back() == 0) return call.binary("add", gemm(call, a, b, std::nullopt), *c);
    if (c) operands.push_back(*c);
    const ElemType elem = call.elem(a);
    if (!is_float(elem)) Call::refuse(fmt::format("products of {} are not taken", kpu::name_of(elem)));
    return call.emit("gemm", std::move(operands), {graph::type("accum_type", ElemType::f32)});
}

MatmulOperands matmul_operands(Call& call, ValueId a, ValueId b) {
    MatmulOperands result{a, b, {}};
    Sizes of_a = call.sizes(a), of_b = call.sizes(b);
    if (of_a.empty() || of_b.empty()) Call::refuse("operands of a product need dimensions");
    const bool row = of_a.size() == 1, column = of_b.size() == 1;
    if (row) of_a.insert(of_a.begin(), 1);
    if (column) of_b.push_back(1);
    if (of_a.back() != of_b[of_b.size() - 2])
        Call::refuse(
            fmt::format("operands {} and {} do not fit", text_of(call.sizes(a)), text_of(call.sizes(b))));
    const Sizes lead_a(of_a.begin(), of_a.end() - 2), lead_b(of_b.begin(), of_b.end() - 2);
    result.shape = broadcast_of(lead_a, lead_b);
    if (!row) result.shape.push_back(of_a[of_a.size() - 2]);
    if (!column) result.shape.push_back(of_b.back());
    if (lead_b.empty() || elements_of(lead_b) == 1) {
        // rows of all batches are rows of one product
        const int64_t rows = elements_of({of_a.begin(), of_a.end() - 1});
        if (elements_of(broadcast_of(lead_a, lead_b)) * of_a[of_a.size() - 2] == rows) {
            result.a = call.reshape(a, {rows, of_a.back()});
            result.b = call.reshape(b, {of_b[of_b.size() - 2], of_b.back()});
            return result;
        }
    }
    const Sizes lead = broadcast_of(lead_a, lead_b);
    Sizes full_a = lead, full_b = lead;
    full_a.insert(full_a.end(), of_a.end() - 2, of_a.end());
    full_b.insert(full_b.end(), of_b.end() - 2, of_b.end());
    result.a = call.expand(call.reshape(a, of_a), full_a);
    result.b = call.expand(call.reshape(b, of_b), full_b);
    return result;
}

ValueId matmul(Call& call, ValueId a, ValueId b) {
    const MatmulOperands operands = matmul_operands(call, a, b);
    return call.reshape(gemm(call, operands.a, operands.b), operands.shape);
}

namespace {

void import_matmul(Call& call) { call.result(matmul(call, call.value(0), call.value(1))); }

void import_gemm(Call& call) {
    ValueId a = call.value(0), b = call.value(1);
    if (call.rank(0) != 2 || call.rank(1) != 2) Call::refuse("its operands are not matrices");
    if (call.integer("transA", 0) != 0) a = call.transpose(a, {1, 0});
    if (call.integer("transB", 0) != 0) b = call.transpose(b, {1, 0});
    const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
    std::optional<ValueId> c;
    if (call.has(2) && beta != 0) {
        c = call.value(2);
        if (call.rank(2) == 0) c = call.reshape(*c, {1});
        if (beta != 1) c = call.binary("mul", *c, beta);
    }
    if (alpha == 1) return call.result(gemm(call, a, b, c));
    ValueId product = call.binary("mul", gemm(call, a, b), alpha);
    if (c) product = call.binary("add", product, *c);
    call.result(product);
}

}  // namespace

void add_products(Operators& t) {
    t.push_back({"Gemm", import_gemm});
    t.push_back({"MatMul", import_matmul});
}

}  // namespace kpu::onnx
