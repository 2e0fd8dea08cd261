#include "values/scalar.hpp"

#include "values/posit.hpp"
#include "values/small_float.hpp"

namespace kpu::values {

float load_rare_float(ElemType type, const uint8_t* data, int64_t index) {
    if (is_small_float(type)) return small_float_numbers(type)[data[index]];
    if (!is_posit(type)) throw InternalError("float read of a type that is not a float");
    if (bit_width(type) == 8) return f32_of_posit(type, load<uint8_t>(data, index));
    return f32_of_posit(type, load<uint16_t>(data, index));
}

void store_rare_float(ElemType type, uint8_t* data, int64_t index, double value) {
    if (is_small_float(type))
        return store(data, index, saturated_small_float(value, small_float_format(type)));
    if (!is_posit(type)) throw InternalError("float write of a type that is not a float");
    const uint32_t pattern = posit_of(posit_format(type), value);
    if (bit_width(type) == 8) return store(data, index, static_cast<uint8_t>(pattern));
    return store(data, index, static_cast<uint16_t>(pattern));
}

}  // namespace kpu::values
