#include "compiler/quantize/samples.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "base/npy.hpp"
#include "base/random.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/quantize/pictures.hpp"
#include "values/elementary.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

namespace fs = std::filesystem;
using graph::Data;
using graph::Graph;
using graph::HostType;
using graph::Port;

constexpr size_t max_samples = 1 << 20;

ElemType host_elem(const Graph& graph, const Port& port) {
    return port.elem == ElemType::none ? graph.value(port.value).elem : port.elem;
}

std::string_view host_dtype(const Graph& graph, const Port& port) {
    if (port.host == HostType::int64) return "<i8";
    if (port.host == HostType::uint64) return "<u8";
    if (port.host == HostType::float64) return "<f8";
    return port.host == HostType::boolean ? "|b1" : npy_dtype(host_elem(graph, port));
}

std::string_view host_type_name(const Graph& graph, const Port& port) {
    if (port.host == HostType::int64) return "i64";
    if (port.host == HostType::uint64) return "u64";
    if (port.host == HostType::float64) return "f64";
    return port.host == HostType::boolean ? "bool" : name_of(host_elem(graph, port));
}

std::vector<int64_t> host_sizes(const Graph& graph, const Port& port) {
    const Dims shape = graph::host_shape(graph, port);
    return {shape.begin(), shape.end()};
}

// ---- files

/// Layout of the colours of an input's pictures.
struct PictureLayout {
    int64_t batch = 1, channels = 0, height = 0, width = 0;
    bool planes = true;  ///< a plane for each colour; else the colours of a pixel side by side
};

PictureLayout picture_layout(const std::vector<int64_t>& shape, const Port& port, const std::string& path) {
    const auto colours = [](int64_t size) { return size == 3 || size == 1; };
    PictureLayout layout;
    const size_t rank = shape.size(), first = rank == 4 ? 1 : 0;
    if (rank == 4) layout.batch = shape[0];
    if ((rank == 3 || rank == 4) && colours(shape[first])) {
        layout.channels = shape[first];
        layout.height = shape[first + 1];
        layout.width = shape[first + 2];
    } else if ((rank == 3 || rank == 4) && colours(shape[first + 2])) {
        layout.planes = false;
        layout.height = shape[first];
        layout.width = shape[first + 1];
        layout.channels = shape[first + 2];
    } else if (rank == 2) {
        layout.channels = 1;
        layout.height = shape[0];
        layout.width = shape[1];
    }
    constexpr int64_t most = 1 << 16;
    if (layout.channels == 0 || layout.height > most || layout.width > most) {
        throw UserError(
            fmt::format("{}: input `{}` has shape ({}), which is not a picture of 1 or 3 colours. Fix: give "
                        ".npy samples.",
                        path, port.name, fmt::join(shape, ", ")));
    }
    return layout;
}

/// Returns one value for each colour; `fallback` where none is given.
std::vector<double> by_channel(const std::vector<double>& given, int64_t channels, double fallback,
                               std::string_view name) {
    if (given.empty()) return std::vector<double>(static_cast<size_t>(channels), fallback);
    if (given.size() == 1) return std::vector<double>(static_cast<size_t>(channels), given[0]);
    if (given.size() == static_cast<size_t>(channels)) return given;
    throw UserError(
        fmt::format("the image {} has {} values, but pictures have {} colours. Fix: give 1 or {}.", name,
                    given.size(), channels, channels));
}

/// Returns the grey of a colour by the weights of ITU-R 601 in 16 bits, as imaging libraries have them: grey
/// stays what it is.
uint8_t luminance(const uint8_t* rgb) {
    return static_cast<uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 32768U) >> 16);
}

Data picture_sample(const std::string& path, const Graph& graph, const Port& port,
                    const SampleOptions& options) {
    const ElemType elem = host_elem(graph, port);
    if (port.host != HostType::same || !is_float(elem)) {
        throw UserError(fmt::format("{}: input `{}` is {}, and pictures are floats. Fix: give .npy samples.",
                                    path, port.name, host_type_name(graph, port)));
    }
    const PictureLayout layout = picture_layout(host_sizes(graph, port), port, path);
    const auto mean = by_channel(options.mean, layout.channels, 0, "mean");
    const auto deviation = by_channel(options.deviation, layout.channels, 1, "deviation");
    for (const double value : deviation) {
        if (!(value > 0) || !std::isfinite(value))
            throw UserError(
                fmt::format("the image deviation has {}. Fix: deviations are positive numbers.", value));
    }
    const Picture picture =
        read_picture(path, static_cast<uint32_t>(layout.width), static_cast<uint32_t>(layout.height));
    const int64_t pixels = layout.height * layout.width, one = pixels * layout.channels;
    const size_t item = static_cast<size_t>(bit_width(elem)) / 8;
    std::vector<uint8_t> bytes(static_cast<size_t>(one) * item);
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        const uint8_t* rgb = &picture.rgb[static_cast<size_t>(pixel) * 3];
        for (int64_t c = 0; c < layout.channels; ++c) {
            const auto channel = static_cast<size_t>(c);
            const double level = (layout.channels == 1 ? luminance(rgb) : rgb[c]) / 255.0;
            const int64_t at = layout.planes ? c * pixels + pixel : pixel * layout.channels + c;
            values::store_float(elem, bytes.data(), at, (level - mean[channel]) / deviation[channel]);
        }
    }
    std::vector<uint8_t> batch;
    for (int64_t i = 0; i < layout.batch; ++i) batch.insert(batch.end(), bytes.begin(), bytes.end());
    return graph::make_data(std::move(batch));
}

