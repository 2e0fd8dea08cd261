// Host arrays whose type or order is not the device's: converted at load and store.
#include "runtime/host_boundary.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "isa/builder.hpp"
#include "isa/container.hpp"
#include "isa/nem/nem.hpp"
#include "runtime/simulation.hpp"
#include "values/convert.hpp"

namespace kpu::runtime {
namespace {

using builder::per_channel;
using builder::per_tensor;
using testing::ElementsAre;
using testing::HasSubstr;

struct Side {
    ElemType elem;
    proto::HostElem host;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides = {};
    proto::Quant quant = {};
};

/// Builds y = x, byte by byte, through L2.
Module copy(const Side& x, const Side& y) {
    builder::Program p("copy");
    int64_t elements = 1;
    for (const int64_t extent : x.shape) elements *= extent;
    const auto bytes = static_cast<int64_t>(packed_bytes(x.elem, static_cast<uint64_t>(elements)));
    const auto untyped = builder::tensor(ElemType::u8, {bytes});
    const auto middle = p.region("m", p.buffer("M", Level::l2, bytes), 0, untyped);
    const auto in = p.region("in", p.buffer("X", Level::ddr, bytes), 0, untyped);
    const auto out = p.region("out", p.buffer("Y", Level::ddr, bytes), 0, untyped);
    const auto loaded = p.transfer("loaded", middle, in);
    p.transfer("stored", out, middle).after({loaded});
    const auto declare = [&](const char* name, proto::Tensor::Role role, const char* buffer,
                             const Side& side) {
        proto::Tensor& tensor = p.tensor(name, role, side.elem, side.shape, buffer);
        for (const int64_t stride : side.strides) tensor.add_stride(stride);
        tensor.set_host_elem(side.host);
        if (side.quant.kind() != proto::Quant::NONE) *tensor.mutable_quant() = side.quant;
    };
    declare("x", proto::Tensor::INPUT, "X", x);
    declare("y", proto::Tensor::OUTPUT, "Y", y);
    return p.build();
}

Simulation simulation_of(const Module& module, Mode mode = Mode::functional) {
    SimulationOptions options;
    options.mode = mode;
    return {std::make_shared<const Module>(module), nullptr, options};
}

template <class T>
NpyArray array(const char* dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
    NpyArray result{dtype, std::move(shape), std::string(values.size() * sizeof(T), '\0')};
    std::memcpy(result.data.data(), values.data(), result.data.size());
    return result;
}

template <class T>
std::vector<T> values_of(const NpyArray& array) {
    std::vector<T> result(array.data.size() / sizeof(T));
    std::memcpy(result.data(), array.data.data(), array.data.size());
    return result;
}

template <class T>
std::vector<T> copied(const Side& x, const Side& y, const NpyArray& input) {
    Simulation simulation = simulation_of(copy(x, y));
    simulation.set_input("x", input, "x.npy");
    EXPECT_EQ(simulation.run(), RunStatus::finished);
    return values_of<T>(simulation.output("y"));
}

std::string refusal(const Module& module, const NpyArray* input = nullptr) {
    try {
        Simulation simulation = simulation_of(module);
        if (input != nullptr) simulation.set_input("x", *input, "x.npy");
        simulation.run();
        simulation.output("y");
    } catch (const UserError& error) {
        return error.what();
    }
    return "accepted";
}

const Side raw_i8{ElemType::i8, proto::HOST_SAME, {6}};

// Ties go to even, what is beyond the type saturates, NaN counts as 0.
TEST(HostBoundary, FloatsAreQuantizedAndBack) {
    const Side x{ElemType::i8, proto::HOST_F32, {6}, {}, per_tensor(0.5, 3)};
    const auto given = array<float>("<f4", {6}, {0, 0.25F, 0.75F, -1, 1000, NAN});
    EXPECT_THAT(copied<int8_t>(x, raw_i8, given), ElementsAre(3, 3, 5, 1, 127, 3));
    EXPECT_THAT(copied<float>(x, x, given), ElementsAre(0, 0, 1, -1, 62, 0));
}

TEST(HostBoundary, ScalesPerChannelFollowTheOrderOfTheHost) {
    // two channels, the last dimension in memory, the first of the host
    const Side nhwc{ElemType::i8, proto::HOST_F32, {2, 3}, {1, 2}, per_channel(0, {1, 0.5})};
    const auto given = array<float>("<f4", {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_THAT(copied<int8_t>(nhwc, raw_i8, given), ElementsAre(1, 8, 2, 10, 3, 12));
    EXPECT_THAT(copied<float>(nhwc, nhwc, given), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(HostBoundary, AnImageIsNchwToTheHostAndNhwcInMemory) {
    const std::vector<int64_t> shape{1, 3, 2, 2}, strides{12, 1, 6, 3};
    const Side x{ElemType::i8, proto::HOST_F32, shape, strides, per_tensor(1)};
    const Side y{ElemType::i8, proto::HOST_SAME, {12}};
    std::vector<float> planes(12);
    for (size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<float>(i);
    EXPECT_THAT(copied<int8_t>(x, y, array<float>("<f4", shape, planes)),
                ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
    EXPECT_EQ(copied<float>(x, x, array<float>("<f4", shape, planes)), planes);
    const Simulation simulation = simulation_of(copy(x, x));
    EXPECT_THAT(boundary_lines(simulation.program()),
                ElementsAre("x f32[1,3,2,2] -> i8 NHWC, scale 1 (outside the cycles)",
                            "i8 NHWC -> y f32[1,3,2,2], scale 1 (outside the cycles)"));
}

TEST(HostBoundary, FloatsAreRoundedOnce) {
    for (const ElemType elem : {ElemType::f16, ElemType::bf16}) {
        const Side side{elem, proto::HOST_F32, {3}};
        const auto round = [elem](double value) {
            return elem == ElemType::f16 ? values::f32_of_f16(values::f16_of(value))
                                         : values::f32_of_bf16(values::bf16_of(value));
        };
        const std::vector<float> given{0.1F, -3.14159F, 1e9F};
        EXPECT_THAT(copied<float>(side, side, array<float>("<f4", {3}, given)),
                    ElementsAre(round(given[0]), round(given[1]), round(given[2])));
    }
}

// 1e5 is no f16: said of the output, unless the host gave numbers that are not finite.
TEST(HostBoundary, OutputsThatAreNotFiniteAreSaid) {
    const auto said = [](ElemType elem, const std::vector<float>& given) {
        const Side side{elem, proto::HOST_F32, {3}};
        Simulation simulation = simulation_of(copy(side, side));
        simulation.set_input("x", array<float>("<f4", {3}, given), "x.npy");
        EXPECT_EQ(simulation.run(), RunStatus::finished);
        return simulation.value_findings().to_string();
    };
    EXPECT_THAT(
        said(ElemType::f16, {1, -1e5F, 1e5F}),
        HasSubstr("info: output `y`: 2 of 3 numbers are NaN or infinite, those of the inputs are not"));
    // of infinities and NaN that go in nothing is said, but of the number that f16 does not hold
    for (const float special : {INFINITY, NAN}) {
        const std::string told = said(ElemType::f16, {1, -1e5F, special});
        EXPECT_THAT(told, HasSubstr("input `x`: 1 of its numbers left the range of fp16"));
        EXPECT_THAT(told, Not(HasSubstr("output `y`")));
    }
    EXPECT_EQ(said(ElemType::f16, {1, 2, INFINITY}), "");
    EXPECT_EQ(said(ElemType::f16, {1, -6e4F, 6e4F}), "");
    EXPECT_EQ(said(ElemType::bf16, {1, -1e5F, 1e5F}), "");
}

TEST(HostBoundary, Int64MustFitAndIsWidened) {
    const Side side{ElemType::i32, proto::HOST_I64, {3}};
    const std::vector<int64_t> given{-5, INT32_MAX, INT32_MIN};
    EXPECT_EQ(copied<int64_t>(side, side, array<int64_t>("<i8", {3}, given)), given);
    const auto beyond = array<int64_t>("<i8", {3}, {0, 1, int64_t{1} << 31});
    EXPECT_EQ(refusal(copy(side, side), &beyond),
              "x.npy: element 2 is 2147483648, which i32 does not hold. Fix: give values of "
              "[-2147483648..2147483647] for input `x`.");
}

// Integers that a device cuts to 32 bits show by its ends; inputs are checked, so only results can.
TEST(HostBoundary, IntegersAtTheEndsAreSaid) {
    const Side side{ElemType::i32, proto::HOST_I64, {3}};
    const auto said = [&](const std::vector<int64_t>& given) {
        Simulation simulation = simulation_of(copy(side, side));
        simulation.set_input("x", array<int64_t>("<i8", {3}, given), "x.npy");
        EXPECT_EQ(simulation.run(), RunStatus::finished);
        return simulation.value_findings().to_string();
    };
    EXPECT_THAT(said({1, INT32_MAX, INT32_MIN}),
                HasSubstr("warning: output `y`: 2 of 3 integers are the least or the greatest of 32 bits"));
    EXPECT_EQ(said({1, INT32_MAX - 1, INT32_MIN + 1}), "");
}

TEST(HostBoundary, Uint64MustFitBothWays) {
    const Side side{ElemType::i32, proto::HOST_U64, {3}};
    const std::vector<uint64_t> given{0, 5, INT32_MAX};
    EXPECT_EQ(copied<uint64_t>(side, side, array<uint64_t>("<u8", {3}, given)), given);
    const auto beyond = array<uint64_t>("<u8", {3}, {0, UINT64_MAX, 1});
    EXPECT_EQ(refusal(copy(side, side), &beyond),
              "x.npy: element 1 is 18446744073709551615, which i32 does not hold. Fix: give values of "
              "[0..2147483647] for input `x`.");
    const auto below = array<int32_t>("<i4", {3}, {0, 1, -1});
    EXPECT_THAT(refusal(copy({ElemType::i32, proto::HOST_SAME, {3}}, side), &below),
                HasSubstr("output `y`: element 2 is -1, which u64 does not hold"));
}

TEST(HostBoundary, DoublesAreF32OnTheDevice) {
    const Side side{ElemType::f32, proto::HOST_F64, {3}};
    const std::vector<double> given{0.1, -1e300, INFINITY};
    const std::vector<double> fits{0.1, -1e30, INFINITY};
    EXPECT_THAT(copied<double>(side, side, array<double>("<f8", {3}, fits)),
                ElementsAre(double{0.1F}, double{-1e30F}, INFINITY));
    const auto beyond = array<double>("<f8", {3}, given);
    EXPECT_THAT(refusal(copy(side, side), &beyond),
                HasSubstr("x.npy: element 1 is -1e+300, which f32 does not hold. Fix:"));
    const Side half{ElemType::f16, proto::HOST_F64, {2}};
    EXPECT_THAT(copied<double>(half, half, array<double>("<f8", {2}, {0.1, 70000})),
                ElementsAre(double{values::f32_of_f16(values::f16_of(0.1))}, INFINITY));
    const Side steps{ElemType::i8, proto::HOST_F64, {2}, {}, per_tensor(0.5)};
    EXPECT_THAT(copied<double>(steps, steps, array<double>("<f8", {2}, {1.2, -100})), ElementsAre(1, -64));
}

// Nothing is copied; the host gives and gets arrays of that shape all the same.
TEST(HostBoundary, TensorsWithoutElements) {
    Module module = copy({ElemType::f32, proto::HOST_SAME, {2}}, {ElemType::f32, proto::HOST_SAME, {2}});
    for (const auto& [name, role] :
         {std::pair("none", proto::Tensor::INPUT), {"nothing", proto::Tensor::OUTPUT}}) {
        proto::Tensor& tensor = *module.program.add_tensor();
        tensor = module.program.tensor(0);
        tensor.set_id(name);
        tensor.set_role(role);
        tensor.mutable_shape()->Set(0, 0);
    }
    Simulation simulation = simulation_of(module);
    simulation.set_input("x", array<float>("<f4", {2}, {1, 2}), "x.npy");
    simulation.set_input("none", array<float>("<f4", {0}, {}), "none.npy");
    EXPECT_EQ(simulation.run(), RunStatus::finished);
    EXPECT_THAT(values_of<float>(simulation.output("y")), ElementsAre(1, 2));
    EXPECT_THAT(simulation.output("nothing").shape, ElementsAre(0));
    EXPECT_EQ(simulation.output("nothing").data, "");
}

TEST(HostBoundary, BooleansAre0And1) {
    const Side side{ElemType::u8, proto::HOST_BOOL, {4}};
    const auto given = array<uint8_t>("|b1", {4}, {0, 1, 7, 0});  // a file may hold any byte
    EXPECT_THAT(copied<uint8_t>(side, {ElemType::u8, proto::HOST_SAME, {4}}, given), ElementsAre(0, 1, 1, 0));
    const Side bytes{ElemType::u8, proto::HOST_SAME, {4}};
    EXPECT_THAT(copied<uint8_t>(bytes, side, array<uint8_t>("|u1", {4}, {0, 1, 200, 0})),
                ElementsAre(0, 1, 1, 0));
}

TEST(HostBoundary, NarrowIntegersOfTheHostAreCheckedOnBothSides) {
    const Side x{ElemType::i32, proto::HOST_SAME, {2}}, y{ElemType::i32, proto::HOST_U8, {2}};
    EXPECT_THAT(copied<uint8_t>(x, y, array<int32_t>("<i4", {2}, {0, 255})), ElementsAre(0, 255));
    const auto beyond = array<int32_t>("<i4", {2}, {0, 256});
    EXPECT_THAT(refusal(copy(x, y), &beyond),
                HasSubstr("output `y`: element 1 is 256, which u8 does not hold"));
}

TEST(HostBoundary, ArraysMustHaveTheHostsType) {
    const Side side{ElemType::i8, proto::HOST_F32, {2}, {}, per_tensor(1)};
    const auto raw = array<int8_t>("|i1", {2}, {1, 2});
    EXPECT_THAT(refusal(copy(side, side), &raw), HasSubstr("float32 is needed for element type f32"));
    const Side wide{ElemType::i32, proto::HOST_I64, {2}};
    const auto narrow = array<int32_t>("<i4", {2}, {1, 2});
    EXPECT_THAT(refusal(copy(wide, wide), &narrow), HasSubstr("int64 is needed for element type i64"));
}

// Zeros of the host are zero points; random floats lie in [-1, 1) before they are quantized.
TEST(HostBoundary, FillsAreHostValues) {
    const Side x{ElemType::i8, proto::HOST_F32, {1000}, {}, per_tensor(1.0 / 64, 5)};
    const Side y{ElemType::i8, proto::HOST_SAME, {1000}};
    Simulation simulation = simulation_of(copy(x, y));
    simulation.run();  // inputs without data are zeros
    EXPECT_THAT(values_of<int8_t>(simulation.output("y")), testing::Each(5));
    simulation.fill_inputs_random(7);
    simulation.reset();
    simulation.run();
    const auto random = values_of<int8_t>(simulation.output("y"));
    EXPECT_THAT(random, testing::Each(testing::AllOf(testing::Ge(5 - 64), testing::Le(5 + 64))));
    EXPECT_LT(*std::min_element(random.begin(), random.end()), -40);
    EXPECT_GT(*std::max_element(random.begin(), random.end()), 50);

    const Side tokens{ElemType::i32, proto::HOST_I64, {64}};
    Simulation ids = simulation_of(copy(tokens, tokens));
    ids.fill_inputs_random(7);
    ids.run();
    EXPECT_THAT(values_of<int64_t>(ids.output("y")), testing::Each(testing::AnyOf(0, 1)));
    EXPECT_THAT(values_of<int64_t>(ids.output("y")), testing::Contains(1));
}

TEST(HostBoundary, TimingNeedsNoData) {
    const Side side{ElemType::i8, proto::HOST_F32, {64}, {}, per_tensor(1)};
    const auto platform = platforms::load("npm_lite");
    SimulationOptions options;
    options.mode = Mode::timing;
    Simulation timing(std::make_shared<const Module>(copy(side, side)), &platform, options);
    EXPECT_EQ(timing.run(), RunStatus::finished);
    Simulation values(std::make_shared<const Module>(copy(side, side)), &platform, {});
    values.fill_inputs_random(1);
    EXPECT_EQ(values.run(), RunStatus::finished);
    EXPECT_EQ(values.now(), timing.now());
}

TEST(HostBoundary, TravelsInContainersAndText) {
    const Side side{ElemType::i8, proto::HOST_F32, {2, 3}, {1, 2}, per_channel(0, {1, 0.5})};
    const Module module = copy(side, side);
    const std::string text = nem::print(module);
    EXPECT_THAT(text, HasSubstr("HOST_F32"));
    const Module again = parse_container(serialize_container(module), "copy.kpu");
    EXPECT_EQ(again.program.tensor(0).host_elem(), proto::HOST_F32);
    EXPECT_EQ(nem::print(again), text);
}

TEST(HostBoundary, RefusesWhatHasNoMeaning) {
    const auto with = [](Side x) { return refusal(copy(x, {x.elem, proto::HOST_SAME, x.shape})); };
    EXPECT_EQ(with({ElemType::i8, proto::HOST_F32, {4}}),
              "copy: error: tensor `x`: HOST_F32 of the host cannot become i8. Fix: floats become floats, or "
              "integers "
              "with quant; integers become integers without quant.");
    EXPECT_THAT(with(Side{ElemType::i32, proto::HOST_I64, {4}, {}, per_tensor(1)}),
                HasSubstr("HOST_I64 of the host cannot become i32 with quant"));
    EXPECT_THAT(with(Side{ElemType::f32, proto::HOST_I64, {4}}), HasSubstr("cannot become f32"));
    EXPECT_THAT(with(Side{ElemType::i8, proto::HOST_F32, {4}, {}, per_channel(0, {1, 2})}),
                HasSubstr("tensor `x` has 2 quantization scales, but 4 along axis 0"));
    EXPECT_THAT(with(Side{ElemType::i8, proto::HOST_F32, {4}, {}, per_tensor(1, 300)}),
                HasSubstr("zero_point 300"));
    Module weight = copy(raw_i8, raw_i8);
    weight.program.mutable_tensor(0)->set_role(proto::Tensor::WEIGHT);
    weight.program.mutable_tensor(0)->set_host_elem(proto::HOST_I64);
    EXPECT_THAT(refusal(weight), HasSubstr("tensor `x` has host_elem HOST_I64, but the host neither"));
    Module unknown = copy(raw_i8, raw_i8);
    unknown.program.mutable_tensor(0)->set_host_elem(static_cast<proto::HostElem>(99));
    EXPECT_THROW(parse_container(serialize_container(unknown), "x.kpu"), UserError);
}

}  // namespace
}  // namespace kpu::runtime
