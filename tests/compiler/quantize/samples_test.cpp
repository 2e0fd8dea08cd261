// Samples of a model's inputs: arrays, pictures, random numbers, and every way in which a folder can be wrong.
#include "compiler/quantize/samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>

#include "base/npy.hpp"
#include "base/read_file.hpp"
#include "base/text_output.hpp"
#include "compiler/quantize/pictures.hpp"
#include "tests/compiler/quantize/networks.hpp"
#include "values/convert.hpp"

namespace kpu::quantize {
namespace {

namespace fs = std::filesystem;
using testing::Data;
using testing::Graph;
using ::testing::HasSubstr;
using testing::Network;

class SamplesTest : public ::testing::Test {
  protected:
    SamplesTest() {
        const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
        folder_ = fs::temp_directory_path() / (std::string("kpusim_samples_") + test->name());
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    ~SamplesTest() override { fs::remove_all(folder_); }

    std::string path(const std::string& name) const { return (folder_ / name).string(); }

    void array(const std::string& name, const std::vector<int64_t>& shape, float first = 0) const {
        fs::create_directories((folder_ / name).parent_path());
        std::vector<float> numbers(static_cast<size_t>(graph::dims(shape).product()));
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + static_cast<float>(i);
        write_npy(path(name), ElemType::f32, shape,
                  {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)});
    }
    /// Returns pictures whose pixel (x, y) is red x, green y, blue 200.
    static std::vector<uint8_t> pixels(int width, int height) {
        std::vector<uint8_t> rgb;
        for (int y = 0; y < height; ++y) {
            for (int x = 0; x < width; ++x) {
                rgb.push_back(static_cast<uint8_t>(x));
                rgb.push_back(static_cast<uint8_t>(y));
                rgb.push_back(200);
            }
        }
        return rgb;
    }
    void png(const std::string& name, int width, int height) const {
        png_image image{};
        image.version = PNG_IMAGE_VERSION;
        image.width = static_cast<uint32_t>(width);
        image.height = static_cast<uint32_t>(height);
        image.format = PNG_FORMAT_RGB;
        ASSERT_NE(
            png_image_write_to_file(&image, path(name).c_str(), 0, pixels(width, height).data(), 0, nullptr),
            0);
    }
    void jpeg(const std::string& name, int width, int height) const {
        tjhandle handle = tjInitCompress();
        unsigned char* out = nullptr;
        unsigned long size = 0;
        ASSERT_EQ(tjCompress2(handle, pixels(width, height).data(), width, 0, height, TJPF_RGB, &out, &size,
                              TJSAMP_444, 100, TJFLAG_ACCURATEDCT),
                  0);
        write_file(path(name), {reinterpret_cast<const char*>(out), size});
        tjFree(out);
        tjDestroy(handle);
    }
    std::unique_ptr<Samples> open(const Graph& graph, SampleOptions options = least(1)) const {
        return open_samples(graph, folder_.string(), options);
    }
    static SampleOptions least(size_t count) {
        SampleOptions options;
        options.least = count;
        return options;
    }
    static Network image(std::vector<int64_t> shape) {
        Network net;
        net.output(net.op("relu", {net.input("image", std::move(shape))}));
        return net;
    }
    static std::vector<float> floats(const Data& data) {
        std::vector<float> numbers(data.size / sizeof(float));
        std::memcpy(numbers.data(), data.bytes, data.size);
        return numbers;
    }
    std::string refusal(const Graph& graph, SampleOptions options = least(1)) const {
        try {
            const auto samples = open(graph, options);
            for (size_t i = 0; i < samples->count(); ++i) samples->load(i);
        } catch (const UserError& error) {
            return error.what();
        }
        return "accepted";
    }

