// Regions, operands, values, decorators and expressions of a program.
#include <fmt/format.h>

#include <limits>

#include "isa/bound_program.hpp"
#include "isa/nem/program_reader.hpp"

namespace kpu::nem {
namespace {

using Kind = Symbol::Kind;

constexpr int max_list = 1 << 20;  ///< limit of lists of the program form

/// Bound on what lets may copy into expressions: a small text must not make a huge program.
constexpr size_t max_substituted = size_t{1} << 22;

bool is_operator(const Token& token) {
    return token.is('+') || token.is('-') || token.is('*') || token.is('/') || token.is(Word::mod);
}

bool is_number(Kind kind) {
    return kind == Kind::constant || kind == Kind::param || kind == Kind::loop || kind == Kind::value;
}

}  // namespace

// ---- expressions

void ProgramReader::append_name(const Token& name, ExprCode& code) {
    using proto::ExprToken;
    const Symbol* symbol = symbols_.find(name.text);
    if (symbol != nullptr && symbol->kind == Kind::poisoned) throw SyntaxError{};
    if (in_const_ && (symbol == nullptr || (symbol->kind != Kind::constant && symbol->kind != Kind::buffer)))
        fail(name, fmt::format("forward reference to undeclared constant {}{}", name.text,
                               symbols_.suggestion(name.text, {Kind::constant})));
    if (symbol == nullptr)
        fail(name, fmt::format("unknown name `{}` in an expression{}", name.text,
                               symbols_.suggestion(name.text,
                                                   {Kind::constant, Kind::param, Kind::loop, Kind::value})));
    switch (symbol->kind) {
        case Kind::constant:
            code.push_back({ExprToken::CONST, false, symbol->index});
            return;
        case Kind::param:
            code.push_back({ExprToken::PARAM, false, symbol->index});
            return;
        case Kind::loop:
            code.push_back({ExprToken::LOOP, false, symbol->index});
            return;
        case Kind::value: {
            const std::vector<ExprItem>& value = lets_[symbol->index].code;
            if (value.empty())
                fail(name, fmt::format("`{}` is not a number. Fix: use it as an attribute only", name.text));
            substituted_ += value.size();
            if (substituted_ > max_substituted)
                fail(name, "the lets of this program expand to too many terms. Fix: use constants");
            code.insert(code.end(), value.begin(), value.end());
            return;
        }
        default:
            fail(name, fmt::format(
                           "`{}` is a {}, not a number. Fix: use a const, a param, a let or a loop variable",
                           name.text, name_of(symbol->kind)));
    }
}

void ProgramReader::store(const ExprCode& code, proto::Expr& expr) {
    expr.mutable_token()->Reserve(static_cast<int>(code.size()));
    for (const ExprItem& item : code) {
        proto::ExprToken& token = *expr.add_token();
        token.set_kind(item.kind);
        token.set_value(item.value);
    }
}

void ProgramReader::read_expr(proto::Expr& expr, std::string_view what) {
    store(parse_integer_expr(what), expr);
}

// ---- regions

uint32_t ProgramReader::read_region(const std::string& name) {
    const Token start = next();
    auto& region = make<proto::Region>();
    region.set_name(name);
    expect('(', "after region");
    const Token buffer = expect_identifier("a buffer name");
    const Symbol* symbol = symbols_.find(buffer.text);
    if (symbol == nullptr)
        fail(buffer, fmt::format("unknown buffer `{}`{}", buffer.text,
                                 symbols_.suggestion(buffer.text, {Kind::buffer})));
    if (symbol->kind == Kind::poisoned) throw SyntaxError{};
    if (symbol->kind != Kind::buffer)
        fail(buffer, fmt::format("`{}` is a {}, not a buffer{}", buffer.text, name_of(symbol->kind),
                                 symbols_.suggestion(buffer.text, {Kind::buffer})));
    region.set_buffer(symbol->index);
    expect(',', "after the buffer");
    read_expr(*region.mutable_offset(), "region offsets");
    expect(',', "after the offset");
    read_expr(*region.mutable_extent(), "region extents");
    expect(')', "after the extent");
    if (region_attribute_follows(0)) read_region_attributes(region);
    const auto index = static_cast<uint32_t>(program_.region_size());
    program_.mutable_region()->UnsafeArenaAddAllocated(&region);
    module_.source.regions.push_back(place_of(start));
    return index;
}

bool ProgramReader::region_attribute_follows(unsigned ahead) {
    if (!peek(ahead + 1).is('=')) return false;
    for (const std::string_view name : {"elem", "shape", "layout", "strides", "quant"})
        if (peek(ahead).is_name(name)) return !peek(ahead + 2).is(Word::region) && !peek(ahead + 3).is('.');
    return false;
}

void ProgramReader::read_region_attributes(proto::Region& region) {
    const Token start = peek();
    for (;;) {
        const Token key = next();
        next();
        const bool second = key.text == "elem"      ? region.elem() != proto::ELEM_NONE
                            : key.text == "shape"   ? region.shape_size() > 0
                            : key.text == "layout"  ? !region.layout().empty()
                            : key.text == "strides" ? region.stride_size() > 0
                                                    : region.has_quant();
        if (second) fail(key, fmt::format("second {} of a region. Fix: remove one", key.text));
        if (key.text == "elem") {
            region.set_elem(static_cast<proto::ElemType>(expect_elem_type()));
        } else if (key.text == "layout") {
            region.set_layout(std::string(expect_word("a layout name").text));
        } else if (key.text == "quant") {
            read_quant(*region.mutable_quant());
        } else {
            const bool is_shape = key.text == "shape";
            expect('[', "before the list");
            do {
                if (is_shape) {
                    read_expr(*region.add_shape(), "shapes");
                } else {
                    read_expr(*region.add_stride(), "strides");
                }
            } while (accept(','));
            expect(']', "after the list");
        }
        if (!peek().is(',') || !region_attribute_follows(1)) break;
        next();
    }
    const bool has_map = !region.layout().empty() || region.stride_size() > 0;
    if (region.elem() == proto::ELEM_NONE || region.shape_size() == 0 || !has_map)
        fail(start,
             fmt::format("a typed region needs elem, shape and layout or strides; {} is missing. Fix: add it",
                         region.elem() == proto::ELEM_NONE ? "elem"
                         : region.shape_size() == 0        ? "shape"
                                                           : "layout or strides"));
    if (region.shape_size() > max_rank)
        fail(start, fmt::format("a shape has at most {} dimensions, this one {}. Fix: merge dimensions",
                                max_rank, region.shape_size()));
    if (region.stride_size() > 0 && region.stride_size() != region.shape_size())
        fail(start, fmt::format("{} strides for {} dimensions. Fix: give one stride each",
                                region.stride_size(), region.shape_size()));
    if (!region.layout().empty() && region.stride_size() > 0)
        fail(start, "a region has either a layout or strides. Fix: remove one");
}

double ProgramReader::read_scale() {
    const Token at = peek();
    const std::optional<double> value = fold_real(parse_expr(), constants_);
    if (!value) fail(at, "scales are numbers or constants. Fix: write the value");
    return *value;
}

int64_t ProgramReader::read_zero_point() {
    const Token at = peek();
    const std::optional<int64_t> value = fold_integer(parse_integer_expr("zero points"), constants_);
    if (!value) fail(at, "zero points are integers or constants. Fix: write the value");
    return *value;
}

int32_t ProgramReader::read_axis() {
    const Token at = peek();
    const int64_t axis = expect_integer("the axis");
    if (axis < std::numeric_limits<int32_t>::min() || axis > std::numeric_limits<int32_t>::max())
        fail(at, "axis out of range. Fix: a dimension of the shape");
    return static_cast<int32_t>(axis);
}

void ProgramReader::read_quant(proto::Quant& quant) {
    const Token kind = peek();
    const auto argument = [&](std::string_view name) {
        expect_name(name, "in the quantization");
        expect('=', "after the argument's name");
    };
    const auto list = [&](auto&& read) {
        expect('[', "before the list");
        do {
            read();
        } while (accept(','));
        expect(']', "after the list");
    };
    const bool per_tensor = kind.is_name("per_tensor"), per_group = kind.is_name("per_group");
    if (!per_tensor && !per_group && !kind.is_name("per_channel"))
        fail_expected("per_tensor, per_channel or per_group");
    next();
    expect('(', "before the quantization's arguments");
    if (per_tensor) {
        quant.set_kind(proto::Quant::PER_TENSOR);
        argument("scale");
        quant.add_scale(read_scale());
        expect(',', "after the scale");
        argument("zero_point");
        quant.add_zero_point(read_zero_point());
    } else {
        quant.set_kind(per_group ? proto::Quant::PER_GROUP : proto::Quant::PER_CHANNEL);
        argument("axis");
        quant.set_axis(read_axis());
        expect(',', "after the axis");
        if (per_group) {
            argument("group_size");
            const Token at = peek();
            const int64_t size = expect_integer("the group size");
            if (size <= 0 || size > std::numeric_limits<uint32_t>::max())
                fail(at, "group_size must be positive. Fix: the number of elements that share a scale");
            quant.set_group_size(static_cast<uint32_t>(size));
            expect(',', "after the group size");
        }
        argument("scales");
        list([&] { quant.add_scale(read_scale()); });
        expect(',', "after the scales");
        argument("zero_points");
        list([&] { quant.add_zero_point(read_zero_point()); });
        if (quant.scale_size() != quant.zero_point_size())
            fail(kind, fmt::format("{} scales but {} zero points. Fix: give one of each per channel or group",
                                   quant.scale_size(), quant.zero_point_size()));
    }
    expect(')', "after the quantization's arguments");
}

void ProgramReader::read_operand(proto::Operand& operand) {
    if (peek().is(Word::region)) {
        operand.set_region(read_region(""));
    } else {
        const Token name = expect_identifier("a region");
        const Symbol* symbol = symbols_.find(name.text);
        if (symbol == nullptr)
            fail(name, fmt::format("unknown region `{}`{}", name.text,
                                   symbols_.suggestion(name.text, {Kind::region})));
        if (symbol->kind == Kind::poisoned) throw SyntaxError{};
        if (symbol->kind == Kind::buffer)
            fail(name,
                 fmt::format(
                     "`{}` is a buffer, not a region. Fix: name the bytes with region({}, OFFSET, EXTENT)",
                     name.text, name.text));
        if (symbol->kind != Kind::region)
            fail(name, fmt::format("`{}` is a {}, not a region{}", name.text, name_of(symbol->kind),
                                   symbols_.suggestion(name.text, {Kind::region})));
        operand.set_region(symbol->index);
    }
    read_decorators(operand);
}

// ---- values

/// True for a name that is the whole value.
bool ProgramReader::at_lone_name() {
    return peek().kind == TokenKind::name && peek().word == Word::none && !is_operator(peek(1));
}

/// Bare words and names of numbers look the same: a visible number wins, unless the attribute takes words.
void ProgramReader::read_value(proto::Value& value, bool word_wanted, bool in_list) {
    const Token token = peek();
    if (token.kind == TokenKind::string) {
        value.set_text(string_value(next()));
    } else if (token.is('[')) {
        if (in_list) fail(token, "lists of lists are not supported. Fix: flatten the list");
        read_list(value, word_wanted);
    } else if (token.is(Word::region)) {
        fail(token, "a region cannot be an attribute. Fix: make it an operand");
    } else if (token.is(Word::elem_type) || token.is(Word::level) || (word_wanted && at_lone_name())) {
        value.set_word(std::string(next().text));
    } else if (at_lone_name()) {
        read_named_value(value);
    } else {
        const ExprCode code = parse_expr();
        if (!has_real(code)) {
            store(code, *value.mutable_expr());
            return;
        }
        const std::optional<double> real = fold_real(code, constants_);
        if (!real) fail(token, "a float expression takes numbers and constants only. Fix: write the value");
        value.set_real(*real);
    }
}

void ProgramReader::read_named_value(proto::Value& value) {
    const Token name = next();
    const Symbol* symbol = symbols_.find(name.text);
    if (symbol == nullptr || !is_number(symbol->kind)) {
        value.set_word(std::string(name.text));
        return;
    }
    if (symbol->kind == Kind::value && lets_[symbol->index].code.empty()) {
        value = lets_[symbol->index].other;
        return;
    }
    ExprCode code;
    append_name(name, code);
    if (has_real(code)) {
        const std::optional<double> real = fold_real(code, constants_);
        if (!real) fail(name, "a float expression takes numbers and constants only. Fix: write the value");
        value.set_real(*real);
    } else {
        store(code, *value.mutable_expr());
    }
}

void ProgramReader::read_list(proto::Value& value, bool word_wanted) {
    next();
    proto::ValueList& list = *value.mutable_list();
    while (!peek().is(']')) {
        if (list.item_size() == max_list) fail(peek(), "list of more than 2^20 values. Fix: shorten it");
        read_value(*list.add_item(), word_wanted, true);
        if (!accept(',')) break;
    }
    expect(']', "after the list");
}

void ProgramReader::read_decorator(proto::Decorator& decorator) {
    next();
    const Token name = expect_word("a decorator name");
    decorator.set_name(std::string(name.text));
    if (!accept('(')) return;
    if (peek().kind == TokenKind::name && peek(1).is('[')) {
        decorator.set_unit(std::string(next().text));
        next();
        read_expr(*decorator.mutable_index(), "unit indices");
        expect(']', "after the unit index");
    } else {
        const bool labels = name.text == "debug" || name.text == "profile";
        do {
            read_value(*decorator.add_arg(), labels, false);
        } while (accept(','));
    }
    expect(')', "after the decorator's arguments");
}

}  // namespace kpu::nem