Data array_sample(const std::string& path, const Graph& graph, const Port& port) {
    const std::vector<int64_t> wanted = host_sizes(graph, port);
    const auto accept = [&](const NpyArray& array) {
        check_npy_dtype(array, host_dtype(graph, port), host_type_name(graph, port), path);
        std::vector<int64_t> shape = array.shape;
        while (shape.size() < wanted.size() &&
               (wanted[wanted.size() - shape.size() - 1] == 1 || shape.size() + 1 == wanted.size()))
            shape.insert(shape.begin(), 1);
        if (!shape.empty() && shape[0] == 1) shape[0] = wanted[0];  // a batch repeats it
        if (shape == wanted) return;
        throw UserError(fmt::format(
            "{}: the sample has shape ({}), but input `{}` has shape ({}). Fix: save arrays of that shape.",
            path, fmt::join(array.shape, ", "), port.name, fmt::join(wanted, ", ")));
    };
    const NpyArray array = parse_npy(read_npy_bytes(path, accept), path);
    const ElemType elem = host_elem(graph, port);
    if (port.host == HostType::same && elem == ElemType::i4) check_npy_type(array, elem, path);
    std::vector<uint8_t> batch;
    for (uint64_t bytes = host_bytes(graph, port); batch.size() < bytes;)
        batch.insert(batch.end(), array.data.begin(), array.data.end());
    return graph::make_data(std::move(batch));
}

/// Returns the samples in a folder, by file name without its ending.
std::map<std::string, std::string> list_folder(const fs::path& folder) {
    std::map<std::string, std::string> found;
    std::error_code error;
    fs::directory_iterator entries(folder, error);
    if (error) {
        throw UserError(
            fmt::format("{}: the folder of samples cannot be read: {}. Fix: give a folder of .npy, "
                        ".png or .jpg files, or random:SEED.",
                        folder.string(), error.message()));
    }
    for (const fs::directory_entry& entry : entries) {
        const std::string path = entry.path().string();
        if (entry.path().extension() != ".npy" && !is_picture_name(path)) continue;
        if (!entry.is_regular_file(error)) continue;
        const auto [other, added] = found.emplace(entry.path().stem().string(), path);
        if (!added) {
            throw UserError(fmt::format("{} and {} are samples of one name. Fix: rename or remove one.",
                                        other->second, path));
        }
        if (found.size() > max_samples)
            throw UserError(
                fmt::format("{}: more than {} samples. Fix: use fewer.", folder.string(), max_samples));
    }
    return found;
}

std::string folder_name(std::string name) {
    std::replace(name.begin(), name.end(), '/', '_');
    std::replace(name.begin(), name.end(), '\0', '_');
    return name == "." || name == ".." ? "_" : name;
}

class FolderSamples : public Samples {
  public:
    FolderSamples(const Graph& graph, const std::string& folder, SampleOptions options)
        : graph_(graph), options_(std::move(options)) {
        std::error_code error;
        for (const Port& port : graph.inputs) {
            const fs::path own = fs::path(folder) / folder_name(port.name);
            const bool alone = graph.inputs.size() == 1 && !fs::is_directory(own, error);
            add_input(list_folder(alone ? fs::path(folder) : own), folder, port);
        }
        require_samples(count(), options_, folder);
    }

    size_t count() const override { return files_.size(); }
    bool calibrated() const override { return true; }
    std::vector<Data> load(size_t index) const override {
        std::vector<Data> arrays;
        for (size_t i = 0; i < graph_.inputs.size(); ++i) {
            const std::string& path = files_[index][i];
            arrays.push_back(is_picture_name(path) ? picture_sample(path, graph_, graph_.inputs[i], options_)
                                                   : array_sample(path, graph_, graph_.inputs[i]));
        }
        return arrays;
    }

  private:
    void add_input(const std::map<std::string, std::string>& found, const std::string& folder,
                   const Port& port) {
        const bool first = names_.empty();
        for (const auto& [name, path] : found) {
            if (!first) break;
            names_.push_back(name);
            files_.emplace_back();
        }
        for (const auto& [name, path] : found) {
            if (!std::binary_search(names_.begin(), names_.end(), name))
                unpaired(path, graph_.inputs[0].name);
        }
        for (size_t i = 0; i < names_.size(); ++i) {
            const auto file = found.find(names_[i]);
            if (file == found.end()) unpaired(files_[i][0], port.name);
            files_[i].push_back(file->second);
        }
        if (found.empty()) require_samples(0, options_, fmt::format("{}: input `{}`", folder, port.name));
    }
    [[noreturn]] static void unpaired(const std::string& path, const std::string& other) {
        throw UserError(fmt::format(
            "{}: input `{}` has no sample of this name. Fix: give every input a file of the name.", path,
            other));
    }

