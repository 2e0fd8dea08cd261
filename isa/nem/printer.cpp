// NEM text of a program. What the language has no words for stands in `#!` lines, comments to other readers:
//
//   #! param T = 8 in [1..64]    an integer bound when the program is loaded
//   #! program {...}             names, versions, hashes, input and output ids, sizes, estimates: JSON of KPUProgram
//   #! tensor {...}              one tensor; JSON of Tensor, in order
//   #! op {...}                  one front-end operation; JSON of Op, in order
//   #! data {...}                one data section; JSON of Data, in order (the bytes stand elsewhere)
//   #! place {...}              one place of another compiler's source; JSON of Place, in order
//   #! {"op": 3}                 the next task belongs to the operation of the fourth `#! op` line
//   #! {"place": 2}              the next statement was made of the third `#! place` line; {"op": 3, "place": 2}: both
//   #! kernels NAME.kern         the kernels of a text file beside this one
//   #! requires kpusim           heads a text with carried tokens: a reader that skips them would run it with races
//   #! deps acc[k-1], st[m-2]    tokens that the next task needs of earlier iterations of the loops named
//   #! module {...}              the whole program as JSON of KPUProgram, where text cannot say it: names that
//                                clash, an inline region that is used twice, ...; nothing else may stand beside it
//
// A task without a name whose token is used is written with the name `_N`, N its statement index; the reader
// gives such a task no name. So reading what was printed gives the same program, to the byte.
#include <fmt/format.h>

#include "isa/container.hpp"
#include "isa/nem/nem.hpp"
#include "isa/nem/plain.hpp"
#include "isa/nem/print_parts.hpp"

namespace kpu::nem {
namespace {

constexpr size_t wide = 110;

class Printer {
  public:
    explicit Printer(const KPUProgram& program) : p_(program) {
        names_.program = &program;
        for (const proto::Statement& statement : p_.statement()) {
            for (const uint32_t dep : statement.task().dep()) mark(dep);
            for (const proto::Carried& carried : statement.task().carried()) mark(carried.task());
            carries_ = carries_ || statement.task().carried_size() > 0;
            for (const uint32_t dep : statement.wait().dep()) mark(dep);
        }
    }

    std::string run() {
        print_head();
        print_metadata();
        for (const proto::Constant& c : p_.constant())
            line(fmt::format("const {} = {}", c.name(), expr_text(c.value(), names_)));
        section();
        for (const proto::Buffer& buffer : p_.buffer()) print_buffer(buffer);
        section();
        print_statements();
        return std::move(out_);
    }

  private:
    void mark(uint32_t statement) {
        if (used_.size() <= statement) used_.resize(statement + 1);
        used_[statement] = true;
    }

    void line(const std::string& text) { out_ += indent_ + text + '\n'; }

    /// Writes a blank line before what follows, where something stands before it.
    void section() {
        if (!out_.empty() && (out_.size() < 2 || out_.compare(out_.size() - 2, 2, "\n\n") != 0)) out_ += '\n';
    }

    void print_head() {
        if (carries_) line("#! requires kpusim");
        for (const std::string& include : p_.device().include()) line("include " + string_text(include));
        if (!p_.device().path().empty()) line("device " + string_text(p_.device().path()));
        if (!p_.device().name().empty()) line("device " + p_.device().name());
        if (!p_.device().body().empty()) line(p_.device().body());
        if (!p_.name().empty()) line(fmt::format("program {}:", p_.name()));
        section();
    }

    void print_metadata() {
        KPUProgram fields;
        fields.set_version(p_.version());
        fields.set_source_model(p_.source_model());
        fields.set_source_hash(p_.source_hash());
        fields.set_target_name(p_.target_name());
        fields.set_target_version(p_.target_version());
        fields.set_target_hash(p_.target_hash());
        fields.set_precision(p_.precision());
        *fields.mutable_source_file() = p_.source_file();
        *fields.mutable_input_id() = p_.input_id();
        *fields.mutable_output_id() = p_.output_id();
        fields.set_peak_sram_bytes(p_.peak_sram_bytes());
        fields.set_peak_dram_bytes(p_.peak_dram_bytes());
        fields.set_weight_bytes(p_.weight_bytes());
        fields.set_activation_bytes(p_.activation_bytes());
        fields.set_estimated_total_cycles(p_.estimated_total_cycles());
        fields.set_estimated_total_energy_uj(p_.estimated_total_energy_uj());
        fields.set_batch(p_.batch());
        fields.set_inferences(p_.inferences());
        if (fields.ByteSizeLong() > 0) line("#! program " + json_text(fields));
        for (const proto::Param& param : p_.param())
            line(fmt::format("#! param {} = {} in [{}..{}]", param.name(), param.default_value(), param.min(),
                             param.max()));
        for (const proto::Tensor& tensor : p_.tensor()) line("#! tensor " + json_text(tensor));
        for (const proto::Op& op : p_.op()) line("#! op " + json_text(op));
        for (const proto::Data& data : p_.data()) line("#! data " + json_text(data));
        for (const proto::Place& place : p_.place()) line("#! place " + json_text(place));
        for (const proto::KernelFile& file : p_.kernel_file()) line("#! kernels " + file.path());
        section();
    }

