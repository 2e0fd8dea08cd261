#include "compiler/pipeline/typed.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "base/text_output.hpp"
#include "compiler/precision/keep.hpp"
#include "compiler/quantize/absorb_qdq.hpp"
#include "compiler/quantize/export/export_qdq.hpp"

namespace kpu::pipeline {
namespace {

/// Prints on standard error, or in the file of --print-graph with its constants beside it.
void print(const CompileOptions& options, const std::string& title, const graph::Graph& graph,
           const graph::TextHead& head) {
    const std::string& path = options.print_graph;
    if (path.empty()) {
        std::fputs(fmt::format("# after {}\n{}\n", title, graph::to_text(graph, head, nullptr)).c_str(),
                   stderr);
        return;
    }
    std::string constants;
    write_file(path, graph::to_text(graph, head, &constants));
    write_file(path + ".bin", constants);
}

class Typing {
  public:
    Typing(const CompileOptions& options, const std::string& origin, const compiler::Target& target,
           Diagnostics& notes, const graph::TextHead& head)
        : options_(options), origin_(origin), target_(target), notes_(notes), head_(head) {}

    Typed run(const Import& import) {
        const size_t before = notes_.all().size();
        graph_ = import(notes_);
        result_.absent = graph_.absent;
        check_values();
        check_print();
        result_.precision = choose_precision();
        check_positions();
        const auto backend = values::make_fast_backend();
        passes::Options of_passes = pass_options(*backend, options_, target_, result_.precision);
        of_passes.passed = head_.passed;
        check_resumable();
        const passes::AfterPass after = after_pass(options_, head_);
        passes::run_passes(graph_, of_passes, passes::Stage::rewrite, after);
        const size_t typed = passes::first_of(passes::Stage::schedule);
        if (head_.passed < typed) {
            Numbers numbers(options_, origin_, target_, notes_);
            numbers.run(graph_, result_.precision, of_passes, after);
            result_.measured = numbers.measured();
        } else {
            check_no_choice();
        }
        if (!options_.export_qdq.empty()) write_qdq(options_.export_qdq);
        const std::string& wanted = options_.print_after;
        if (quantize::is_quantized(graph_) && (wanted == "all" || wanted == "quantize"))
            print(options_, "quantize", graph_, {static_cast<uint32_t>(typed), head_.model});
        result_.notes.assign(notes_.all().begin() + static_cast<std::ptrdiff_t>(before), notes_.all().end());
        result_.graph = std::move(graph_);
        return std::move(result_);
    }

  private:
    /// Checks that the model has values of its own, which whatever is chosen by values, or holds them, needs.
    void check_values() const {
        const char* const option = options_.needs_values();
        if (graph_.absent.empty() || option == nullptr) return;
        const auto& [name, reason] = *graph_.absent.begin();
        throw UserError(
            fmt::format("{}: tensor `{}`: {}, which --{} needs. Fix: give the model with its weights, "
                        "or leave --{} out.",
                        origin_, name, reason, option, option));
    }

    ElemType choose_precision() {
        const std::string& wanted = options_.precision;
        if (!wanted.empty()) {
            const quantize::BlockFormat* blocks = quantize::find_block_format(wanted);
            const ElemType type =
                blocks != nullptr ? Numbers::float_beside(target_, origin_) : precision::type_named(wanted);
            auto [a, b] = graph::factors_of(type);
            if (blocks != nullptr) {
                a = quantize::activations_of(*blocks).element;
                b = blocks->element;
            }
            if (!target_.has_rate(a, b)) {
                throw UserError(
                    fmt::format("{}: the arrays of `{}` have no {} products. Fix: choose another "
                                "--precision, or a device "
                                "that has them (`kpusim list platforms`).",
                                origin_, target_.platform.name(), wanted));
            }
            return type;
        }
        if (quantize::is_quantized(graph_) && target_.has_rate(ElemType::i8, ElemType::i8))
            return ElemType::i8;
        const ElemType widest = target_.widest_float();
        if (widest == ElemType::none) {
            throw UserError(fmt::format(
                "{}: `{}` has no float products. Fix: quantize with --precision int8 --calibrate SAMPLES.",
                origin_, target_.platform.name()));
        }
        notes_.info({origin_, 0, 0},
                    fmt::format("compiled for {} in {}, the widest float type of its arrays; --platform and "
                                "--precision choose others.",
                                target_.platform.name(), precision::precision_name(widest)));
        return widest;
    }

    /// Steps are measured on samples, which are not at the last position.
    void check_positions() const {
        if (!graph_.positions.any() || (!is_integer(result_.precision) && !is_float8(result_.precision)))
            return;
        throw UserError(
            fmt::format("{}: --positions takes no precision that is calibrated, as {} is. Fix: give a float "
                        "type (weights of 4 bits "
                        "stay so in it), or compile for one position with --dim and --bind.",
                        origin_, precision::precision_name(result_.precision)));
    }

