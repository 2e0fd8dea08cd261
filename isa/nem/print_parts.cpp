#include "isa/nem/print_parts.hpp"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>

#include "base/diagnostics.hpp"
#include "base/types.hpp"

namespace kpu::nem {
namespace {

using proto::ExprToken;

/// A printed part of an expression and how tightly it binds: 1 sum, 2 product, 3 sign, 4 primary.
struct Part {
    std::string text;
    int binding;
};

std::string within(const Part& part, int least) {
    return part.binding < least ? "(" + part.text + ")" : part.text;
}

std::string_view operator_text(ExprToken::Kind kind) {
    switch (kind) {
        case ExprToken::ADD:
            return "+";
        case ExprToken::SUB:
            return "-";
        case ExprToken::MUL:
            return "*";
        case ExprToken::DIV:
            return "/";
        default:
            return "mod";
    }
}

std::string leaf_text(const ExprToken& token, const Names& names) {
    const int64_t v = token.value();
    switch (token.kind()) {
        case ExprToken::CONST:
            return names.program->constant(static_cast<int>(v)).name();
        case ExprToken::PARAM:
            return names.program->param(static_cast<int>(v)).name();
        case ExprToken::LOOP:
            if (v >= static_cast<int64_t>(names.loops.size())) throw NotExpressible{};
            return std::string(names.loops[static_cast<size_t>(v)]);
        default:
            return fmt::format("{}", v);
    }
}

template <typename List, typename Text>
std::string joined(const List& list, Text&& text) {
    std::string result;
    for (const auto& item : list) {
        if (!result.empty()) result += ", ";
        result += text(item);
    }
    return result;
}

constexpr size_t wide = 100;  ///< columns after which a line is broken

}  // namespace

std::string expr_text(const proto::Expr& expr, const Names& names) {
    std::vector<Part> stack;
    for (const ExprToken& token : expr.token()) {
        switch (token.kind()) {
            case ExprToken::INT:
            case ExprToken::CONST:
            case ExprToken::PARAM:
            case ExprToken::LOOP:
                // the sign of a negative literal belongs to it, so it stands wherever a signed operand may
                stack.push_back(
                    {leaf_text(token, names), token.kind() == ExprToken::INT && token.value() < 0 ? 3 : 4});
                break;
            case ExprToken::NEG: {
                if (stack.empty()) throw NotExpressible{};
                Part& operand = stack.back();
                const bool digits = operand.text[0] >= '0' && operand.text[0] <= '9';
                operand = {"-" + within(operand, digits ? 5 : 3), 3};
                break;
            }
            default: {
                if (stack.size() < 2) throw NotExpressible{};
                const Part right = std::move(stack.back());
                stack.pop_back();
                const int binding = token.kind() == ExprToken::ADD || token.kind() == ExprToken::SUB ? 1 : 2;
                stack.back() = {fmt::format("{} {} {}", within(stack.back(), binding),
                                            operator_text(token.kind()), within(right, binding + 1)),
                                binding};
            }
        }
    }
    if (stack.size() != 1) throw NotExpressible{};
    return std::move(stack.back().text);
}

std::string real_text(double value) {
    if (!std::isfinite(value)) throw NotExpressible{};
    std::string text = fmt::format("{}", value);
    const size_t exponent = std::min(text.find('e'), text.size());
    if (text.find('.') >= exponent) text.insert(exponent, ".0");
    return text;
}

std::string string_text(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '\0') throw NotExpressible{};
        if (c == '"' || c == '\\') result += '\\';
        if (c == '\n') {
            result += "\\n";
        } else if (c == '\t') {
            result += "\\t";
        } else {
            result += c;
        }
    }
    return result + '"';
}

std::string value_text(const proto::Value& value, const Names& names) {
    switch (value.kind_case()) {
        case proto::Value::kExpr:
            return expr_text(value.expr(), names);
        case proto::Value::kReal:
            return real_text(value.real());
        case proto::Value::kText:
            return string_text(value.text());
        case proto::Value::kWord:
            return value.word();
        case proto::Value::kList:
            return "[" +
                   joined(value.list().item(), [&](const proto::Value& v) { return value_text(v, names); }) +
                   "]";
        default:
            throw NotExpressible{};
    }
}

std::string decorators_text(const google::protobuf::RepeatedPtrField<proto::Decorator>& decorators,
                            const Names& names) {
    std::string text;
    for (const proto::Decorator& decorator : decorators) {
        text += " @" + decorator.name();
        if (!decorator.unit().empty()) {
            text += fmt::format("({}[{}])", decorator.unit(), expr_text(decorator.index(), names));
        } else if (decorator.arg_size() > 0) {
            text += "(" +
                    joined(decorator.arg(), [&](const proto::Value& v) { return value_text(v, names); }) +
                    ")";
        }
    }
    return text;
}

std::string quant_text(const proto::Quant& quant) {
    const std::string scales = joined(quant.scale(), real_text);
    const std::string zero_points =
        joined(quant.zero_point(), [](int64_t v) { return fmt::format("{}", v); });
    switch (quant.kind()) {
        case proto::Quant::PER_TENSOR:
            return fmt::format("per_tensor(scale={}, zero_point={})", scales, zero_points);
        case proto::Quant::PER_CHANNEL:
            return fmt::format("per_channel(axis={}, scales=[{}], zero_points=[{}])", quant.axis(), scales,
                               zero_points);
        case proto::Quant::PER_GROUP:
            return fmt::format("per_group(axis={}, group_size={}, scales=[{}], zero_points=[{}])",
                               quant.axis(), quant.group_size(), scales, zero_points);
        default:
            throw NotExpressible{};
    }
}

std::string region_text(const proto::Region& region, const Names& names, const std::string* indent) {
    const auto list = [&](const auto& exprs) {
        return "[" + joined(exprs, [&](const proto::Expr& e) { return expr_text(e, names); }) + "]";
    };
    std::string text =
        fmt::format("region({}, {}, {})", names.program->buffer(static_cast<int>(region.buffer())).name(),
                    expr_text(region.offset(), names), expr_text(region.extent(), names));
    if (region.elem() == proto::ELEM_NONE) return text;
    const auto append = [&](const std::string& part) {
        const bool breaks = indent != nullptr && text.size() - (text.rfind('\n') + 1) + part.size() > wide;
        text += (breaks ? "\n" + *indent + "    " : " ") + part;
    };
    const bool mapped_by_strides = region.layout().empty();
    append(fmt::format("elem={}, shape={}, {}{}", name_of(static_cast<ElemType>(region.elem())),
                       list(region.shape()), mapped_by_strides ? "strides=" : "layout=",
                       mapped_by_strides ? list(region.stride()) : region.layout()));
    if (region.has_quant()) {
        text += ',';
        append("quant=" + quant_text(region.quant()));
    }
    return text;
}

namespace {

/// Restores negative zeros: protobuf writes the number -0 so that it reads it back as the integer 0.
std::string with_negative_zeros(const std::string& json) {
    std::string text;
    bool quoted = false;
    for (size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        text += c;
        if (quoted && c == '\\') {
            text += json[++i];
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && c == '-' && json[i + 1] == '0' && json.find_first_of(",]}", i) == i + 2) {
            text += "0.0";
            ++i;
        }
    }
    return text;
}

}  // namespace

std::string json_text(const google::protobuf::Message& message) {
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    std::string text;
    const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
    if (!status.ok()) throw InternalError("a program has no JSON form: " + status.ToString());
    return with_negative_zeros(text);
}

}  // namespace kpu::nem
