// FST through fstapi, the library of GTKWave's author, compiled from where the distribution has it (traces/CMakeLists.txt).
// It writes to files by their names, looks at no error, flushes by the size of the machine's memory, and packs slowly; so
// what it asks of the system is answered here.
#include "traces/fst/fst_file.hpp"

#include "base/diagnostics.hpp"

#ifdef KPUSIM_FSTAPI

#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/scratch_file.hpp"
#include "traces/waveform.hpp"

namespace {

/// Scratch files of the file that this thread writes.
struct Files {
    int scratch = -1;  ///< descriptor of what the library takes for its main file
    bool failed = false;
};
thread_local Files files;

FILE* open_memory() {
    const int memory = ::memfd_create("fst", MFD_CLOEXEC);
    return memory < 0 ? nullptr : ::fdopen(memory, "w+b");
}

/// The main file is the scratch file; what else it opens, to keep declarations until the end, is memory. That the machine
/// does not say how large its memory is makes it take the same blocks everywhere.
FILE* fst_fopen(const char* name, const char* /*mode*/) {
    if (std::strcmp(name, "/proc/meminfo") == 0) return nullptr;
    if (std::strcmp(name, "main") != 0) return open_memory();
    const int copy = ::dup(files.scratch);
    return copy < 0 ? nullptr : ::fdopen(copy, "w+b");
}
FILE* fst_tmpfile() { return open_memory(); }
int fst_unlink(const char* /*name*/) { return 0; }
/// A stream remembers that it could not write.
int fst_fclose(FILE* file) {
    const bool bad = std::ferror(file) != 0;
    const int closed = std::fclose(file);
    files.failed = files.failed || bad || closed != 0;
    return closed;
}
int fst_gzclose(gzFile file) {
    const int closed = ::gzclose(file);
    files.failed = files.failed || closed != Z_OK;
    return closed;
}

/// Levels above 3 take 60 % more of the whole writer's time, and save 5 % of the file.
int fst_compress2(Bytef* to, uLongf* room, const Bytef* from, uLong size, int level) {
    return ::compress2(to, room, from, size, std::min(level, 3));
}

}  // namespace

#define compress2 fst_compress2
#define fopen fst_fopen
#define tmpfile fst_tmpfile
#define unlink fst_unlink
#define fclose fst_fclose
#undef gzclose
#define gzclose fst_gzclose
#define FST_CONFIG_INCLUDE "fst_config.h"
#include <fastlz.c>
#include <fstapi.c>
#include <lz4.c>
#undef compress2
#undef fopen
#undef tmpfile
#undef unlink
#undef fclose
#undef gzclose

namespace kpu::traces {
namespace {

/// Bytes of changes that it keeps before it packs them.
constexpr size_t block_bytes = 32 << 20;

[[noreturn]] void no_room() {
    throw UserError(
        fmt::format("a temporary file in {}: {}. Fix: set TMPDIR to a folder on a disk with enough space.",
                    scratch_folder(), std::strerror(errno != 0 ? errno : ENOSPC)));
}

class FstSink final : public WaveformSink {
  public:
    FstSink() {
        files = {scratch_.descriptor(), false};
        errno = 0;
        writer_ = static_cast<fstWriterContext*>(fstWriterCreate("main", 1));
        if (writer_ == nullptr) no_room();
        writer_->fst_break_size = writer_->fst_orig_break_size = block_bytes;
        fstWriterSetDate(writer_, "");  // the same run is the same bytes
        fstWriterSetVersion(writer_, "kpusim FST 1");
        fstWriterSetTimescale(writer_, -12);
    }
    FstSink(const FstSink&) = delete;
    FstSink& operator=(const FstSink&) = delete;
    ~FstSink() override {
        if (writer_ != nullptr) fstWriterClose(writer_);
    }

    void comment(const std::string& text) override { fstWriterSetComment(writer_, text.c_str()); }
    void begin_scope(const std::string& name) override {
        fstWriterSetScope(writer_, FST_ST_VCD_MODULE, name.c_str(), nullptr);
    }
    void end_scope() override { fstWriterSetUpscope(writer_); }
    void declare(const std::string& name, Kind kind, unsigned bits) override {
        static constexpr std::array<fstVarType, 3> types = {FST_VT_GEN_STRING, FST_VT_VCD_REG,
                                                            FST_VT_VCD_REAL};
        const uint32_t length = kind == Kind::text ? 0 : kind == Kind::real ? sizeof(double) : bits;
        const fstVarType type = types[static_cast<size_t>(kind)];
        signals_.push_back(
            {fstWriterCreateVar(writer_, type, FST_VD_IMPLICIT, length, name.c_str(), 0), bits});
    }
    void begin_values() override {}
    void time(Picoseconds time) override { fstWriterEmitTimeChange(writer_, time); }
    void text(size_t signal, std::string_view value) override {
        fstWriterEmitVariableLengthValueChange(writer_, signals_[signal].handle, value.data(),
                                               static_cast<uint32_t>(value.size()));
    }
    void number(size_t signal, uint32_t value) override {
        fstWriterEmitValueChange32(writer_, signals_[signal].handle, signals_[signal].bits, value);
    }
    void unknown(size_t signal) override {
        fstWriterEmitValueChange(writer_, signals_[signal].handle,
                                 std::string(signals_[signal].bits, 'x').c_str());
    }
    void real(size_t signal, double value) override {
        fstWriterEmitValueChange(writer_, signals_[signal].handle, &value);
    }

    /// Completes the file and copies it.
    void finish(Output& output) {
        errno = 0;
        fstWriterClose(std::exchange(writer_, nullptr));
        struct stat status {};
        if (files.failed || ::fstat(scratch_.descriptor(), &status) != 0) no_room();
        std::string piece;
        const auto size = static_cast<uint64_t>(status.st_size);
        for (uint64_t at = 0; at < size; at += piece.size()) {
            constexpr uint64_t most = 1 << 20;
            piece.resize(std::min(most, size - at));
            scratch_.read(at, piece.data(), piece.size());
            output.write(piece);
        }
    }

  private:
    struct Signal {
        fstHandle handle;
        unsigned bits;
    };
    ScratchFile scratch_;
    fstWriterContext* writer_ = nullptr;
    std::vector<Signal> signals_;
};

}  // namespace

bool has_fst() { return true; }

void write_fst(const RunInfo& info, const Events& events, Output& output) {
    FstSink sink;
    write_waveform(info, events, sink);
    sink.finish(output);
}

}  // namespace kpu::traces

#else

namespace kpu::traces {

bool has_fst() { return false; }

void write_fst(const RunInfo& /*info*/, const Events& /*events*/, Output& /*output*/) {
    throw InternalError("a format that this build does not have is asked for");
}

}  // namespace kpu::traces

#endif