    void print_buffer(const proto::Buffer& buffer) {
        constexpr std::string_view levels[] = {"DDR", "L2", "L1"};
        std::string text =
            fmt::format("buffer {} : {}", buffer.name(), levels[static_cast<size_t>(buffer.level())]);
        if (buffer.has_engine()) text += fmt::format("[{}]", expr_text(buffer.engine(), names_));
        text += fmt::format(" (size = {}", expr_text(buffer.size(), names_));
        if (buffer.has_align()) text += fmt::format(", align = {}", expr_text(buffer.align(), names_));
        line(text + ")" + decorators_text(buffer.decorator(), names_));
    }

    void print_statements() {
        std::vector<uint32_t> ends;
        const auto close = [&](uint32_t index) {
            while (!ends.empty() && ends.back() == index) {
                ends.pop_back();
                names_.loops.pop_back();
                indent_.resize(indent_.size() - 4);
                line("endloop");
            }
        };
        const auto count = static_cast<uint32_t>(p_.statement_size());
        for (uint32_t i = 0; i < count; ++i) {
            close(i);
            const proto::Statement& statement = p_.statement(static_cast<int>(i));
            print_references(statement);
            if (statement.has_loop()) {
                const proto::Loop& loop = statement.loop();
                line(fmt::format("loop {} in [{}..{}]{}:", loop.variable(), expr_text(loop.first(), names_),
                                 expr_text(loop.last(), names_), decorators_text(loop.decorator(), names_)));
                ends.push_back(loop.body_end());
                names_.loops.push_back(loop.variable());
                indent_ += "    ";
            } else if (statement.has_wait()) {
                line(fmt::format("wait({})", tokens(statement.wait().dep())));
            } else if (statement.has_task()) {
                print_task(statement.task(), i);
            } else {
                const proto::Region& region = p_.region(static_cast<int>(statement.let_region()));
                line(fmt::format("let {} = {}{}", region.name(), region_text(region, names_, &indent_),
                                 decorators_text(region.decorator(), names_)));
            }
        }
        close(count);
    }

    /// Writes the operation and the place of the statement that follows.
    void print_references(const proto::Statement& statement) {
        std::string text;
        if (statement.task().op() > 0) text = fmt::format("\"op\": {}", statement.task().op() - 1);
        if (statement.place() > 0)
            text += fmt::format("{}\"place\": {}", text.empty() ? "" : ", ", statement.place() - 1);
        if (!text.empty()) line("#! {" + text + "}");
    }

    std::string token_name(uint32_t statement) const {
        const std::string& name = p_.statement(static_cast<int>(statement)).task().name();
        return name.empty() ? fmt::format("_{}", statement) : name;
    }

    template <typename Deps>
    std::string tokens(const Deps& deps) const {
        std::string text;
        for (const uint32_t dep : deps) text += (text.empty() ? "" : ", ") + token_name(dep);
        return text;
    }

    std::string carried_text(const proto::Task& task) const {
        std::string text;
        for (const proto::Carried& carried : task.carried()) {
            text += fmt::format("{}{}[{}-{}]", text.empty() ? "" : ", ", token_name(carried.task()),
                                p_.statement(static_cast<int>(carried.loop())).loop().variable(),
                                carried.distance());
        }
        return text;
    }

    std::string operand_text(const proto::Operand& operand) const {
        const proto::Region& region = p_.region(static_cast<int>(operand.region()));
        return (region.name().empty() ? region_text(region, names_, nullptr) : region.name()) +
               decorators_text(operand.decorator(), names_);
    }

