// Dense operands as binary64 and back.
#include "values/fast/real.hpp"

#include <algorithm>
#include <cstring>

#include "values/reference.hpp"
#include "values/small_float.hpp"

namespace kpu::values::fast {
namespace {

template <class T>
void integers_to_real(const uint8_t* data, int64_t first, double* to, int64_t count) {
    const T* from = reinterpret_cast<const T*>(data) + first;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

}  // namespace

void to_real(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count, double* to) {
    switch (tensor.type) {
        case ElemType::i4:
        case ElemType::i8:
            return integers_to_real<int8_t>(tensor.data, first, to, count);
        case ElemType::u8:
            return integers_to_real<uint8_t>(tensor.data, first, to, count);
        case ElemType::i16:
            return integers_to_real<int16_t>(tensor.data, first, to, count);
        case ElemType::u16:
            return integers_to_real<uint16_t>(tensor.data, first, to, count);
        case ElemType::i32:
            return integers_to_real<int32_t>(tensor.data, first, to, count);
        case ElemType::u32:
            return integers_to_real<uint32_t>(tensor.data, first, to, count);
        default:
            break;
    }
    float part[chunk];
    for (int64_t done = 0; done < count; done += chunk) {
        const int64_t size = std::min(chunk, count - done);
        widen(kernels, tensor, first + done, size, part);
        for (int64_t i = 0; i < size; ++i) to[done + i] = static_cast<double>(part[i]);
    }
}

void from_real(const Kernels& kernels, const double* from, const Tensor& tensor, int64_t first,
               int64_t count) {
    if (is_posit(tensor.type) ||
        is_small_float(tensor.type)) {  // not by way of f32, where large numbers would become infinities
        for (int64_t i = 0; i < count; ++i) reference::put_float(tensor, first + i, from[i]);
        return;
    }
    float part[chunk];
    for (int64_t done = 0; done < count; done += chunk) {
        const int64_t size = std::min(chunk, count - done);
        if (tensor.type == ElemType::f32) {
            float* to = reinterpret_cast<float*>(tensor.data) + first + done;
            kernels.f32_of_f64(from + done, to, size);
        } else {
            kernels.odd_f32_of_f64(from + done, part, size);
            narrow(kernels, part, tensor, first + done, size);
        }
    }
}

void from_steps(const Kernels& kernels, const double* steps, int64_t zero, const Tensor& tensor,
                int64_t first, int64_t count) {
    const IntegerRange range = range_of(tensor.type);
    if (tensor.type == ElemType::u32) {  // beyond the kernel's i32
        for (int64_t i = 0; i < count; ++i) reference::put_steps(tensor, first + i, steps[i], zero);
        return;
    }
    Outside outside;
    int32_t part[chunk];
    for (int64_t done = 0; done < count; done += chunk) {
        const int64_t size = std::min(chunk, count - done);
        kernels.quantize(steps + done, static_cast<double>(zero), static_cast<double>(range.low),
                         static_cast<double>(range.high), part, size, outside);
        narrow_integers(part, tensor, first + done, size);
    }
    note_outside(tensor, outside);
}

void widen(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count, float* to) {
    if (tensor.type == ElemType::f32) {
        std::memcpy(to, tensor.data + first * 4, static_cast<size_t>(count) * 4);
    } else if (is_small_float(tensor.type)) {
        const std::array<float, 256>& numbers = small_float_numbers(tensor.type);
        for (int64_t i = 0; i < count; ++i) to[i] = numbers[tensor.data[first + i]];
    } else if (is_posit(tensor.type)) {
        for (int64_t i = 0; i < count; ++i) to[i] = load_float(tensor.type, tensor.data, first + i);
    } else {
        const uint16_t* from = reinterpret_cast<const uint16_t*>(tensor.data) + first;
        (tensor.type == ElemType::f16 ? kernels.f32_of_f16 : kernels.f32_of_bf16)(from, to, count);
    }
}

void narrow(const Kernels& kernels, const float* from, const Tensor& tensor, int64_t first, int64_t count) {
    if (tensor.type == ElemType::f32) {
        kernels.canonical_f32(from, reinterpret_cast<float*>(tensor.data) + first, count);
    } else if (is_posit(tensor.type) || is_small_float(tensor.type)) {
        for (int64_t i = 0; i < count; ++i)
            reference::put_float(tensor, first + i, static_cast<double>(from[i]));
    } else {
        uint16_t* to = reinterpret_cast<uint16_t*>(tensor.data) + first;
        (tensor.type == ElemType::f16 ? kernels.f16_of_f32 : kernels.bf16_of_f32)(from, to, count);
        if (tensor.beyond == nullptr) return;
        const double limit = first_beyond(tensor.type);
        if (static_cast<double>(float_of(kernels.largest_magnitude(from, count))) < limit) return;
        for (int64_t i = 0; i < count; ++i) note_float(*tensor.beyond, limit, static_cast<double>(from[i]));
    }
}

void note_outside(const Tensor& tensor, const Outside& outside) {
    if (tensor.beyond == nullptr) return;
    tensor.beyond->below += static_cast<uint64_t>(outside.below);
    tensor.beyond->above += static_cast<uint64_t>(outside.above);
}

void narrow_integers(const int32_t* from, const Tensor& tensor, int64_t first, int64_t count) {
    switch (bit_width(tensor.type)) {
        case 4:
        case 8: {
            uint8_t* to = tensor.data + first;
            for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint8_t>(from[i]);
            return;
        }
        case 16: {
            uint16_t* to = reinterpret_cast<uint16_t*>(tensor.data) + first;
            for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(from[i]);
            return;
        }
        default:
            std::memcpy(tensor.data + first * 4, from, static_cast<size_t>(count) * 4);
    }
}

}  // namespace kpu::values::fast
