// Loads the operand words of a job from the memory outside into one half of both operand buffers, by two descriptors: the words of
// X, then those of Y. A word is asked for every `cycles_per_x` or `cycles_per_y` cycles; the memory answers in order, as late as
// it likes. A descriptor begins when the one before has written its last word.
module dma_front (
    input  logic        clk,
    input  logic        rst,
    input  logic        go,            // half `half` waits for its words
    output logic        half,
    output logic        done,          // its last word is written now
    input  logic [15:0] x_words,
    input  logic [15:0] y_words,
    input  logic  [7:0] cycles_per_x,
    input  logic  [7:0] cycles_per_y,
    output logic        request,
    output logic        request_y,
    output logic [15:0] address,       // of the word, within the job's X or Y
    input  logic        answer,
    output logic        write_x,
    output logic        write_y,
    output logic        write_half,
    output logic [15:0] write_addr
);
    logic [7:0] wait_left;
    logic [15:0] words;
    logic last_written;
    assign words = request_y ? y_words : x_words;
    assign request = go && wait_left == 0 && address != words;
    assign write_x = answer && !request_y;
    assign write_y = answer && request_y;
    assign write_half = half;
    assign last_written = answer && write_addr == words - 1;
    assign done = last_written && request_y;

    always_ff @(posedge clk) begin
        if (rst) begin
            {wait_left, request_y, address, half, write_addr} <= '0;
        end else begin
            if (request) begin
                wait_left <= (request_y ? cycles_per_y : cycles_per_x) - 1;
                address   <= address + 1;
            end else if (wait_left != 0) begin
                wait_left <= wait_left - 1;
            end
            if (answer) write_addr <= write_addr + 1;
            if (last_written) begin
                {address, write_addr, wait_left} <= '0;
                request_y <= !request_y;
                if (request_y) half <= !half;
            end
        end
    end
endmodule
