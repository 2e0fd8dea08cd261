// cond, scan, while and run_scoped.
#include <algorithm>

#include "base/diagnostics.hpp"
#include "compiler/pallas/body.hpp"

namespace kpu::compiler::pallas {
namespace {

Shape first_axes(size_t count) {
    Shape axes;
    for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(i));
    return axes;
}

}  // namespace

bool Body::control(const Equation& e) {
    const auto need = [&](size_t blocks) {
        if (e.blocks.size() < blocks) refuse(e, "a block is missing. Fix: export it again.");
    };
    if (e.op == "cond") {
        need(1);
        for (size_t i = 0; i < e.out.size(); ++i) name_variable(e.out[i], declared(out_type(e, i)));
        cond(e, 0, index(operand(e, 0)));
    } else if (e.op == "scan") {
        need(1);
        scan(e);
    } else if (e.op == "while") {
        need(2);
        while_loop(e);
    } else if (e.op == "run_scoped") {
        need(1);
        run_scoped(e);
    } else {
        return false;
    }
    return true;
}

/// Returns a variable that gets its value later; making it costs nothing but the statement.
std::string Body::declared(const VariableType& type) {
    const std::string zero = literal(type.type, 0);
    return out_.let(type.shape.empty() ? zero
                                       : fmt::format("broadcast_to{{{}}}({})", join(type.shape), zero));
}

/// Assigns all at once: a value may be the old one of another name.
void Body::assign_all(const std::vector<std::string>& names, const std::vector<Atom>& values) {
    std::vector<std::string> texts;
    for (const Atom& value : values) texts.push_back(text(value));
    for (size_t i = 0; i < names.size(); ++i)
        if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), texts[i]) !=
            names.begin() + static_cast<std::ptrdiff_t>(i))
            texts[i] = out_.let(texts[i]);
    for (size_t i = 0; i < names.size(); ++i)
        if (texts[i] != names[i]) out_.line("{} = {}", names[i], texts[i]);
}

/// Assigns where each of the first dimensions' elements says whether it goes on.
void Body::assign_rows(const Equation& e, const std::vector<std::string>& names,
                       const std::vector<Atom>& values, const Shape& rows, const std::string& going) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < names.size(); ++i) {
        const Shape& shape = type_of(values[i]).shape;
        if (shape.size() < rows.size() || !std::equal(rows.begin(), rows.end(), shape.begin()))
            refuse(e, "its condition has a shape that its carries do not have. Fix: export it again.");
        const std::string all =
            shape.size() == rows.size()
                ? going
                : fmt::format("broadcast_to{}({})", braces(strung({shape, first_axes(rows.size())})), going);
        texts.push_back(out_.let(fmt::format("select({}, {}, {})", all, text(values[i]), names[i])));
    }
    for (size_t i = 0; i < names.size(); ++i) out_.line("{} = {}", names[i], texts[i]);
}

void Body::cond(const Equation& e, size_t branch, const std::string& which) {
    const Block& block = e.blocks[branch];
    if (block.results.size() != e.out.size())
        refuse(e, "a branch has another number of results. Fix: export it again.");
    const bool last = branch + 1 == e.blocks.size();
    if (!last) out_.line("if {} <= {}:", which, index_text(static_cast<int64_t>(branch)));
    equations(block);
    std::vector<std::string> names;
    for (const int variable : e.out) names.push_back(name_of(variable));
    for (size_t i = 0; i < names.size(); ++i) out_.line("{} = {}", names[i], text(block.results[i]));
    if (last) return;
    out_.close("else:");
    cond(e, branch + 1, which);
    out_.close("endif");
}

