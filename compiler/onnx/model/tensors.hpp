#pragma once
// Helpers that read_model.cpp and tensors.cpp share; the only sources that see the schema's generated
// classes.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>

#include "base/diagnostics.hpp"
#include "compiler/onnx/model/model.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

namespace kpu::onnx {

/// The parsed file, and its external data: what is given in memory, and the files mapped so far.
struct Parsed {
    std::shared_ptr<const ::onnx::ModelProto> message;
    std::string origin;
    std::string folder;
    const std::map<std::string, graph::Data>& given;
    std::map<std::string, graph::Data> files;
    uint32_t stand_ins = 0;  ///< made so far

    template <class... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
        Diagnostics diagnostics;
        diagnostics.error({origin, 0, 0}, fmt::format(text, std::forward<Args>(args)...));
        throw UserError(std::move(diagnostics));
    }
};

std::shared_ptr<const Tensor> read_tensor(Parsed& parsed, const ::onnx::TensorProto& proto);

}  // namespace kpu::onnx
