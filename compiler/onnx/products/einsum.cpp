// Einsum: diagonals and sums first, then two operands after the other become one: a product of matrices per common index.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"

namespace kpu::onnx {
namespace {

/// A tensor with a letter for each dimension.
struct Named {
    ValueId value;
    std::string letters;
};

bool holds(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

/// Spells "...ij" with capital letters for the dimensions that the dots stand for, aligned at the last.
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

/// Sums over the dimensions that are in no other term.
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

/// Multiplies [common, rows, summed] by [common, summed, columns].
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

/// Returns the terms of the equation, and that of the result: what is told, or all that occur once, in order.
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

/// Returns each letter once: of an index that occurs twice, the elements where both are equal.
Named diagonal(Call& call, Named x) {
    for (size_t d = 0; d < x.letters.size();) {
        const char letter = x.letters[d];
        const size_t twin = x.letters.find(letter, d + 1);
        if (twin == std::string::npos) {
            ++d;
            continue;
        }
        Sizes perm, shape;
        const Sizes sizes = call.sizes(x.value);
        std::string kept;
        for (size_t i = 0; i < sizes.size(); ++i) {
            if (i == d || i == twin) continue;
            perm.push_back(static_cast<int64_t>(i));
            shape.push_back(sizes[i]);
            kept += x.letters[i];
        }
        perm.push_back(static_cast<int64_t>(d));
        perm.push_back(static_cast<int64_t>(twin));
        const int64_t size = sizes[d];
        shape.push_back(size * size);
        const ValueId flat = call.reshape(call.transpose(x.value, perm), shape);
        x = {call.slice(flat, static_cast<int64_t>(kept.size()), 0, size * size, size + 1), kept + letter};
        d = 0;
    }
    return x;
}

/// Removes dimensions of 1 that other operands have larger.
Named narrowed(Call& call, const Named& x, const SizeOf& sizes) {
    const Sizes shape = call.sizes(x.value);
    Named result{x.value, ""};
    Sizes kept;
    for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] != sizes.at(x.letters[d])) continue;
        kept.push_back(shape[d]);
        result.letters += x.letters[d];
    }
    result.value = call.reshape(x.value, kept);
    return result;
}

/// Letters of both, each once.
std::string united(const std::string& a, const std::string& b) {
    std::string result = a;
    for (const char letter : b) {
        if (!holds(result, letter)) result += letter;
    }
    return result;
}

/// Returns the result, and all operands but these.
std::string needed_beside(const std::vector<Named>& operands, size_t a, size_t b, const std::string& result) {
    std::string needed = result;
    for (size_t i = 0; i < operands.size(); ++i) {
        if (i != a && i != b) needed += operands[i].letters;
    }
    return needed;
}

/// Returns the two operands whose product costs least, those before others whose product has dimensions that
/// can be. Of many operands only the first are compared: the time would grow with the third power of their
/// number.
std::pair<size_t, size_t> cheapest(const std::vector<Named>& operands, const std::string& result,
                                   const SizeOf& sizes) {
    constexpr size_t most_compared = 32;
    std::map<char, size_t> uses;  // by letter: operands that have it
    for (const Named& operand : operands) {
        for (const char letter : operand.letters) ++uses[letter];
    }
    const size_t compared = std::min(operands.size(), most_compared);
    std::pair<size_t, size_t> best{0, 1};
    std::pair<bool, double> best_cost{true, std::numeric_limits<double>::infinity()};
    for (size_t a = 0; a < compared; ++a) {
        for (size_t b = a + 1; b < compared; ++b) {
            const std::string &of_a = operands[a].letters, &of_b = operands[b].letters;
            double cost = 1;
            int dimensions = 0;
            for (const char letter : united(of_a, of_b)) {
                cost *= static_cast<double>(sizes.at(letter));
                const size_t here = (holds(of_a, letter) ? 1 : 0) + (holds(of_b, letter) ? 1 : 0);
                dimensions += holds(result, letter) || uses[letter] > here ? 1 : 0;
            }
            const std::pair<bool, double> its{dimensions > max_rank, cost};
            if (its < best_cost) {
                best_cost = its;
                best = {a, b};
            }
        }
    }
    return best;
}

/// Takes the two out, and puts their product in.
void contract(Call& call, std::vector<Named>& operands, const std::string& result, const SizeOf& sizes) {
    const auto [first, second] = cheapest(operands, result, sizes);
    const std::string needed = needed_beside(operands, first, second, result);
    const Named a = reduced(call, operands[first], operands[second].letters + needed);
    const Named b = reduced(call, operands[second], operands[first].letters + needed);
    operands[first] = multiplied(call, a, b, needed, sizes);
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(second));
}

void einsum(Call& call) {
    const std::vector<std::string> terms = terms_of(call);
    if (terms.size() != call.inputs() + 1 || call.inputs() == 0)
        Call::refuse(fmt::format("its equation has {} operands, not {}", terms.size() - 1, call.inputs()));
    SizeOf sizes;
    std::vector<Named> operands;
    size_t dots = 0;
    for (size_t i = 0; i < call.inputs(); ++i) {
        const std::string letters = spelled(terms[i], call.shape(i).size());
        if (letters.size() != call.shape(i).size() || holds(letters, '.'))
            Call::refuse(fmt::format("`{}` does not fit to {}", terms[i], text_of(call.shape(i))));
        SizeOf own;
        for (size_t d = 0; d < letters.size(); ++d) {
            const int64_t size = call.shape(i)[d];
            int64_t& common = sizes.emplace(letters[d], size).first->second;
            if (common == 1) common = size;
            if ((size != 1 && size != common) || own.emplace(letters[d], size).first->second != size)
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
    for (Named& operand : operands) operand = narrowed(call, diagonal(call, operand), sizes);
    while (operands.size() > 1) contract(call, operands, result, sizes);
    call.result(ordered(call, reduced(call, operands[0], result), result).value);
}

}  // namespace

void add_einsum(Operators& t) { t.push_back({"Einsum", einsum, 12}); }

}  // namespace kpu::onnx