void Body::scan(const Equation& e) {
    const Block& body = e.blocks[0];
    const auto carries = static_cast<size_t>(std::max<int64_t>(e.number("carries"), 0));
    const int64_t length = e.number("length");
    if (carries > e.in.size() || body.inputs.size() != e.in.size() || body.results.size() != e.out.size() ||
        carries > e.out.size())
        refuse(e, "its carries do not fit its body. Fix: export it again.");
    std::vector<std::string> names, stacks;
    for (size_t i = 0; i < carries; ++i) {
        names.push_back(out_.let(in(e, i)));
        name_variable(body.inputs[i], names.back());
    }
    for (size_t i = carries; i < e.out.size(); ++i) stacks.push_back(declared(out_type(e, i)));
    const std::string counter = out_.fresh("i");
    out_.line("loop {} in 0i32..{}:", counter, index_text(length));
    std::string trip = counter;
    if (e.flag("reverse") && e.in.size() + e.out.size() > 2 * carries)
        trip = out_.let(fmt::format("{} - {}", index_text(length - 1), counter));
    const auto starts = [&](const Shape& part) {
        std::string text = trip;
        for (size_t d = 0; d < part.size(); ++d) text += ", 0i32";
        return text;
    };
    for (size_t i = carries; i < e.in.size(); ++i) {
        const Shape part = call_.type_of(body.inputs[i]).shape;
        name_variable(body.inputs[i],
                      out_.let(fmt::format("reshape{}(dynamic_slice{{{}}}({}, {}))", braces(part),
                                           part.empty() ? "1" : "1, " + join(part), in(e, i), starts(part))));
    }
    equations(body);
    for (size_t i = 0; i < stacks.size(); ++i) {
        Shape part = out_type(e, carries + i).shape;
        if (part.empty()) refuse(e, "a stacked result without dimensions. Fix: export it again.");
        part[0] = 1;
        const std::string one = fmt::format("reshape{{{}}}({})", join(part), text(body.results[carries + i]));
        part.erase(part.begin());
        out_.line("{} = dynamic_update({}, {}, {})", stacks[i], stacks[i], one, starts(part));
    }
    assign_all(names, {body.results.begin(), body.results.begin() + static_cast<std::ptrdiff_t>(carries)});
    out_.close("endloop");
    for (size_t i = 0; i < e.out.size(); ++i)
        name_variable(e.out[i], i < carries ? names[i] : stacks[i - carries]);
}

void Body::while_loop(const Equation& e) {
    const Block &condition = e.blocks[0], &body = e.blocks[1];
    if (condition.inputs.size() != e.in.size() || body.inputs.size() != e.in.size() ||
        body.results.size() != e.in.size() || e.out.size() != e.in.size() || condition.results.size() != 1)
        refuse(e, "its carries do not fit its blocks. Fix: export it again.");
    std::vector<std::string> names;
    for (size_t i = 0; i < e.in.size(); ++i) {
        names.push_back(out_.let(in(e, i)));
        name_variable(condition.inputs[i], names[i]);
        name_variable(body.inputs[i], names[i]);
    }
    const Atom& predicate = condition.results[0];
    const Shape rows = type_of(predicate).shape;  // what vmap makes of a loop: each row ends by itself
    const std::string going = out_.let("true");
    out_.line("while {}:", going);
    equations(condition);
    std::string each;
    if (rows.empty()) {
        out_.line("{} = {}", going, text(predicate));
    } else {
        each = out_.let(text(predicate));
        out_.line("{} = reduce_or{}({})", going, braces(first_axes(rows.size())), each);
    }
    out_.line("if {}:", going);
    equations(body);
    if (rows.empty())
        assign_all(names, body.results);
    else
        assign_rows(e, names, body.results, rows, each);
    out_.close("endif");
    out_.close("endwhile");
    for (size_t i = 0; i < e.out.size(); ++i) name_variable(e.out[i], names[i]);
}

void Body::run_scoped(const Equation& e) {
    const Block& body = e.blocks[0];
    if (body.results.size() != e.out.size())
        refuse(e, "its results do not fit its block. Fix: export it again.");
    for (const int variable : body.inputs) {
        const VariableType& type = call_.type_of(variable);
        if (type.in_ddr())
            refuse(e,
                   "memory of HBM made within a kernel. Fix: take it as scratch of VMEM, or as an output.");
        refs_[variable] = scratch(type, "scoped");
        if (!type.is_semaphore)  // also when it comes here again
            out_.line("forget({}, window{{{}}}())", refs_[variable].buffer, kernel::elements_of(type.shape));
    }
    equations(body);
    for (size_t i = 0; i < e.out.size(); ++i) name_variable(e.out[i], text(body.results[i]));
}

}  // namespace kpu::compiler::pallas
