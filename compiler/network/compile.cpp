#include "compiler/network/compile.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/text_output.hpp"
#include "compiler/passes/passes.hpp"
#include "platforms/library.hpp"

namespace kpu::network {
namespace {

ElemType type_of(const std::string& precision) {
    if (precision == "f32") return ElemType::f32;
    if (precision == "fp16") return ElemType::f16;
    if (precision == "bf16") return ElemType::bf16;
    return ElemType::i8;
}

std::string precision_name(ElemType type) {
    return type == ElemType::f16 ? "fp16" : type == ElemType::i8 ? "int8" : std::string(name_of(type));
}

class Compilation {
  public:
    Compilation(graph::Graph graph, const compiler::LoadRequest& request, std::string origin,
                Diagnostics& notes)
        : graph_(std::move(graph)),
          request_(request),
          origin_(std::move(origin)),
          notes_(notes),
          target_(*request.platform) {}

    Compiled run() {
        Compiled result;
        result.precision = choose_precision();
        const auto backend = values::make_fast_backend();
        passes::Options options{*backend};
        options.host_layout = request_.options.text("layout") != "NHWC";
        options.precision = result.precision;
        options.f32_outputs =
            target_.takes("gemm.acc", {result.precision, result.precision}, {ElemType::f32});
        const std::string& wanted = request_.options.text("print-after");
        if (!wanted.empty() && wanted != "all" && !passes::is_pass(wanted)) refuse_pass(wanted);
        const auto after = [&](const passes::Pass& pass, const graph::Graph& graph) {
            if (wanted == "all" || wanted == pass.name)
                std::fputs(fmt::format("# after {}\n{}\n", pass.name, graph::to_text(graph)).c_str(), stderr);
        };
        for (const passes::Stage stage :
             {passes::Stage::rewrite, passes::Stage::types, passes::Stage::schedule})
            passes::run_passes(graph_, options, stage, after);
        if (const std::string& path = request_.options.text("dot"); !path.empty())
            write_file(path, graph::to_dot(graph_));
        result.lowered = lower::lower(std::move(graph_), target_);
        result.lowered.module.program.set_precision(precision_name(result.precision));
        if (platforms::is_shipped(target_.platform.name()))
            result.lowered.module.program.mutable_device()->set_name(target_.platform.name());
        explain(result);
        return result;
    }

  private:
    ElemType choose_precision() {
        const std::string& wanted = request_.options.text("precision");
        if (!wanted.empty()) {
            const ElemType type = type_of(wanted);
            if (!target_.has_rate(type, type)) {
                throw UserError(
                    fmt::format("{}: the arrays of `{}` have no {} products. Fix: choose another "
                                "--precision, or a device "
                                "that has them (`kpusim list platforms`).",
                                origin_, target_.platform.name(), wanted));
            }
            return type;
        }
        const ElemType widest = target_.widest_float();
        if (widest == ElemType::none) {
            throw UserError(fmt::format(
                "{}: `{}` has no float products. Fix: quantize with --precision int8 --calibrate SAMPLES.",
                origin_, target_.platform.name()));
        }
        notes_.info({origin_, 0, 0},
                    fmt::format("compiled for {} in {}, the widest float type of its arrays; --platform and "
                                "--precision choose others.",
                                target_.platform.name(), precision_name(widest)));
        return widest;
    }

    [[noreturn]] static void refuse_pass(const std::string& wanted) {
        std::string names;
        for (const passes::Pass& pass : passes::pass_table()) {
            if (names.find(pass.name) == std::string::npos)
                names += fmt::format("{}{}", names.empty() ? "" : ", ", pass.name);
        }
        throw UserError(
            fmt::format("--print-after: there is no pass `{}`. Fix: give one of {}, or all.", wanted, names));
    }

    void explain(const Compiled& result) const {
        const std::string& wanted = request_.options.text("explain-mapping");
        if (wanted.empty()) return;
        std::fputs(mapping_text(result, target_, wanted == "all" ? std::string_view() : wanted).c_str(),
                   stderr);
    }

    graph::Graph graph_;
    const compiler::LoadRequest& request_;
    std::string origin_;
    Diagnostics& notes_;
    lower::Target target_;
};

}  // namespace

Compiled compile(graph::Graph graph, const compiler::LoadRequest& request, const std::string& origin,
                 Diagnostics& notes) {
    return Compilation(std::move(graph), request, origin, notes).run();
}

}  // namespace kpu::network
