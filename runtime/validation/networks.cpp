#include "runtime/validation/networks.hpp"

#include <algorithm>
#include <charconv>

namespace kpu::validation {
namespace {

constexpr int64_t largest = int64_t{1} << 17;

/// Returns the numbers between x; nothing where one is no number of the range.
std::optional<std::vector<int64_t>> numbers_of(std::string_view text) {
    std::vector<int64_t> numbers;
    for (;;) {
        const size_t end = text.find('x');
        const std::string_view word = text.substr(0, end);
        int64_t value = 0;
        const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || rest != word.data() + word.size() || value < 0 || value > largest)
            return std::nullopt;
        numbers.push_back(value);
        if (end == std::string_view::npos) return numbers;
        text.remove_prefix(end + 1);
    }
}

Kernel product(int64_t m, int64_t k, int64_t n) {
    Kernel kernel;
    kernel.kind = Kernel::Kind::product;
    kernel.m = m, kernel.k = k, kernel.n = n;
    return kernel;
}

Kernel rows(const char* opcode, int64_t m, int64_t n) {
    Kernel kernel;
    kernel.kind = Kernel::Kind::rows;
    kernel.opcode = opcode;
    kernel.m = m, kernel.n = n;
    return kernel;
}

Kernel attention(int64_t heads, int64_t places, int64_t width) {
    Kernel kernel;
    kernel.kind = Kernel::Kind::attention;
    kernel.heads = heads, kernel.m = places, kernel.n = width;
    return kernel;
}

Kernel convolution(int64_t batch, int64_t side, int64_t in, int64_t out, int64_t window, int64_t stride,
                   int64_t pad) {
    Kernel kernel;
    kernel.kind = Kernel::Kind::convolution;
    kernel.batch = batch, kernel.height = kernel.width = side;
    kernel.k = in, kernel.n = out, kernel.window = window, kernel.stride = stride, kernel.pad = pad;
    return kernel;
}

/// Convolutions and the last product of a residual network of pictures of 224 pixels; what is element-wise is taken to be
/// done on the way, as XLA fuses it.
std::vector<Kernel> residual_network(const std::vector<int64_t>& blocks, bool bottleneck) {
    std::vector<Kernel> kernels{convolution(1, 224, 3, 64, 7, 2, 3)};
    int64_t side = 56, in = 64;
    for (size_t stage = 0; stage < blocks.size(); ++stage) {
        const int64_t inner = int64_t{64} << stage, out = bottleneck ? 4 * inner : inner;
        for (int64_t block = 0; block < blocks[stage]; ++block) {
            const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
            if (bottleneck) {
                kernels.push_back(convolution(1, side, in, inner, 1, 1, 0));
                kernels.push_back(convolution(1, side, inner, inner, 3, stride, 1));
                kernels.push_back(convolution(1, side / stride, inner, out, 1, 1, 0));
            } else {
                kernels.push_back(convolution(1, side, in, inner, 3, stride, 1));
                kernels.push_back(convolution(1, side / stride, inner, inner, 3, 1, 1));
            }
            if (in != out) kernels.push_back(convolution(1, side, in, out, 1, stride, 0));
            side /= stride, in = out;
        }
    }
    kernels.push_back(product(1, in, 1000));
    return kernels;
}

/// Returns one layer of an encoder for 512 places; sums and gelu are taken to be done on the way.
std::vector<Kernel> encoder_layer(int64_t hidden) {
    constexpr int64_t places = 512, width = 64;
    return {product(places, hidden, 3 * hidden), attention(hidden / width, places, width),
            product(places, hidden, hidden),     rows("layernorm", places, hidden),
            product(places, hidden, 4 * hidden), product(places, 4 * hidden, hidden),
            rows("layernorm", places, hidden)};
}

std::optional<Workload> network_of(std::string_view name) {
    const std::string pictures =
        "batch and layout: 1 picture is taken, sums and poolings as part of the convolutions";
    const std::string layer =
        "layers and places: one layer and 512 places are taken, as the cycles of the simulators say";
    if (name == "resnet18")
        return Workload{LayerClass::network, residual_network({2, 2, 2, 2}, false), pictures};
    if (name == "resnet50")
        return Workload{LayerClass::network, residual_network({3, 4, 6, 3}, true), pictures};
    if (name == "bert_base") return Workload{LayerClass::network, encoder_layer(768), layer};
    if (name == "bert_large") return Workload{LayerClass::network, encoder_layer(1024), layer};
    if (name == "bert_xlarge") return Workload{LayerClass::network, encoder_layer(2048), layer};
    return std::nullopt;
}

struct ChipRow {
    std::string_view network, layer;
    int64_t side, in, out, kernel, stride, pad, groups, pictures;
};
constexpr ChipRow chip_rows[] = {
    {"alexnet", "CONV1", 227, 3, 96, 11, 4, 0, 1, 4},   {"alexnet", "CONV2", 27, 48, 128, 5, 1, 2, 2, 4},
    {"alexnet", "CONV3", 13, 256, 384, 3, 1, 1, 1, 4},  {"alexnet", "CONV4", 13, 192, 192, 3, 1, 1, 2, 4},
    {"alexnet", "CONV5", 13, 192, 128, 3, 1, 1, 2, 4},  {"vgg16", "CONV1-1", 224, 3, 64, 3, 1, 1, 1, 3},
    {"vgg16", "CONV1-2", 224, 64, 64, 3, 1, 1, 1, 3},   {"vgg16", "CONV2-1", 112, 64, 128, 3, 1, 1, 1, 3},
    {"vgg16", "CONV2-2", 112, 128, 128, 3, 1, 1, 1, 3}, {"vgg16", "CONV3-1", 56, 128, 256, 3, 1, 1, 1, 3},
    {"vgg16", "CONV3-2", 56, 256, 256, 3, 1, 1, 1, 3},  {"vgg16", "CONV3-3", 56, 256, 256, 3, 1, 1, 1, 3},
    {"vgg16", "CONV4-1", 28, 256, 512, 3, 1, 1, 1, 3},  {"vgg16", "CONV4-2", 28, 512, 512, 3, 1, 1, 1, 3},
    {"vgg16", "CONV4-3", 28, 512, 512, 3, 1, 1, 1, 3},  {"vgg16", "CONV5-1", 14, 512, 512, 3, 1, 1, 1, 3},
    {"vgg16", "CONV5-2", 14, 512, 512, 3, 1, 1, 1, 3},  {"vgg16", "CONV5-3", 14, 512, 512, 3, 1, 1, 1, 3}};

}  // namespace