    /// Quantization has steps of its own around the conversion of floats.
    void check_resumable() const {
        const bool plain = is_float(result_.precision) && !is_float8(result_.precision);
        if (!plain && !options_.print_graph.empty() && options_.print_after == "precision")
            throw UserError(
                "--print-graph: after `precision` this network is half quantized. Fix: print it "
                "after quantize.");
    }

    /// Refuses options that decide types after their stage: they have nothing to decide.
    void check_no_choice() const {
        const char* option = options_.needs_values();
        if (option == nullptr && !options_.keep.empty()) option = "keep";
        if (option == nullptr) return;
        throw UserError(
            fmt::format("{}: --{} chooses types, which this graph has already. Fix: leave it out, or give a "
                        "graph that was printed before `precision`.",
                        origin_, option));
    }

    void check_print() const {
        const std::string& wanted = options_.print_after;
        if (!options_.print_graph.empty() && (wanted.empty() || wanted == "all"))
            throw UserError("--print-graph writes one graph. Fix: say of which pass, with --print-after.");
        if (wanted.empty() || wanted == "all" || wanted == "quantize" || passes::is_pass(wanted)) return;
        std::string names = "quantize";
        for (const passes::Pass& pass : passes::pass_table())
            if (names.find(pass.name) == std::string::npos) names += fmt::format(", {}", pass.name);
        throw UserError(
            fmt::format("--print-after: there is no pass `{}`. Fix: give one of {}, or all.", wanted, names));
    }

    void write_qdq(const std::string& path) const {
        if (!quantize::is_quantized(graph_))
            throw UserError(
                "--export-qdq: the network is not quantized. Fix: give --precision int8, and a device "
                "that has int8 forms of its operations.");
        write_file(path, quantize::export_qdq(graph_));
    }

    const CompileOptions& options_;
    const std::string& origin_;
    const compiler::Target& target_;
    Diagnostics& notes_;
    const graph::TextHead& head_;
    graph::Graph graph_;
    Typed result_;
};

/// Describes the parts of a device that Typing asks for.
std::string counted(const compiler::Target& target) {
    std::string text = target.platform.name();
    for (const TypeVariant& variant : target.limits.variants) text += "\n" + variant.name;
    for (const std::string& family : target.platform.type_family()) text += "\n" + family;
    for (const proto::Engine& engine : target.engines) {
        text += "\nrates";
        for (const proto::MacRate& rate : engine.array().rate()) text += " " + rate.type();
    }
    return text;
}

/// True if nothing is written or measured on the way, but the graph made.
bool can_be_kept(const CompileOptions& options) {
    return options.needs_values() == nullptr && options.print_after.empty();
}

}  // namespace

passes::Options pass_options(values::ComputeBackend& backend, const CompileOptions& chosen,
                             const compiler::Target& target, ElemType precision) {
    passes::Options options{backend};
    options.host_layout = chosen.host_layout;
    if (is_float(precision)) options.precision = precision;
    options.l1_bytes = target.l1_bytes;
    options.f32_outputs = target.takes("gemm.acc", {precision, precision}, {ElemType::f32});
    return options;
}

passes::AfterPass after_pass(const CompileOptions& options, const graph::TextHead& head) {
    return
        [&options, model = head.model](const passes::Pass& pass, const graph::Graph& graph, double seconds) {
            if (options.print_after != "all" && options.print_after != pass.name) return;
            const auto passed = static_cast<uint32_t>(passes::place_of(pass) + 1);
            print(options, fmt::format("{} ({:.3f} ms)", pass.name, 1e3 * seconds), graph, {passed, model});
        };
}

std::shared_ptr<const Typed> typed(const Import& import, const CompileOptions& options, std::any* place,
                                   const std::string& origin, const compiler::Target& target,
                                   Diagnostics& notes, const graph::TextHead& head) {
    using Kept = std::shared_ptr<const Typed>;
    Typing typing(options, origin, target, notes, head);
    if (place == nullptr || !can_be_kept(options)) return std::make_shared<const Typed>(typing.run(import));
    const std::string device = counted(target);
    if (const Kept* const kept = std::any_cast<Kept>(place); kept != nullptr && (*kept)->device == device) {
        for (const Diagnostic& note : (*kept)->notes) notes.add(note);
        return *kept;
    }
    Typed made = typing.run(import);
    made.device = device;
    auto result = std::make_shared<const Typed>(std::move(made));
    *place = result;
    return result;
}

}  // namespace kpu::pipeline
