// Einsum of one or two operands: sums and diagonals first, then a product of matrices per common index.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products.hpp"

namespace kpu::onnx {
namespace {

/// A tensor with a letter for each dimension.
struct Named {
    ValueId value;
    std::string letters;
};

bool holds(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

/// "...ij" with capital letters for the dimensions that the dots stand for, aligned at the last.
std::string spelled(const std::string& term, size_t rank) {
    const size_t dots = term.find("...");
    if (dots == std::string::npos) return term;
    const size_t written = term.size() - 3;
    if (written > rank) Call::refuse(fmt::format("`{}` has more dimensions than its operand", term));
    std::string covered;
    for (size_t i = rank - written; i > 0; --i)
        covered += static_cast<char>('0' + i);  // no letter of the equation
    return term.substr(0, dots) + covered + term.substr(dots + 3);
}

/// Without the dimensions that are in no other term: they are summed.
Named reduced(Call& call, const Named& x, const std::string& needed) {
    Sizes axes;
    std::string kept;
    for (size_t d = 0; d < x.letters.size(); ++d) {
        if (holds(needed, x.letters[d])) {
            kept += x.letters[d];
        } else {
            axes.push_back(static_cast<int64_t>(d));
        }
    }
    return {call.reduce("reduce_sum", x.value, axes, false), kept};
}

Named ordered(Call& call, const Named& x, const std::string& letters) {
    Sizes perm;
    for (const char letter : letters) perm.push_back(static_cast<int64_t>(x.letters.find(letter)));
    return {call.transpose(x.value, perm), letters};
}

using SizeOf = std::map<char, int64_t>;

int64_t product_of(const std::string& letters, const SizeOf& sizes) {
    int64_t result = 1;
    for (const char letter : letters) result *= sizes.at(letter);
    return result;
}

/// [common, rows, summed] times [common, summed, columns].
Named multiplied(Call& call, const Named& a, const Named& b, const std::string& result, const SizeOf& sizes) {
    std::string common, rows, columns, summed;
    for (const char letter : a.letters) {
        if (!holds(b.letters, letter)) rows += letter;
        if (holds(b.letters, letter)) (holds(result, letter) ? common : summed) += letter;
    }
    for (const char letter : b.letters) {
        if (!holds(a.letters, letter)) columns += letter;
    }
    const int64_t n = product_of(common, sizes), m = product_of(rows, sizes), k = product_of(summed, sizes),
                  p = product_of(columns, sizes);
    const ValueId left = call.reshape(ordered(call, a, common + rows + summed).value, {n, m, k});
    const ValueId right = call.reshape(ordered(call, b, common + summed + columns).value, {n, k, p});
    const ValueId product = k == 1 ? call.binary("mul", left, right) : matmul(call, left, right);
    const std::string letters = common + rows + columns;
    Sizes shape;
    for (const char letter : letters) shape.push_back(sizes.at(letter));
    return {call.reshape(product, shape), letters};
}

/// The terms of the equation, and that of the result: what is told, or all that occur once, in order.
std::vector<std::string> terms_of(const Call& call) {
    std::string equation = call.text("equation", "");
    equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
    const size_t arrow = equation.find("->");
    const std::string left = equation.substr(0, arrow);
    std::vector<std::string> terms;
    for (size_t start = 0; start <= left.size();) {
        const size_t end = std::min(left.find(',', start), left.size());
        terms.push_back(left.substr(start, end - start));
        start = end + 1;
    }
    if (arrow != std::string::npos) {
        terms.push_back(equation.substr(arrow + 2));
        return terms;
    }
    std::string once;
    for (char letter = 'A'; letter <= 'z'; ++letter) {
        if (std::count(left.begin(), left.end(), letter) == 1) once += letter;
    }
    terms.push_back((holds(left, '.') ? "..." : "") + once);
    return terms;
}

void einsum(Call& call) {
    std::vector<std::string> terms = terms_of(call);
    if (terms.size() != call.inputs() + 1 || call.inputs() > 2 || call.inputs() == 0)
        Call::refuse("equations of other than one or two operands are not taken");
    SizeOf sizes;
    std::vector<Named> operands;
    size_t dots = 0;
    for (size_t i = 0; i < call.inputs(); ++i) {
        const std::string letters = spelled(terms[i], call.shape(i).size());
        if (letters.size() != call.shape(i).size() || holds(letters, '.'))
            Call::refuse(fmt::format("`{}` does not fit to {}", terms[i], text_of(call.shape(i))));
        for (size_t d = 0; d < letters.size(); ++d) {
            if (std::count(letters.begin(), letters.end(), letters[d]) != 1)
                Call::refuse("diagonals are not taken");
            const auto [at, added] = sizes.emplace(letters[d], call.shape(i)[d]);
            if (!added && at->second != call.shape(i)[d])
                Call::refuse(fmt::format("the sizes of index {} differ", letters[d]));
        }
        if (holds(terms[i], '.')) dots = std::max(dots, letters.size() + 3 - terms[i].size());
        operands.push_back({call.value(i), letters});
    }
    const bool dotted = holds(terms.back(), '.');
    const std::string result = dotted ? spelled(terms.back(), terms.back().size() - 3 + dots) : terms.back();
    for (const char letter : result) {
        if (sizes.count(letter) == 0 || std::count(result.begin(), result.end(), letter) != 1)
            Call::refuse(fmt::format("index {} of the result is in no operand, or twice", letter));
    }
    Named y = operands[0];
    if (operands.size() == 2) {
        const Named a = reduced(call, operands[0], operands[1].letters + result);
        const Named b = reduced(call, operands[1], operands[0].letters + result);
        y = multiplied(call, a, b, result, sizes);
    }
    call.result(ordered(call, reduced(call, y, result), result).value);
}

}  // namespace

void add_einsum(Operators& t) { t.push_back({"Einsum", einsum, 12}); }

}  // namespace kpu::onnx