    template <typename Operands>
    std::string operands_text(const Operands& operands) const {
        std::string text;
        for (const proto::Operand& operand : operands)
            text += (text.empty() ? "" : ", ") + operand_text(operand);
        return text;
    }

    void print_task(const proto::Task& task, uint32_t index) {
        if (task.carried_size() > 0) line("#! deps " + carried_text(task));
        std::string text;
        if (!task.name().empty() || (index < used_.size() && used_[index])) text = token_name(index) + " = ";
        const std::string_view form = task.sync() ? "sync" : "async";
        if (task.kind() == proto::Task::COMPUTE || task.kind() == proto::Task::KERNEL) {
            text += compute_text(task, form, text.size());
        } else {
            text += transfer_text(task, form);
        }
        line(text + decorators_text(task.decorator(), names_));
    }

    std::string transfer_text(const proto::Task& task, std::string_view form) const {
        const proto::Operand &dst = task.output(0), &src = task.input(0);
        // inline regions are numbered in the order in which they are written
        const bool src_first =
            src.region() < dst.region() && p_.region(static_cast<int>(dst.region())).name().empty();
        const std::string d = "dst=" + operand_text(dst), s = "src=" + operand_text(src);
        std::string text =
            fmt::format("{}.{}({}, {}", task.kind() == proto::Task::STORE ? "store" : "transfer", form,
                        src_first ? s : d, src_first ? d : s);
        if (task.dep_size() > 0) text += fmt::format(", deps=[{}]", tokens(task.dep()));
        return text + ")";
    }

    std::string launch_text(const proto::Kernel& kernel) const {
        const auto list = [&](std::string_view name, const auto& exprs) {
            std::string text;
            for (const proto::Expr& expr : exprs)
                text += (text.empty() ? "" : ", ") + expr_text(expr, names_);
            return text.empty() ? text : fmt::format(" {}=[{}]", name, text);
        };
        return fmt::format(" op=\"{}\"{}{}", kernel.name(), list("grid", kernel.grid()),
                           list("args", kernel.scalar()));
    }

    std::string compute_text(const proto::Task& task, std::string_view form, size_t column) const {
        const bool launch = task.kind() == proto::Task::KERNEL;
        std::string text = fmt::format("{}.{}", launch ? "compute" : task.opcode(), form);
        if (task.input_size() > 0) text += " in " + operands_text(task.input());
        text += " out " + operands_text(task.output());
        std::string attributes = launch ? launch_text(task.kernel()) : std::string();
        for (const proto::Attribute& attribute : task.attribute())
            attributes += fmt::format(" {}={}", attribute.name(), value_text(attribute.value(), names_));
        if (task.dep_size() > 0) attributes += fmt::format(" deps=[{}]", tokens(task.dep()));
        const bool breaks =
            !attributes.empty() && indent_.size() + column + text.size() + attributes.size() > wide;
        return text + (breaks ? "\n" + indent_ + "   " : "") + attributes;
    }

    const KPUProgram& p_;
    Names names_;
    bool carries_ = false;    ///< some task depends on an earlier iteration
    std::vector<bool> used_;  ///< indexed by statement: true if some task or wait names its token
    std::string out_, indent_;
};

bool reads_back(const std::string& text, const KPUProgram& program) {
    Diagnostics diagnostics;
    // includes are not needed to read a program's own text back
    const auto file_of = [&](const std::string& name, const std::string&) -> std::optional<SourceFile> {
        for (const proto::KernelFile& file : program.kernel_file())
            if (file.path() == name) return SourceFile{name, print_kernels(file)};
        return SourceFile{name, ""};
    };
    const Document document = parse(text, "<printed>", file_of, diagnostics);
    return !diagnostics.has_errors() && document.is_program &&
           document.module.program.SerializeAsString() == program.SerializeAsString();
}

}  // namespace

std::string print_kernels(const proto::KernelFile& file) {
    std::string text;
    for (const proto::KernelBody& body : file.kernel())
        text += (text.empty() ? "" : "\n") + kernel::print(body);
    return text;
}

std::string print(const Module& module) {
    check_structure(module.program, module.origin.empty() ? "<program>" : module.origin);
    return print_checked(module);
}

std::string print_checked(const Module& module) {
    try {
        std::string text = Printer(module.program).run();
        if (is_plain(module.program) && is_plain(text)) return text;
        if (reads_back(text, module.program)) return text;
    } catch (const NotExpressible&) {
        // written as a whole below
    }
    return "#! module " + json_text(module.program) + "\n";
}

}  // namespace kpu::nem