    const Graph& graph_;
    SampleOptions options_;
    std::vector<std::string> names_;               ///< sorted
    std::vector<std::vector<std::string>> files_;  ///< files of each sample, one for each input
};

// ---- random numbers

/// Normally distributed numbers by Marsaglia's polar method, the same on every machine.
class Normal {
  public:
    explicit Normal(uint64_t seed) : random_(seed) {}
    double next() {
        if (has_spare_) {
            has_spare_ = false;
            return spare_;
        }
        double u = 0, v = 0, square = 0;
        do {
            u = unit();
            v = unit();
            square = u * u + v * v;
        } while (square >= 1 || square == 0);
        const double factor = std::sqrt(-2 * values::elementary::log(square) / square);
        spare_ = v * factor;
        has_spare_ = true;
        return u * factor;
    }
    uint64_t bits() { return random_.next(); }

  private:
    double unit() { return static_cast<double>(random_.next() >> 11) * 0x1p-52 - 1; }
    SplitMix64 random_;
    double spare_ = 0;
    bool has_spare_ = false;
};

class RandomSamples : public Samples {
  public:
    RandomSamples(const Graph& graph, uint64_t seed, size_t count)
        : graph_(graph), seed_(seed), count_(count) {}
    size_t count() const override { return count_; }
    bool calibrated() const override { return false; }
    std::vector<Data> load(size_t index) const override {
        std::vector<Data> arrays;
        for (size_t i = 0; i < graph_.inputs.size(); ++i) {
            SplitMix64 mix(seed_ + index);
            mix.skip(i);
            Normal normal(mix.next());
            arrays.push_back(array(graph_.inputs[i], normal));
        }
        return arrays;
    }

  private:
    /// Integers are 0 or 1, which masks, kinds and indices take.
    Data array(const Port& port, Normal& normal) const {
        const ElemType elem = host_elem(graph_, port);
        std::vector<uint8_t> bytes(graph::host_bytes(graph_, port));
        const size_t item = bytes.size() / std::max<uint64_t>(1, graph_.value(port.value).elements());
        const bool floats = port.host == HostType::same && is_float(elem);
        for (size_t i = 0; i * item < bytes.size(); ++i) {
            if (port.host == HostType::float64) {
                values::store(bytes.data(), static_cast<int64_t>(i), normal.next());
            } else if (floats) {
                values::store_float(elem, bytes.data(), static_cast<int64_t>(i), normal.next());
            } else {
                bytes[i * item] = static_cast<uint8_t>(normal.bits() >> 63);
            }
        }
        return graph::make_data(std::move(bytes));
    }

    const Graph& graph_;
    uint64_t seed_;
    size_t count_;
};

// ---- the caller's

class GivenSamples : public Samples {
  public:
    explicit GivenSamples(std::vector<std::vector<Data>> arrays) : arrays_(std::move(arrays)) {}
    size_t count() const override { return arrays_.size(); }
    bool calibrated() const override { return true; }
    std::vector<Data> load(size_t index) const override { return arrays_[index]; }

  private:
    std::vector<std::vector<Data>> arrays_;
};

std::optional<uint64_t> seed_of(const std::string& from) {
    constexpr std::string_view word = "random:";
    if (from.compare(0, word.size(), word) != 0) return std::nullopt;
    const std::string digits = from.substr(word.size());
    const bool number =
        !digits.empty() && digits.size() <= 18 &&
        std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number)
        throw UserError(fmt::format("`{}` has no seed. Fix: write random:1, or another number.", from));
    return std::stoull(digits);
}

}  // namespace

void require_samples(size_t count, const SampleOptions& options, const std::string& origin) {
    if (count >= options.least) return;
    throw UserError(
        fmt::format("{}: INT8 calibration requires at least {} samples, found {}. Fix: add .npy, .png "
                    "or .jpg files, or calibrate with random:SEED.",
                    origin, options.least, count));
}

std::unique_ptr<Samples> open_samples(const Graph& graph, const std::string& from,
                                      const SampleOptions& options) {
    if (const auto seed = seed_of(from))
        return std::make_unique<RandomSamples>(graph, *seed, std::max<size_t>(8, options.least));
    return std::make_unique<FolderSamples>(graph, from, options);
}

std::unique_ptr<Samples> given_samples(const Graph& graph, std::vector<std::vector<Data>> arrays,
                                       const SampleOptions& options) {
    require_samples(arrays.size(), options, "calibration data");
    for (size_t i = 0; i < arrays.size(); ++i) {
        bool fits = arrays[i].size() == graph.inputs.size();
        for (size_t k = 0; fits && k < arrays[i].size(); ++k)
            fits = arrays[i][k].size == graph::host_bytes(graph, graph.inputs[k]);
        if (!fits) {
            throw UserError(
                fmt::format("calibration sample {} does not have an array of the right size for each "
                            "of {} inputs. Fix: give arrays of the inputs' shapes and types.",
                            i, graph.inputs.size()));
        }
    }
    return std::make_unique<GivenSamples>(std::move(arrays));
}

}  // namespace kpu::quantize
