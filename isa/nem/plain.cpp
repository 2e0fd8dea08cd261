// Programs whose text is known to read back, so that nobody needs to read it. Each rule leaves out what the printer or
// the reader might take otherwise than it was meant; what is left out may be right all the same.
#include "isa/nem/plain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_set>
#include <vector>

#include "isa/nem/context.hpp"
#include "isa/nem/lexer.hpp"

namespace kpu::nem {
namespace {

using proto::ExprToken;

/// Fewer than the parentheses that the reader takes within each other.
constexpr int most_tokens = 64;

bool is_name(std::string_view text) {
    return is_identifier(text) && text[0] != '_' && classify(text) == Word::none;
}

bool is_plain_number(double value) { return std::isfinite(value) && (value != 0 || !std::signbit(value)); }

bool is_plain_quant(const proto::Quant& quant) {
    const bool grouped = quant.kind() == proto::Quant::PER_GROUP;
    const bool axis = grouped || quant.kind() == proto::Quant::PER_CHANNEL;
    return quant.kind() != proto::Quant::NONE && quant.scale_size() > 0 && (axis || quant.axis() == 0) &&
           grouped == (quant.group_size() > 0) &&
           std::all_of(quant.scale().begin(), quant.scale().end(), is_plain_number);
}

/// `gemm.acc`: what stands before `.async`.
bool is_plain_opcode(std::string_view opcode) {
    for (const std::string_view other : {"transfer", "store", "compute"})
        if (opcode.substr(0, opcode.find('.')) == other) return false;
    for (size_t from = 0; from <= opcode.size();) {
        const size_t end = std::min(opcode.find('.', from), opcode.size());
        const std::string_view part = opcode.substr(from, end - from);
        if (!is_name(part) || part == "async" || part == "sync") return false;
        from = end + 1;
    }
    return true;
}

class PlainCheck {
  public:
    explicit PlainCheck(const proto::KPUProgram& program) : p_(program) {}

    bool run() {
        return is_name(p_.name()) && p_.statement_size() > 0 && p_.kernel_file_size() == 0 &&
               (!p_.has_device() || device()) && parameters() && constants() && buffers() && statements() &&
               regions_ == p_.region_size() && words_are_no_names();
    }

  private:
    bool device() const {
        const proto::DeviceDirective& device = p_.device();
        if (!device.body().empty() || device.include_size() > 0) return false;
        if (!device.name().empty()) return is_name(device.name());
        return !device.path().empty() && std::none_of(device.path().begin(), device.path().end(), [](char c) {
            return c < ' ' || c > '~' || c == '"' || c == '\\';
        });
    }

    /// Declares a name that nothing else in the whole program has.
    bool declare(std::string_view name) { return is_name(name) && names_.insert(name).second; }

    bool parameters() {
        return std::all_of(p_.param().begin(), p_.param().end(),
                           [&](const proto::Param& param) { return declare(param.name()); });
    }

    bool constants() {
        return std::all_of(p_.constant().begin(), p_.constant().end(), [&](const proto::Constant& constant) {
            return declare(constant.name()) && expr(constant.value());
        });
    }

    bool buffers() {
        return std::all_of(p_.buffer().begin(), p_.buffer().end(), [&](const proto::Buffer& buffer) {
            return declare(buffer.name()) && expr(buffer.size()) && expr(buffer.align()) &&
                   expr(buffer.engine()) && decorators(buffer.decorator());
        });
    }

    /// A sign stands before a number that is all; elsewhere there is none.
    static bool expr(const proto::Expr& expr) {
        if (expr.token_size() > most_tokens) return false;
        return std::all_of(expr.token().begin(), expr.token().end(), [&](const ExprToken& token) {
            if (token.kind() == ExprToken::NEG) return false;
            if (token.kind() > ExprToken::LOOP) return token.value() == 0;
            return token.value() >= 0 || expr.token_size() == 1;
        });
    }

    template <typename Exprs>
    static bool all_plain(const Exprs& exprs) {
        return std::all_of(exprs.begin(), exprs.end(), [](const proto::Expr& each) { return expr(each); });
    }

    /// A name alone might be a word as well.
    bool value(const proto::Value& value, bool in_list) {
        switch (value.kind_case()) {
            case proto::Value::kExpr:
                return expr(value.expr()) &&
                       (value.expr().token_size() > 1 || value.expr().token(0).kind() == ExprToken::INT);
            case proto::Value::kReal:
                return is_plain_number(value.real());
            case proto::Value::kWord:
                words_.push_back(value.word());
                return is_name(value.word()) || classify(value.word()) == Word::elem_type;
            case proto::Value::kList:
                return !in_list &&
                       std::all_of(value.list().item().begin(), value.list().item().end(),
                                   [&](const proto::Value& item) { return this->value(item, true); });
            default:
                return false;
        }
    }

