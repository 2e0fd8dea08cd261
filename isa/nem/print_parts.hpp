#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "isa/kpu_program.pb.h"

namespace kpu::nem {

/// Thrown when text has no way to say something: the printer then writes the whole program as one metadata
/// line.
struct NotExpressible {};

/// Names that an expression may refer to.
struct Names {
    const proto::KPUProgram* program = nullptr;
    std::vector<std::string_view> loops;  ///< variables of the open loops, outermost first
};

/// Returns infix text with the fewest parentheses that give the same postfix order.
std::string expr_text(const proto::Expr& expr, const Names& names);
/// Returns the shortest text that reads back to the same binary64 value, in the FLOAT syntax of the language.
std::string real_text(double value);
std::string string_text(std::string_view text);
std::string value_text(const proto::Value& value, const Names& names);
/// Returns " @name(...)" per decorator; empty when there are none.
std::string decorators_text(const google::protobuf::RepeatedPtrField<proto::Decorator>& decorators,
                            const Names& names);
std::string quant_text(const proto::Quant& quant);
/// Returns `region(...)` and its attributes. `indent`: of the line it stands on, which may be broken; null:
/// one line.
std::string region_text(const proto::Region& region, const Names& names, const std::string* indent);
/// Returns a message as protobuf JSON on one line.
std::string json_text(const google::protobuf::Message& message);

}  // namespace kpu::nem
