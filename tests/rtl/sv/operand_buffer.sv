// Double-buffered operand SRAM: one half is written while the other is read. The reader walks the half's words in the order in
// which the array wants them (outer x inner folds of `len` words) and keeps a few of them ahead. The SRAM delivers
// `elements_per_cycle`; words of the last outer or inner folds hold fewer elements, and only those are read.
module operand_buffer #(
    parameter int WORD_W = 32,
    parameter int ELEMENTS = 4,  // of a word
    parameter int DEPTH = 2048,
    parameter int ADDR_W = $clog2(DEPTH)
) (
    input  logic              clk,
    input  logic              rst,
    input  logic        [7:0] elements_per_cycle,
    // writing
    input  logic              write,
    input  logic              write_half,
    input  logic [ADDR_W-1:0] write_addr,
    input  logic [WORD_W-1:0] write_data,
    // reading: `go` while half `half` is full and the walk below is its job's; `half` steps on after the last word, and `release_`
    // says that half `release_half` gets other words, for it is not read again before
    input  logic              go,
    output logic              half,
    input  logic              release_,
    input  logic              release_half,
    input  logic       [15:0] outer,
    input  logic       [15:0] inner,
    input  logic       [15:0] len,
    input  logic       [15:0] outer_stride,
    input  logic       [15:0] inner_stride,
    input  logic       [15:0] last_outer,    // elements of a word in the last outer folds
    input  logic       [15:0] last_inner,    // ... in the last inner fold of each outer one
    input  logic       [15:0] last_inner_skip,  // words at its begin that hold none
    // the array's side
    output logic              available,
    output logic [WORD_W-1:0] word,
    input  logic              pop
);
    localparam int AHEAD = 16;  // a power of two
    logic [WORD_W-1:0] memory[2*DEPTH];
    always_ff @(posedge clk) if (write) memory[{write_half, write_addr}] <= write_data;

    logic [15:0] i, j, n, outer_at, inner_at;
    logic [15:0] need, have, fetched;  // elements: of the word in progress, left over or read of it so far
    logic reading;
    logic [ADDR_W:0] reading_addr;
    logic issue, deliver, last_n, last_j, last_i;
    logic [1:0] is_read;
    logic [4:0] count, room;

    assign fetched = have + 16'(elements_per_cycle);
    assign deliver = reading && fetched >= need;
    assign room = 5'(AHEAD) - count - 5'(reading);
    assign issue = go && !is_read[half] && room != 0 && (!reading || deliver);
    assign last_n = n == len - 1;
    assign last_j = j == inner - 1;
    assign last_i = i == outer - 1;

    logic [15:0] by_outer, by_inner, left;
    assign by_outer = last_i ? last_outer : 16'(ELEMENTS);
    assign by_inner = !last_j ? 16'(ELEMENTS) : n < last_inner_skip ? '0 : last_inner;
    assign left = fetched - need;

    always_ff @(posedge clk) begin
        if (rst) begin
            {i, j, n, outer_at, inner_at, need, have, half, reading, is_read} <= '0;
        end else begin
            // what one cycle brings too much is kept for the next word
            if (deliver) have <= left < 16'(elements_per_cycle) ? left : 16'(elements_per_cycle);
            else if (reading) have <= fetched;
            if (release_) is_read[release_half] <= 1'b0;
            if (issue) begin
                reading <= 1'b1;
                need <= by_outer < by_inner ? by_outer : by_inner;
                reading_addr <= {half, ADDR_W'(outer_at + inner_at + n)};
                n <= last_n ? '0 : n + 1;
                if (last_n) begin
                    j <= last_j ? '0 : j + 1;
                    inner_at <= last_j ? '0 : inner_at + inner_stride;
                    if (last_j) begin
                        i <= last_i ? '0 : i + 1;
                        outer_at <= last_i ? '0 : outer_at + outer_stride;
                        if (last_i) begin
                            is_read[half] <= 1'b1;
                            half <= !half;
                        end
                    end
                end
            end else if (deliver) begin
                reading <= 1'b0;
            end
        end
    end

    // words read ahead
    logic [WORD_W-1:0] queue[AHEAD];
    logic [3:0] head, tail;
    always_ff @(posedge clk) begin
        if (rst) begin
            {head, tail, count} <= '0;
        end else begin
            if (deliver) begin
                queue[tail] <= memory[reading_addr];
                tail <= tail + 1;
            end
            if (pop) head <= head + 1;
            count <= count + 5'(deliver) - 5'(pop);
        end
    end
    assign available = count != 0;
    assign word = queue[head];
endmodule
