#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kpu::dram {

/// One line of a trace.
struct TraceRequest {
    uint64_t time = 0;     ///< nCK
    uint64_t address = 0;  ///< byte
    bool is_write = false;
    uint64_t line = 0;  ///< where it stands, from 1
};

/// Where requests come from, in the order in which they are to be served.
class TraceSource {
  public:
    virtual ~TraceSource() = default;
    virtual std::optional<TraceRequest> next() = 0;
    virtual const std::string& name() const = 0;
};

/// How a memory trace of a run becomes bursts.
struct RunTraceOptions {
    double core_ns = 1;         ///< of a core cycle
    uint64_t burst_bytes = 64;  ///< longer accesses are several requests
};

/// A trace file, read line by line, in one of three forms (the first line tells which):
///
///     number,R|W,0xADDRESS,NANOSECONDS        csv
///     CLOCK: read|write 0xADDRESS             stl; CLOCK counts clocks of the DRAM
///     cycle,access,level,address,bytes,...    what `kpusim run --memory-trace` writes: its accesses to DRAM
///
/// Empty lines and lines that begin with # are skipped. Throws UserError as file:line: for anything else, and
/// for times that go back.
class TraceFile final : public TraceSource {
  public:
    /// "-" is standard input. Throws UserError when the file cannot be read.
    TraceFile(const std::string& path, double tck_ns, RunTraceOptions options = {});
    std::optional<TraceRequest> next() override;
    const std::string& name() const override { return name_; }

  private:
    enum class Form : uint8_t { unknown, csv, stl, run };
    bool read_line(std::string_view& line);
    /// Nothing for a line that holds no request to DRAM.
    std::optional<TraceRequest> parse(std::string_view text);
    std::optional<TraceRequest> parse_run(std::string_view text);
    TraceRequest parse_csv(std::string_view text) const;
    TraceRequest parse_stl(std::string_view text) const;
    uint64_t parse_address(std::string_view text) const;
    TraceRequest next_burst();
    bool fill();
    [[noreturn]] void fail(const std::string& what, const std::string& fix) const;

    struct Close {
        void operator()(std::FILE* file) const {
            if (file != stdin) std::fclose(file);
        }
    };
    std::string name_;
    double tck_ns_;
    std::unique_ptr<std::FILE, Close> file_;
    std::string buffer_;
    size_t position_ = 0;
    bool ended_ = false;
    Form form_ = Form::unknown;
    uint64_t line_ = 0, last_time_ = 0;
    RunTraceOptions options_;
    TraceRequest access_;      ///< of a run: what its next burst continues
    uint64_t bytes_left_ = 0;  ///< of it
};

}  // namespace kpu::dram