std::optional<ChipLayer> chip_layer_of(std::string_view network, std::string_view layer) {
    for (const ChipRow& row : chip_rows) {
        if (row.network != network || row.layer != layer) continue;
        ChipLayer found;
        found.times = row.groups * row.pictures;
        Work& work = found.work;
        work.kind = Work::Kind::convolution;
        work.in_channels = row.in, work.out_channels = row.out;
        work.in_height = work.in_width = row.side;
        work.kernel = row.kernel, work.stride = row.stride, work.pad = row.pad;
        work.out_height = work.out_width = (row.side + 2 * row.pad - row.kernel) / row.stride + 1;
        return found;
    }
    return std::nullopt;
}

std::optional<Workload> workload_of(std::string_view name) {
    if (auto network = network_of(name)) return network;
    const size_t end = name.find('_');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view kind = name.substr(0, end);
    const auto sizes = numbers_of(name.substr(end + 1));
    if (!sizes) return std::nullopt;
    const std::vector<int64_t>& n = *sizes;
    const size_t positive = kind == "conv" ? 7 : n.size();  // a convolution may have no padding
    if (std::any_of(n.begin(), n.begin() + static_cast<int64_t>(std::min(positive, n.size())),
                    [](int64_t size) { return size < 1; }))
        return std::nullopt;
    if (kind == "gemm" && n.size() == 3) return Workload{LayerClass::gemm, {product(n[0], n[1], n[2])}, ""};
    if ((kind == "layernorm" || kind == "softmax") && n.size() == 2)
        return Workload{
            LayerClass::norm, {rows(kind == "softmax" ? "softmax" : "layernorm", n[0], n[1])}, ""};
    if (kind == "attention" && n.size() == 3 &&
        double(n[0]) * double(n[1]) * double(std::max(n[1], n[2])) < 1e12)
        return Workload{LayerClass::attention, {attention(n[0], n[1], n[2])}, ""};
    if (kind != "conv" || n.size() != 8) return std::nullopt;
    // the columns of pictures and window: only square ones
    if (n[1] != n[2] || n[7] >= n[5] || n[1] + 2 * n[7] < n[5]) return std::nullopt;
    const double pictures = double(n[0]) * double(n[1] + 2 * n[7]) * double(n[2] + 2 * n[7]);
    const double weights = double(n[5]) * double(n[5]) * double(n[3]) * double(n[4]);
    constexpr double most = 1e12;  // elements
    if (pictures * double(std::max(n[3], n[4])) > most || weights > most) return std::nullopt;
    return Workload{n[5] == 1 ? LayerClass::pointwise : LayerClass::window,
                    {convolution(n[0], n[1], n[3], n[4], n[5], n[6], n[7])},
                    "layout of the picture"};
}

}  // namespace kpu::validation
