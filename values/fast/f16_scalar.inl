// Conversions between f16 and f32 by integer operations; included after kernels.inl.
namespace kpu::values::fast {
namespace {

void f32_of_f16(const uint16_t* from, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t magnitude = from[i] & 0x7fff;
        const uint32_t sign = static_cast<uint32_t>(from[i] & 0x8000) << 16;
        // the exponent's bias differs by 112; infinities and NaNs need the rest of the way to 255
        const uint32_t number = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000 : 0x38000000);
        const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F;
        to[i] = float32(sign | (magnitude < 0x400 ? bits32(subnormal) : number));
    }
}

void f16_of_f32(const float* from, uint16_t* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t bits = bits32(from[i]);
        const uint32_t magnitude = bits & 0x7fffffff;
        uint32_t half = 0x7c00;
        if (magnitude > 0x7f800000) {
            to[i] = 0x7e00;
            continue;
        }
        if (magnitude < 0x38800000) {
            // adding 0.5 aligns the last subnormal place of f16 with the last place of f32, which rounds
            half = bits32(float32(magnitude) + 0.5F) - 0x3f000000;
        } else if (magnitude < 0x47800000) {
            half = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
        }
        to[i] = static_cast<uint16_t>(half | (bits >> 16 & 0x8000));
    }
}

}  // namespace
}  // namespace kpu::values::fast
