// Caches of keys and values in integers of 8 or 4 bits with scales, as GroupQueryAttention has them.
#include <fmt/format.h>

#include "compiler/onnx/attention/caches.hpp"

namespace kpu::onnx {

CacheSteps cache_steps_of(Call& call, std::string_view attribute, size_t scale, int64_t groups,
                          int64_t size) {
    const std::string type = call.text(attribute, "NONE");
    CacheSteps steps;
    if (type == "NONE") {
        if (call.has(scale)) Call::refuse(fmt::format("it has a scale, but {} is NONE", attribute));
        return steps;
    }
    if (type != "PER_TENSOR" && type != "PER_CHANNEL")
        Call::refuse(fmt::format("{} {} is not known", attribute, type));
    steps.bits = call.integer("kv_cache_bit_width", 0);
    if (steps.bits != 8 && steps.bits != 4)
        Call::refuse(fmt::format("kv_cache_bit_width is {}, neither 8 nor 4", steps.bits));
    if (steps.bits == 4 && size % 2 != 0) Call::refuse(fmt::format("a head of {} is odd", size));
    if (!call.has(scale)) Call::refuse(fmt::format("{} is {}, and its scale is missing", attribute, type));
    const bool channels = type == "PER_CHANNEL";
    if (elements_of(call.shape(scale)) != (channels ? groups * size : 1))
        Call::refuse(fmt::format("scales {} do not fit to {}", text_of(call.shape(scale)), type));
    steps.scale = call.reshape(call.value(scale), channels ? Sizes{1, groups, 1, size} : Sizes{});
    return steps;
}

ValueId steps_of(Call& call, const CacheSteps& steps, ValueId x) {
    if (!steps.quantized()) return x;
    ValueId y = call.unary("round", call.binary("div", x, call.cast(steps.scale, call.elem(x))));
    if (steps.bits == 8) return call.cast(y, ElemType::i8);
    y = call.binary("min", call.binary("max", y, -8.0), 7.0);
    Sizes pairs = call.sizes(y), bytes = pairs;
    bytes.back() = pairs.back() /= 2;
    pairs.push_back(2);
    y = call.reshape(call.binary("add", y, 8.0), pairs);
    const auto last = static_cast<int64_t>(pairs.size()) - 1;
    const ValueId low = call.slice(y, last, 0, 1), high = call.slice(y, last, 1, 2);
    return call.cast(call.reshape(call.binary("add", low, call.binary("mul", high, 16.0)), bytes),
                     ElemType::u8);
}

ValueId numbers_of(Call& call, const CacheSteps& steps, ValueId x, ElemType elem) {
    if (!steps.quantized()) return x;
    if (steps.bits == 4) {
        Sizes apart = call.sizes(x), whole = apart;
        whole.back() *= 2;
        apart.push_back(1);
        x = call.reshape(x, apart);
        const ValueId low = call.binary("bit_and", x, 15.0), high = call.binary("shift_right", x, 4.0);
        x = call.reshape(call.concat({low, high}, static_cast<int64_t>(apart.size()) - 1), whole);
    }
    ValueId y = call.cast(x, elem);
    if (steps.bits == 4) y = call.binary("sub", y, 8.0);
    return call.binary("mul", y, call.cast(steps.scale, elem));
}

}  // namespace kpu::onnx