    fs::path folder_;
};

TEST_F(SamplesTest, ArraysInTheOrderOfTheirNames) {
    array("b.npy", {1, 2}, 10);
    array("a.npy", {2}, 20);  // without the leading 1
    write_file(path("notes.txt"), "no sample");
    const Network net = image({1, 2});
    const auto samples = open(net.graph);
    EXPECT_TRUE(samples->calibrated());
    ASSERT_EQ(samples->count(), 2U);
    EXPECT_THAT(floats(samples->load(0)[0]), ::testing::ElementsAre(20, 21));
    EXPECT_THAT(floats(samples->load(1)[0]), ::testing::ElementsAre(10, 11));
}

TEST_F(SamplesTest, SeveralInputsArePairedByName) {
    Network net;
    const auto a = net.input("left/x", {2}), b = net.input("right", {2});
    net.output(net.op("add", {a, b}));
    array("left_x/1.npy", {2}, 1);
    array("left_x/2.npy", {2}, 2);
    array("right/2.npy", {2}, 20);
    array("right/1.npy", {2}, 10);
    const auto sample = open(net.graph)->load(1);
    EXPECT_EQ(floats(sample[0])[0], 2);
    EXPECT_EQ(floats(sample[1])[0], 20);
    fs::remove(path("right/2.npy"));
    EXPECT_EQ(refusal(net.graph),
              path("left_x/2.npy") +
                  ": input `right` has no sample of this name. Fix: give every input a file of "
                  "the name.");
    array("right/3.npy", {2});
    fs::remove(path("left_x/2.npy"));
    EXPECT_THAT(refusal(net.graph), HasSubstr("right/3.npy: input `left/x` has no sample of this name"));
}

TEST_F(SamplesTest, IntegersOfTheHost) {
    Network net = image({3});
    net.graph.inputs[0].host = graph::HostType::int64;
    net.graph.value(net.graph.inputs[0].value).elem = ElemType::i32;
    const std::vector<int64_t> numbers{1, -2, 3};
    write_npy(path("a.npy"), "<i8", {3}, {reinterpret_cast<const char*>(numbers.data()), 24});
    EXPECT_EQ(open(net.graph)->load(0)[0].size, 24U);
    array("a.npy", {3});
    EXPECT_THAT(refusal(net.graph), HasSubstr("int64 is needed for element type i64"));
}

TEST_F(SamplesTest, PicturesAreRgbPlanesBetween0And1) {
    png("a.png", 4, 2);
    const auto planes = floats(open(image({1, 3, 2, 4}).graph)->load(0)[0]);
    ASSERT_EQ(planes.size(), 24U);
    EXPECT_EQ(planes[3], 3 / 255.0F);      // red of (3, 0)
    EXPECT_EQ(planes[8 + 4], 1 / 255.0F);  // green of (0, 1)
    EXPECT_EQ(planes[16 + 7], 200 / 255.0F);
    const auto pixel = floats(open(image({2, 2, 4, 3}).graph)->load(0)[0]);  // NHWC, a batch of two
    ASSERT_EQ(pixel.size(), 48U);
    EXPECT_EQ(pixel[3 * 3], 3 / 255.0F);
    EXPECT_EQ(pixel[24 + 3 * 3], 3 / 255.0F);
    const auto grey = floats(open(image({1, 1, 2, 4}).graph)->load(0)[0]);
    EXPECT_EQ(grey[7], static_cast<float>((3 * 19595 + 1 * 38470 + 200 * 7471 + 32768) >> 16) / 255.0F);
}

TEST_F(SamplesTest, MeanAndDeviationOfEachColour) {
    png("a.PNG", 4, 2);
    SampleOptions options = least(1);
    options.mean = {0.5, 0.25, 0};
    options.deviation = {2};
    const auto planes = floats(open(image({3, 2, 4}).graph, options)->load(0)[0]);
    EXPECT_EQ(planes[0], -0.25F);
    EXPECT_EQ(planes[8], -0.125F);
    EXPECT_EQ(planes[16], static_cast<float>(200 / 255.0 / 2));
    options.mean = {1, 2};
    EXPECT_THAT(refusal(image({3, 2, 4}).graph, options),
                HasSubstr("the image mean has 2 values, but pictures have 3"));
    options.mean = {};
    options.deviation = {0};
    EXPECT_THAT(refusal(image({3, 2, 4}).graph, options), HasSubstr("the image deviation has 0. Fix"));
}

TEST_F(SamplesTest, JpegIsNearlyThePicture) {
    jpeg("a.jpg", 32, 16);
    const auto planes = floats(open(image({1, 3, 16, 32}).graph)->load(0)[0]);
    for (int y = 0; y < 16; ++y) {
        for (int x = 0; x < 32; ++x) {
            EXPECT_NEAR(planes[static_cast<size_t>(y * 32 + x)] * 255, x, 3);
            EXPECT_NEAR(planes[static_cast<size_t>(1024 + y * 32 + x)] * 255, 200, 3);
        }
    }
}

TEST_F(SamplesTest, PicturesOfAnotherSizeAreNamed) {
    png("a.png", 4, 2);
    EXPECT_EQ(refusal(image({1, 3, 8, 8}).graph),
              path("a.png") +
                  ": the picture has 4 x 2 pixels, but 8 x 8 (width x height) are needed. Fix: resize it.");
    fs::remove(path("a.png"));
    jpeg("b.jpeg", 16, 8);
    EXPECT_THAT(refusal(image({1, 3, 8, 8}).graph), HasSubstr("b.jpeg: the picture has 16 x 8 pixels"));
    EXPECT_THAT(refusal(image({1, 5, 8, 8}).graph),
                HasSubstr("(1, 5, 8, 8), which is not a picture of 1 or 3 colours"));
}

TEST_F(SamplesTest, DamagedPicturesAreNamed) {
    const Graph graph = image({1, 3, 64, 64}).graph;
    png("a.png", 64, 64);
    jpeg("b.jpg", 64, 64);
    for (const char* name : {"a.png", "b.jpg"}) {
        const std::string whole = read_file(path(name));
        for (const size_t keep : {size_t{9}, size_t{20}, whole.size() / 2, whole.size() - 14}) {
            write_file(path("cut.png"), whole.substr(0, keep));
            try {
                read_picture(path("cut.png"), 64, 64);
                FAIL() << name << " cut after " << keep;
            } catch (const UserError& error) {
                EXPECT_THAT(error.what(), HasSubstr("cut.png: the picture cannot be read: "));
                EXPECT_THAT(error.what(), HasSubstr("Fix: "));
            }
        }
        std::string flipped = whole;  // never a crash
        for (size_t at = 0; at < flipped.size(); at += 7) {
            flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
            write_file(path("cut.png"), flipped);
            try {
                read_picture(path("cut.png"), 64, 64);
            } catch (const UserError&) {
            }
            flipped[at] = whole[at];
        }
    }
    write_file(path("cut.png"), "GIF89a");
    EXPECT_THAT(refusal(graph), HasSubstr("it is neither PNG nor JPEG"));
}

// A PNG whose compressed data go on after its last row is not inflated to its end; the little that writers
// leave over is no mistake.
TEST_F(SamplesTest, PicturesEndAtTheirSize) {
    constexpr uint32_t side = 16;
    const auto chunk = [](const std::string& type, const std::string& data) {
        const auto number = [](uint32_t value) {
            std::string bytes;
            for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
            return bytes;
        };
        const std::string both = type + data;
        const auto sum =
            ::crc32(0, reinterpret_cast<const Bytef*>(both.data()), static_cast<uInt>(both.size()));
        return number(static_cast<uint32_t>(data.size())) + both + number(static_cast<uint32_t>(sum));
    };
    const auto write = [&](bool interlaced, size_t behind) {
        const std::string pixels((1 + 3 * side) * side * (interlaced ? 2 : 1) + behind, '\0');
        uLongf size = ::compressBound(pixels.size());
        std::string packed(size, '\0');
        ASSERT_EQ(::compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                              reinterpret_cast<const Bytef*>(pixels.data()), pixels.size(), 9),
                  Z_OK);
        packed.resize(size);
        const std::string head{0, 0, 0, side, 0, 0, 0, side, 8, 2, 0, 0, interlaced ? '\1' : '\0'};
        write_file(path("bomb.png"),
                   "\x89PNG\r\n\x1a\n" + chunk("IHDR", head) + chunk("IDAT", packed) + chunk("IEND", ""));
    };
    for (const bool interlaced : {false, true}) {
        write(interlaced, size_t{256} << 20);
        try {
            read_picture(path("bomb.png"), side, side);
            FAIL() << interlaced;
        } catch (const UserError& error) {
            EXPECT_THAT(error.what(), HasSubstr("its data go on after its last row. Fix: "));
        }
        write(interlaced, 1000);
        EXPECT_EQ(read_picture(path("bomb.png"), side, side).rgb, std::vector<uint8_t>(3 * side * side, 0));
    }
}

TEST_F(SamplesTest, WrongArraysAreNamed) {
    array("a.npy", {3});
    EXPECT_EQ(refusal(image({1, 2}).graph), path("a.npy") +
                                                ": the sample has shape (3), but input `image` has shape (1, "
                                                "2). Fix: save arrays of that shape.");
    const std::vector<double> doubles{1, 2};
    write_npy(path("a.npy"), "<f8", {1, 2}, {reinterpret_cast<const char*>(doubles.data()), 16});
    EXPECT_THAT(refusal(image({1, 2}).graph), HasSubstr("a.npy: the array is float64 but float32 is needed"));
    std::string object("\x93NUMPY\x01\x00", 8);
    const std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n";
    object += {static_cast<char>(header.size()), '\0'};
    write_file(path("a.npy"), object + header + "\x80\x04K\x01.");
    EXPECT_THAT(refusal(image({1, 2}).graph), HasSubstr("a.npy: dtype `|O` holds Python objects"));
    write_file(path("a.npy"), "\x80\x04K\x01.");
    EXPECT_THAT(refusal(image({1, 2}).graph), HasSubstr("does not start with the NumPy magic"));
}

TEST_F(SamplesTest, TooFewAndNone) {
    array("a.npy", {1, 2});
    EXPECT_EQ(
        refusal(image({1, 2}).graph, {}),
        folder_.string() +
            ": INT8 calibration requires at least 4 samples, found 1. Fix: add .npy, .png or .jpg files, or "
            "calibrate with random:SEED.");
    png("a.png", 2, 2);
    EXPECT_THAT(refusal(image({1, 2}).graph),
                HasSubstr("are samples of one name. Fix: rename or remove one."));
    const Graph graph = image({1, 2}).graph;
    EXPECT_THAT([&] { open_samples(graph, path("nowhere")); },
                ::testing::ThrowsMessage<UserError>(
                    HasSubstr("nowhere: the folder of samples cannot be read: No such")));
    EXPECT_THAT([&] { open_samples(graph, "random:"); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("`random:` has no seed. Fix: write random:1")));
    EXPECT_THAT([&] { given_samples(graph, {}); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("requires at least 4 samples, found 0")));
    EXPECT_THAT(
        [&] { given_samples(graph, std::vector<std::vector<Data>>(4)); },
        ::testing::ThrowsMessage<UserError>(HasSubstr("calibration sample 0 does not have an array")));
}

TEST_F(SamplesTest, RandomNumbersAreNormalAndRepeat) {
    const Network net = image({100, 100});
    const auto one = open_samples(net.graph, "random:3"), same = open_samples(net.graph, "random:3"),
               other = open_samples(net.graph, "random:4");
    EXPECT_FALSE(one->calibrated());
    EXPECT_EQ(one->count(), 8U);
    const auto numbers = floats(one->load(1)[0]);
    EXPECT_EQ(numbers, floats(same->load(1)[0]));
    EXPECT_NE(numbers, floats(one->load(0)[0]));
    EXPECT_NE(numbers, floats(other->load(1)[0]));
    double sum = 0, squares = 0, beyond = 0;
    for (const float number : numbers) {
        sum += number;
        squares += static_cast<double>(number) * number;
        beyond += std::fabs(number) > 2 ? 1 : 0;
    }
    EXPECT_NEAR(sum / 1e4, 0, 0.05);
    EXPECT_NEAR(squares / 1e4, 1, 0.05);
    EXPECT_NEAR(beyond / 1e4, 0.0455, 0.01);
}

}  // namespace
}  // namespace kpu::quantize