    /// True if no decorator takes anything but its name; those of labels take words.
    template <typename Decorators>
    static bool decorators(const Decorators& decorators) {
        return std::all_of(decorators.begin(), decorators.end(), [](const proto::Decorator& decorator) {
            if (decorator.name() == "debug" || decorator.name() == "profile") return false;
            if (!decorator.unit().empty())
                return is_name(decorator.unit()) && decorator.has_index() && decorator.arg_size() == 0 &&
                       expr(decorator.index());
            return !decorator.has_index() &&
                   std::all_of(decorator.arg().begin(), decorator.arg().end(), [](const proto::Value& arg) {
                       return arg.has_expr() && expr(arg.expr()) &&
                              arg.expr().token(0).kind() == ExprToken::INT;
                   });
        });
    }

    bool statements() {
        std::vector<int> ends;
        for (int i = 0; i < p_.statement_size(); ++i) {
            while (!ends.empty() && ends.back() == i) ends.pop_back(), loops_.pop_back();
            const proto::Statement& statement = p_.statement(i);
            if (statement.has_loop()) {
                if (!loop(statement.loop())) return false;
                ends.push_back(static_cast<int>(statement.loop().body_end()));
                if (ends.back() == i + 1) return false;
            } else if (statement.has_task()) {
                if (!task(statement.task())) return false;
            } else if (statement.has_let_region()) {
                const int next = regions_++;  // the reader numbers them as they come
                if (static_cast<int>(statement.let_region()) != next || !region(p_.region(next)))
                    return false;
            }
        }
        return true;
    }

    bool loop(const proto::Loop& loop) {
        if (!is_name(loop.variable()) || !expr(loop.first()) || !expr(loop.last()) ||
            !decorators(loop.decorator()))
            return false;
        if (std::find(loops_.begin(), loops_.end(), loop.variable()) != loops_.end()) return false;
        loops_.push_back(loop.variable());
        words_.push_back(loop.variable());
        return true;
    }

    bool region(const proto::Region& region) {
        return declare(region.name()) && expr(region.offset()) && expr(region.extent()) &&
               all_plain(region.shape()) && all_plain(region.stride()) &&
               (region.elem() == proto::ELEM_NONE || !region.layout().empty() || region.stride_size() > 0) &&
               (!region.has_quant() || is_plain_quant(region.quant())) && decorators(region.decorator());
    }

    /// True if regions have names and no decorators, which a task might take for its own.
    template <typename Operands>
    bool operands(const Operands& operands) const {
        return std::all_of(operands.begin(), operands.end(), [&](const proto::Operand& operand) {
            return operand.decorator_size() == 0 &&
                   !p_.region(static_cast<int>(operand.region())).name().empty();
        });
    }

    bool task(const proto::Task& task) {
        if (task.kind() == proto::Task::KERNEL || task.carried_size() > 0) return false;
        if (!task.name().empty() && !declare(task.name())) return false;
        if (!operands(task.input()) || !operands(task.output()) || !decorators(task.decorator()))
            return false;
        if (task.kind() != proto::Task::COMPUTE) return true;
        // after the last operand a decorator would be that operand's
        const bool ended = task.attribute_size() > 0 || task.dep_size() > 0 || task.decorator_size() == 0;
        return ended && task.input_size() > 0 && task.output_size() > 0 && is_plain_opcode(task.opcode()) &&
               attributes(task);
    }

    bool attributes(const proto::Task& task) {
        for (int i = 0; i < task.attribute_size(); ++i) {
            const proto::Attribute& attribute = task.attribute(i);
            if (!is_name(attribute.name()) || attribute.name() == "deps" || !value(attribute.value(), false))
                return false;
            for (int k = 0; k < i; ++k)
                if (task.attribute(k).name() == attribute.name()) return false;
        }
        return true;
    }

    /// Words and variables of loops may come again, but nowhere is anything declared that is called so.
    bool words_are_no_names() const {
        return std::none_of(words_.begin(), words_.end(),
                            [&](std::string_view word) { return names_.count(word) > 0; });
    }

    const proto::KPUProgram& p_;
    std::unordered_set<std::string_view> names_;
    std::vector<std::string_view> words_, loops_;
    int regions_ = 0;  ///< declared so far
};

}  // namespace

bool is_plain(const proto::KPUProgram& program) { return PlainCheck(program).run(); }

bool is_plain(std::string_view text) {
    return text.size() < max_total_bytes &&
           std::all_of(text.begin(), text.end(), [](char c) { return (c >= ' ' && c <= '~') || c == '\n'; });
}

}  // namespace kpu::nem
